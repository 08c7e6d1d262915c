// The real Mermaid behind one line of JSON each way: {"text": …} → {"error": …} or {"type", "entities", "relations"}.
import { createInterface } from "node:readline";
import { pathToFileURL } from "node:url";

const { default: mermaid } = await import(pathToFileURL(process.argv[2] + "/dist/mermaid.esm.min.mjs").href);
for await (const line of createInterface({ input: process.stdin })) {
  let answer;
  try {
    const { text } = JSON.parse(line);
    await mermaid.parse(text); // also makes its kinds of diagram known
    const diagram = await mermaid.mermaidAPI.getDiagramFromText(text);
    const entities = [...diagram.db.getEntities().entries()];
    answer = {
      type: diagram.type,
      entities: Object.fromEntries(entities.map(([name, of]) => [name, of.attributes])),
      relations: diagram.db.getRelationships().map((of) => of.roleA),
    };
  } catch (error) {
    answer = { error: error.message || String(error) };
  }
  process.stdout.write(JSON.stringify(answer) + "\n");
}
