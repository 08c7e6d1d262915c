"""What the mirror is tried with: the edges of every type, in every kind of statement that writes rows. Pure.

Every text is what an application could say under any sql_mode: literals without escapes, identifiers in backticks.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from msgspec import Struct

from orchestrator.model.contract import Column, TableName, ValueMap
from orchestrator.model.contract import Mapping as Pairing
from orchestrator.model.facts import Trigger
from orchestrator.model.types import Family, decimal_bound
from orchestrator.mysql import quote
from orchestrator.mysql.quote import name, table, text
from orchestrator.mysql.sql.family_copy import sample
from orchestrator.mysql.sql.statement_trial import prepare, run

# The longest text that is tried: more only costs memory, and a shorter limit is always tried to its end.
_LONGEST_CHARS = 20_000
_MAP_VALUES = 4
FIRST, SECOND, FRESH = 1, 2, 6
LOADED = (FRESH, FRESH + 1, FRESH + 2)


class Case(Struct, frozen=True):
    """``writes``: the mapped columns that it names, in lower case. ``inserts``: it may make rows, so that NULL and the
    default count as not given. ``counts``: the number of rows that it touched is the same with any trigger (where a
    column takes no NULL, the server counts a row that was made 0 or empty from NULL otherwise; and a REPLACE by the
    same row, which the mirror may make of it, counts 1)."""

    what: str
    statements: tuple[str, ...]
    writes: frozenset[str]
    inserts: bool = False
    counts: bool = True


class Target(Struct, frozen=True):
    """The copy under trial. ``row(n)``: literals of one more row; ``where(n)``: its n-th row by its key."""

    table: TableName
    key: tuple[Column, ...]
    rows: Mapping[int, Mapping[str, str]]

    def where(self, number: int) -> str:
        return " AND ".join(f"{name(c.name)} = {sample(c, number)}" for c in self.key)


def edges(column: Column) -> tuple[str, ...]:
    """Literals: least, greatest, empty, longest, multi-byte, NULL, and some that the type does not take."""
    kind, found = column.type, tuple[str, ...]()
    match kind.family:
        case Family.INTEGER | Family.YEAR | Family.BIT:
            low, high = kind.integer_range
            found = (str(low), str(high), "0", "1", str(high + 1))
        case Family.DECIMAL:
            bound = decimal_bound(kind)
            step = f"{bound - 1}{'.' + '9' * kind.scale if kind.scale else ''}"
            found = (step, f"-{step}", "0", str(bound))
        case Family.FLOAT:
            found = ("0.1e0", "-3.4e38", "1e300", "0e0")
        case Family.TEXT:
            found = _texts(column)
        case Family.BINARY:
            length = min(kind.length or 1, _LONGEST_CHARS)
            found = ("X''", f"REPEAT(X'FF', {length})", "X'27005C'")
        case Family.ENUM | Family.SET:
            both = text(",".join(kind.labels[:2]))
            found = (text(kind.labels[0]), text(kind.labels[-1]), text("~"), *((both,) if kind.base == "set" else ()))
        case Family.TEMPORAL:
            found = _moments(column)
        case Family.TIME:
            found = (text("-838:59:59"), text("838:59:59"), text("00:00:00.600000"))
        case Family.JSON:
            found = (text("{}"), text("null"), text('{"b": 1, "a": [2.50]}'), text("{bad"))
        case Family.SPATIAL:
            pass
    return (*found, "NULL")


def _texts(column: Column) -> tuple[str, ...]:
    limit = column.type.length if column.type.byte_limit is None else column.type.byte_limit // 4
    longest = min(limit or 0, _LONGEST_CHARS)
    wide = "😀" if (column.charset or "utf8mb4") == "utf8mb4" else "é"
    over = (f"REPEAT('x', {longest + 1})",) if longest < _LONGEST_CHARS else ()
    return (text(""), text("ß "), f"REPEAT({text(wide)}, {longest})", text("7"), *over)


def _moments(column: Column) -> tuple[str, ...]:
    if column.type.base == "timestamp":
        return text("1970-01-02 00:00:01"), text("2038-01-18 03:14:07.600000"), text("0000-00-00 00:00:00")
    return text("1000-01-01"), text("9999-12-31 23:59:59.400000"), text("0000-00-00"), text("2026-03-29 02:30:00")


def named(column: Column, mappings: Sequence[Pairing]) -> tuple[str, ...]:
    """What value maps name of the column, as text that any type takes."""
    found: list[str] = []
    for mapping in mappings:
        ways = ((mapping.old, mapping.forward), (mapping.new, mapping.backward))
        for of, way in ways:
            if isinstance(way, ValueMap) and (of or "").lower() == column.name.lower():
                found += [text(v) for v, _ in way.values[:_MAP_VALUES] if v is not None]
    return tuple(found)


def edge_cases(target: Target, column: Column, values: Sequence[str]) -> Iterator[Case]:
    """Each value written by an UPDATE of a row that is there, and by an INSERT of a new one."""
    of, wrote = table(target.table), frozenset({column.name.lower()})
    for value in values:
        counts = column.null or value != "NULL"
        said = f"{name(column.name)} = {value}"
        yield Case(
            f"UPDATE with {said}", (f"UPDATE {of} SET {said} WHERE {target.where(FIRST)}",), wrote, counts=counts
        )
        yield Case(f"INSERT with {said}", (_insert(target, (FRESH,), column, value),), wrote, True, counts)


def kind_cases(target: Target, column: Column, value: str, *, is_source: bool) -> Iterator[Case]:
    """The value written by every kind of statement. VALUES() of a new column reads what the mirror made of it
    (documented), so its value is written out."""
    of, col, wrote = table(target.table), name(column.name), frozenset({column.name.lower()})
    update = f"UPDATE {of} SET {col} = {value}"
    known = _insert(target, (FIRST,), column, value)
    prepared = quote.text(f"{update} WHERE {target.where(FIRST)}")
    arm = f"VALUES({col})" if is_source else value
    several = _insert(target, (FRESH, FRESH + 1, FRESH + 2), column, value)
    columns, literals = _fresh(target, column)
    select = f"INSERT INTO {of} ({columns}, {col}) SELECT {literals}, {value} FROM {of} WHERE {target.where(SECOND)}"
    found: tuple[tuple[str, tuple[str, ...], bool], ...] = (
        ("UPDATE of all rows", (update,), False),
        ("UPDATE IGNORE", (update.replace("UPDATE", "UPDATE IGNORE", 1),), False),
        ("UPDATE, prepared", (f"SET @_rollout_text = {prepared}", *_EXECUTE), False),
        (
            "UPDATE of the row with what it holds",
            (f"UPDATE {of} SET {col} = {col} WHERE {target.where(FIRST)}",),
            False,
        ),
        ("INSERT of several rows", (several,), True),
        ("INSERT IGNORE of a row that is there", (known.replace("INSERT", "INSERT IGNORE", 1),), True),
        ("INSERT of a row that is there", (known,), True),
        ("INSERT … SELECT", (select,), True),
        ("INSERT … ON DUPLICATE KEY UPDATE", (f"{known} ON DUPLICATE KEY UPDATE {col} = {arm}",), True),
        (
            "INSERT … ON DUPLICATE KEY UPDATE of a new row",
            (f"{several} ON DUPLICATE KEY UPDATE {col} = {value}",),
            True,
        ),
        ("REPLACE of a row that is there", (known.replace("INSERT", "REPLACE", 1),), True),
        ("DELETE", (f"DELETE FROM {of} WHERE {target.where(FIRST)} AND NOT ({col} <=> {value})",), False),
    )
    for kind, statements, inserts in found:
        counts = (column.null or value != "NULL") and not kind.startswith("REPLACE")
        yield Case(f"{kind} with {col} = {value}", statements, wrote, inserts, counts)


def load_case(target: Target, column: Column, value: str, path: str) -> Case:
    """LOAD DATA LOCAL of the rows of ``LOADED``: each line of the file says which one it is."""
    columns = [c for c in target.rows[FRESH] if c.lower() != column.name.lower()]
    sets = []
    for c in columns:
        whens = (f"WHEN {text(str(n))} THEN {target.rows[n][c]}" for n in LOADED)
        sets.append(f"{name(c)} = CASE @_rollout_row {' '.join(whens)} END")
    said = f"LOAD DATA LOCAL INFILE {quote.literal(path)} INTO TABLE {table(target.table)} (@_rollout_row)"
    said += f" SET {', '.join([*sets, f'{name(column.name)} = {value}'])}"
    counts = column.null or value != "NULL"
    return Case(
        f"LOAD DATA with {name(column.name)} = {value}", (said,), frozenset({column.name.lower()}), True, counts
    )


_EXECUTE = ("PREPARE _rollout_said FROM @_rollout_text", "EXECUTE _rollout_said")


def declared_case(statement: str, arguments: Sequence[str], writes: frozenset[str], *, counts: bool) -> Case:
    """A statement of the runbook with ``?`` bound to those literals."""
    spoken = (*prepare(statement), *run(arguments))
    return Case(f"the declared {statement}", spoken, writes, inserts=True, counts=counts)


def pace_cases(target: Target, column: Column, count: int) -> Sequence[str]:
    """``count`` single-row UPDATEs of one column, each of which changes the row."""
    of = table(target.table)
    return [
        f"UPDATE {of} SET {name(column.name)} = {sample(column, 1 + n % 2)} WHERE {target.where(FIRST)}"
        for n in range(count)
    ]


def pace_inserts(target: Target) -> Sequence[str]:
    """A single-row INSERT of every row that is still free."""
    of = table(target.table)
    rows = [target.rows[n] for n in sorted(target.rows) if n >= FRESH]
    return [f"INSERT INTO {of} ({quote.names(list(row))}) VALUES ({', '.join(row.values())})" for row in rows if row]


def _insert(target: Target, numbers: Sequence[int], column: Column, value: str) -> str:
    columns = [c for c in target.rows[FRESH] if c.lower() != column.name.lower()]
    tuples = [", ".join([*(target.rows[n][c] for c in columns), value]) for n in numbers]
    values = ", ".join(f"({t})" for t in tuples)
    return f"INSERT INTO {table(target.table)} ({quote.names([*columns, column.name])}) VALUES {values}"


def _fresh(target: Target, column: Column) -> tuple[str, str]:
    row = {c: v for c, v in target.rows[FRESH].items() if c.lower() != column.name.lower()}
    return quote.names(list(row)), ", ".join(row.values())


def application_trigger(copy: TableName, trigger: Trigger, tag: str) -> str:
    """A trigger of the application on the copy, under its own name."""
    return (
        f"CREATE {tag} TRIGGER {table(TableName(copy.schema, trigger.name))} {trigger.timing} {trigger.event}"
        f" ON {table(copy)} FOR EACH ROW {trigger.body}"
    )
