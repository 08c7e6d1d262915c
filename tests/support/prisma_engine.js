// Prisma's own engine behind one line of JSON each way: {"files": [[name, text]]} → {"error": …} or {"dmmf": …}.
const engine = require(process.argv[2] + "/src/prisma_schema_build.js");
require("readline")
  .createInterface({ input: process.stdin })
  .on("line", (line) => {
    const params = JSON.stringify({ prismaSchema: JSON.parse(line).files, noColor: true });
    let answer;
    try {
      engine.validate(params);
      answer = { dmmf: JSON.parse(engine.get_dmmf(params)).datamodel };
    } catch (error) {
      answer = { error: error.message || String(error) };
    }
    process.stdout.write(JSON.stringify(answer) + "\n");
  });
