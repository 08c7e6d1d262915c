"""Which expressions are an error for some value: what is called calm raises for no extreme of its columns' types.

The mirror computes what is calm in one condition for all pairs; one that raised there would keep them all from moving.
"""

from __future__ import annotations

from contextlib import closing

from pymysql.cursors import Cursor
from pymysql.err import MySQLError

from orchestrator.model.contract import TableName
from orchestrator.mysql.expression import parse
from orchestrator.mysql.session import Session
from orchestrator.sandbox.server import Server
from tests.support.servers import connect, script
from tests.support.shapes import live_shape
from tests.support.state import settings_of

TABLE = (
    "CREATE TABLE x (id INT PRIMARY KEY, i INT, b BIGINT, u INT UNSIGNED, ub BIGINT UNSIGNED, bit_ BIT(64), y YEAR,"
    " d DECIMAL(65,0), ud DECIMAL(10,2) UNSIGNED, s VARCHAR(40), at DATETIME(6), a0 DATETIME, ts TIMESTAMP,"
    " e ENUM('9','a'), f DOUBLE, j JSON); INSERT INTO x VALUES"
    " (1, -2147483648, -9223372036854775808, 0, 0, 0, 1901, -{nines}, 0, '-1e308', '1000-01-01', '1000-01-01',"
    " '1970-01-02', '9', -1e308, '-1e308'),"
    " (2, 2147483647, 9223372036854775807, 4294967295, 18446744073709551615, ~0, 2155, {nines}, 99999999.99, '1e308',"
    " '9999-12-31 23:59:59.999999', '9999-12-31', '2038-01-01', 'a', 1e308, '1e308'),"
    " (3, -1, -1, 1, 1, 1, 1970, -1, 0.01, 'x', '2026-07-01', '2026-07-01', '2026-07-01', '9', -1, '[1]');"
).format(nines="9" * 65)
EXPRESSIONS = (
    *(f"{column} {sign} 2147483648" for column in ("i", "b", "u", "ub", "bit_", "y", "d", "ud") for sign in "+-*"),
    *(
        f"{call}({column})"
        for call in ("ABS", "CEIL", "FLOOR", "SIGN")
        for column in ("i", "b", "ub", "d", "s", "bit_")
    ),
    *(f"ROUND({column}, -1)" for column in ("i", "b", "ub", "d", "s")),
    *(f"{left} {sign} {right}" for left, right in (("i", "i"), ("u", "u"), ("b", "b"), ("y", "y")) for sign in "+-*"),
    *(f"{call}({column}) - 4294967296" for call in ("CRC32", "LENGTH", "ORD", "BIT_LENGTH") for column in ("s", "i")),
    *(
        "CRC32(s) * 2",
        "CRC32(s) + 1",
        "CRC32(s) * CRC32(j)",
        "LENGTH(s) * LENGTH(j)",
        "ISNULL(i) - 5",
        "LOCATE('x', s) - 5",
    ),
    *("-b", "-ub", "-i", "-bit_", "-y", "-CRC32(s)", "~i - 1", "(u & 255) - 256", "(i | 1) * 3", "(i << 1) - 1"),
    *("b DIV -1", "ub DIV -1", "i DIV -1", "b DIV i", "b % -1", "b MOD i", "b / i", "ub / i", "ub DIV i", "u DIV i"),
    *("CAST(i AS UNSIGNED) - 1", "CAST(i AS UNSIGNED) * 2", "CAST(b AS SIGNED) * 2", "CAST(s AS SIGNED) * 2"),
    *("s * 10", "s + s", "e * 2", "e - 5", "j * 10", "f * 2", "f + f", "at + 0", "at * 2", "at * at"),
    *("at + INTERVAL 1 DAY", "at - INTERVAL i DAY", "d * 2", "d + d", "d - d", "ud - 1", "ud * 2", "d / 2"),
    *("i * 1000", "u * 1000", "b * 1000", "ub * 1000", "LEAST(CEIL(b / 1000), 2147483647)", "i + 1", "u - 1", "ub - 1"),
    *("IF(i > 0, u, ub) - 1", "COALESCE(u, 0) - 5", "GREATEST(u, 0) - 5", "IFNULL(bit_, 0) - 5", "LEAST(ub, 7) - 8"),
    *("a0 * a0", "a0 + 1", "a0 - 99999999", "d * d", "i + 18446744073709551615", "i - 9223372036854775807"),
    *("i + 0xFFFFFFFFFFFFFFFF", "i * '1e308'", "s DIV 2", "d DIV 2", "b DIV 2", "ub DIV 2", "i DIV 1000", "b DIV 0.5"),
    *(
        "(b * 1000) DIV 3",
        "(b + 999) DIV 1000",
        "(b + 9) DIV 2",
        "ub DIV 100 + ub",
        "ub DIV 1000 + (MOD(ub, 1000) > 0)",
        "i + CRC32(s)",
        "i * CRC32(s)",
        "ABS(b DIV 1)",
        "ABS(b + 0)",
        "UNIX_TIMESTAMP(ts) - 99999999999",
    ),
    *("(i + i) * (i + i)", "i * (i + i)", "(i - i) * 999999999", "i * i - i", "-i * i"),
    *("i * 2147483647 * i", "i * i + 99999999999999999", "ABS(i - 5)", "LEFT(s, 5) * 10", "IF(s > 5, i, u) * 3"),
)


CALM = (
    *(
        "i * 1000",
        "b * 1000",
        "u - 1",
        "i DIV 1000",
        "ub DIV 2",
        "LEAST(CEIL(b / 1000), 2147483647)",
        "ABS(i)",
        "b % 7",
    ),
    *(
        "at + INTERVAL i SECOND",
        "(b + 999) DIV 1000",
        "ub DIV 1000 + (MOD(ub, 1000) > 0)",
        "CONCAT(s, '-', i)",
        "CRC32(s)",
        "bit_",
        "i & 255",
        "d + d",
    ),
)


def refused(cursor: Cursor, sql: str) -> str:
    """What the server says for some row; "" when it computes it for all."""
    try:
        cursor.execute(f"SELECT {sql} FROM x AS t")
    except MySQLError as error:
        return str(error)
    return ""


def test_what_is_called_calm_raises_for_no_extreme_of_its_columns(primary: Server, schema: str) -> None:
    script(primary, TABLE, schema)
    with closing(Session(settings_of(primary))) as session:
        shape = live_shape(session, TableName(schema, "x"))
    columns = {c.name.lower(): c for c in shape.columns}
    wrong = []
    with closing(connect(primary, database=schema)) as application, application.cursor() as cursor:
        cursor.execute("SET sql_mode = ''")
        for sql in EXPRESSIONS:
            parsed = parse(sql, columns, "x")
            said = refused(cursor, parsed.render(lambda name: f"t.`{name}`"))
            if said and parsed.is_calm:
                wrong.append((sql, said))
    assert wrong == []
    # Else every UPDATE of another column pays for it.
    assert [sql for sql in CALM if not parse(sql, columns, "x").is_calm] == []
