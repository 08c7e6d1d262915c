"""What applications say to the database: the flag, their health, and the statements of traffic on any table.

Statements for traffic carry ``:name`` placeholders (see ``sandbox.statements``), the others are ready for the driver.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from orchestrator.model.contract import TableName
from orchestrator.model.keys import Key
from orchestrator.mysql import quote

HEALTH_TABLE = "AppHealth"


def read_flag(state_schema: str) -> str:
    """The question of SPEC §2, and whether both columns are to be written; one argument: the rollout. Expiry is judged
    by the server's clock only."""
    return (
        "SELECT IF(expires_at > UTC_TIMESTAMP(6), new_writes, 0), "
        "IF(expires_at > UTC_TIMESTAMP(6), read_percent, 0), salt, double_writes "
        f"FROM {quote.name(state_schema)}.flag WHERE rollout = %s"
    )


def read_percent(state_schema: str) -> str:
    """Where the flag stands, whether it has expired or not; one argument: the rollout."""
    return f"SELECT read_percent FROM {quote.name(state_schema)}.flag WHERE rollout = %s"


def create_health(schema: str) -> str:
    return (
        f"CREATE TABLE IF NOT EXISTS {quote.table(TableName(schema, HEALTH_TABLE))} (app VARCHAR(32) NOT NULL, "
        "second DATETIME NOT NULL, requests INT NOT NULL, errors INT NOT NULL, PRIMARY KEY (app, second))"
    )


def report_health(schema: str) -> str:
    """Arguments: application, requests, errors since the last report. ``second`` is UTC, by the server's clock."""
    return (
        f"INSERT INTO {quote.table(TableName(schema, HEALTH_TABLE))} (app, second, requests, errors) "
        "VALUES (%s, UTC_TIMESTAMP(), %s, %s) ON DUPLICATE KEY UPDATE requests = requests + VALUES(requests), "
        "errors = errors + VALUES(errors)"
    )


def column_names(table: TableName) -> tuple[str, tuple[str, ...]]:
    """Live column names of a table."""
    text = "SELECT COLUMN_NAME FROM information_schema.COLUMNS WHERE TABLE_SCHEMA = %s AND TABLE_NAME = %s"
    return text, (table.schema, table.name)


def page(
    table: TableName, key: Sequence[str], columns: Sequence[str], after: Key | None, rows: int
) -> tuple[str, tuple[object, ...]]:
    """The next rows in key order: the key's parts, then the columns."""
    where, args = _beyond(key, after) if after is not None else ("", ())
    order = quote.names(list(key))
    text = f"SELECT {quote.names([*key, *columns])} FROM {quote.table(table)}{where} ORDER BY {order} LIMIT {rows:d}"
    return text, args


def _beyond(key: Sequence[str], after: Key) -> tuple[str, tuple[object, ...]]:
    """``a > x OR (a = x AND b > y)``: a row constructor would not use the index."""
    terms: list[str] = []
    args: list[object] = []
    for at, part in enumerate(key):
        equals = "".join(f"{quote.name(p)} = %s AND " for p in key[:at])
        terms.append(f"({equals}{quote.name(part)} > %s)")
        args += [*after[:at], after[at]]
    return " WHERE " + " OR ".join(terms), tuple(args)


def pick(table: TableName, columns: Sequence[str], rows: int) -> str:
    """Values that exist, for columns that refer to another table."""
    return f"SELECT {quote.names(list(columns))} FROM {quote.table(table)} LIMIT {rows:d}"


def by_key(key: Sequence[str], row: str) -> str:
    """``k = :row`` for one column, ``a = :row.a AND b = :row.b`` for several."""
    if len(key) == 1:
        return f"{quote.name(key[0])} = :{row}"
    return " AND ".join(f"{quote.name(part)} = :{row}.{part.lower()}" for part in key)


def by_keys(key: Sequence[str], rows: Sequence[str]) -> str:
    return " OR ".join(f"({by_key(key, row)})" for row in rows)


def insert(
    table: TableName,
    key: Sequence[str],
    rows: Sequence[str],
    values: Mapping[str, str],
    on_duplicate: Sequence[str] = (),
) -> str:
    """One or more rows; ``values`` maps a column to its placeholder, which gets the row's number behind it."""
    columns = [*key, *values]
    texts = []
    for at, row in enumerate(rows):
        keys = [f":{row}" if len(key) == 1 else f":{row}.{part.lower()}" for part in key]
        texts.append("(" + ", ".join([*keys, *(numbered(v, at) for v in values.values())]) + ")")
    upsert = ", ".join(f"{quote.name(c)} = VALUES({quote.name(c)})" for c in on_duplicate)
    tail = f" ON DUPLICATE KEY UPDATE {upsert}" if upsert else ""
    return f"INSERT INTO {quote.table(table)} ({quote.names(columns)}) VALUES {', '.join(texts)}{tail}"


def numbered(placeholder: str, at: int) -> str:
    """``:old2.status`` for the third row, so that each row of a statement gets values of its own."""
    word, dot, column = placeholder.partition(".")
    return f"{word}{at or ''}{dot}{column}"


def update(table: TableName, values: Mapping[str, str], where: str) -> str:
    assignments = ", ".join(f"{quote.name(c)} = {v}" for c, v in values.items())
    return f"UPDATE {quote.table(table)} SET {assignments} WHERE {where}"


def increment(column: str) -> str:
    """One more than before; begins again long before any type ends."""
    return f"{quote.name(column)} % 1000000 + 1"


def delete(table: TableName, where: str) -> str:
    return f"DELETE FROM {quote.table(table)} WHERE {where}"


def select(table: TableName, columns: Sequence[str], where: str, tail: str = "") -> str:
    return f"SELECT {quote.names(list(columns))} FROM {quote.table(table)} WHERE {where}{tail}"


def create_schema(schema: str) -> str:
    return f"CREATE DATABASE IF NOT EXISTS {quote.name(schema)}"


def use(schema: str) -> str:
    return f"USE {quote.name(schema)}"


def insert_rows(
    table: TableName, columns: Sequence[str], rows: Sequence[Sequence[object]]
) -> tuple[str, tuple[object, ...]]:
    """Many rows in one statement, values as arguments."""
    one = "(" + ", ".join(["%s"] * len(columns)) + ")"
    text = f"INSERT INTO {quote.table(table)} ({quote.names(list(columns))}) VALUES {', '.join([one] * len(rows))}"
    return text, tuple(value for row in rows for value in row)


# What a server has executed, and on a replica whether it has that too (arguments: the set, seconds): 0 when it has.
EXECUTED = "SELECT @@GLOBAL.gtid_executed"
HAS_EXECUTED = "SELECT WAIT_FOR_EXECUTED_GTID_SET(%s, %s)"


def create_account(user: str, host: str, password: str, grants: str, *, grants_on: bool) -> tuple[str, str]:
    """The two statements that make an account: it is there, and it may do that."""
    name = f"{quote.literal(user)}@{quote.literal(host)}"
    option = " WITH GRANT OPTION" if grants_on else ""
    return (
        f"CREATE USER IF NOT EXISTS {name} IDENTIFIED BY {quote.literal(password)}",
        f"GRANT {grants} TO {name}{option}",
    )
