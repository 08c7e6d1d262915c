"""Live values that a mapping cannot carry: grouped byte by byte, shown so that nothing in them stays invisible."""

from __future__ import annotations

import unicodedata
from collections.abc import Iterable, Sequence

from msgspec import Struct

from orchestrator.model.contract import Column
from orchestrator.model.facts import SOMEBODYS, Shape, ValueCount
from orchestrator.model.types import Family
from orchestrator.mysql import quote
from orchestrator.mysql.errno import ServerError
from orchestrator.mysql.expression import read
from orchestrator.mysql.halving import refused_row
from orchestrator.mysql.keyset import Reader
from orchestrator.mysql.persistence import Ask
from orchestrator.mysql.relation import DerivedSql, PairSql, Relation
from orchestrator.mysql.sql.bounds import Ref, Span, read_key, show
from orchestrator.mysql.sql.rows import counts, grouped, listed, ref
from orchestrator.mysql.unset import unset_of

SHOWN_CHARACTERS = 64
SAMPLES = 10
_MOST_VALUES = 50
_REST = "(other values)"
_COMPUTED = "what it computes"
_SAMPLE_ROWS = 200


class Problem(Struct, frozen=True):
    """What may be wrong with one mapping's value in a row ``t``. ``name`` is SQL: the class, or NULL; ``value`` is SQL:
    the value's first bytes as a binary string, so that values which only a collation thinks equal stay apart."""

    mapping: str
    name: str
    value: str


def unwritable_problems(relation: Relation, shape: Shape) -> tuple[Problem, ...]:
    """What keeps old values from being carried, for each mapping: unmapped, unfit, or not what comes back from the new
    value (the law of the round trip). Works before the columns exist."""
    return tuple(p for p in (_unwritable(m, shape) for m in relation.mappings) if p is not None)


def foreign_problems(relation: Relation, columns: Sequence[Column]) -> tuple[Problem, ...]:
    """Values in ``columns`` of the contract that are neither NULL, nor the default, nor what the mapping gives.

    A default that is another one in every row explains nothing: nobody can tell it from a value that was given."""
    mapped = {m.new.name.lower(): m for m in relation.mappings}
    found = []
    for column in columns:
        mapping = mapped.get(column.name.lower())
        if mapping is None and column.default is not None and column.default.is_expression:
            continue  # no step of ours ever writes it
        unset = (mapping.unset if mapping is not None else unset_of(column, column.name)).now(ref)
        explained = f"({unset})" if mapping is None else f"({unset}) OR ({mapping.forward.equals(ref)})"
        name = f"IF({explained}, NULL, {quote.text(SOMEBODYS)})"
        found.append(Problem(f"column {column.name}", name, value_sql(column, ref(column.name))))
    return tuple(found)


def _unwritable(mapping: PairSql | DerivedSql, shape: Shape) -> Problem | None:
    forward = mapping.forward
    cases = [(forward.known(ref), "unmapped"), (forward.fits(ref), "unfit")]
    if isinstance(mapping, PairSql) and not mapping.is_copy:
        cases.append((f"NOT ({mapping.round_trip_broken(ref)})", "changed by the way back and there again"))
    if forward.may_raise and forward.ok(ref) is None:
        # Nothing else computes it before a batch does.
        cases.append((f"ISNULL({forward.value(ref)}) IN (0, 1)", "unfit"))
    said = [(condition, name) for condition, name in cases if condition is not None]
    if not said:
        return None
    name = "CASE " + " ".join(f"WHEN NOT ({condition}) THEN '{name}'" for condition, name in said) + " END"
    once = isinstance(mapping, DerivedSql) and not mapping.follows and shape.column(mapping.new.name) is not None
    needed = f"IF({mapping.unset.now(ref)}, {name}, NULL)" if once else name
    return Problem(mapping.name, needed, _source(mapping))


def _source(mapping: PairSql | DerivedSql) -> str:
    """The old value; of an expression over several columns, what it gives."""
    if len(mapping.forward.columns) == 1:
        column = mapping.forward.columns[0]
        return value_sql(column, ref(column.name))
    return _as_bytes(mapping.forward.value(ref), SHOWN_CHARACTERS)


def both_shown(mapping: PairSql | DerivedSql, r: Ref) -> str:
    """The old and the new value of a row beside each other, as one binary string."""
    new = f"COALESCE({value_sql(mapping.new, r(mapping.new.name))}, 'NULL')"
    if isinstance(mapping, DerivedSql):
        return new
    return f"CONCAT(COALESCE({value_sql(mapping.old, r(mapping.old.name))}, 'NULL'), ' with ', {new})"


def value_sql(column: Column, sql: str) -> str:
    """A column's value as its first bytes: text as utf8mb4, bytes as they are, the rest as the server writes it."""
    if column.type.family is Family.BINARY:
        return f"LEFT({sql}, {SHOWN_CHARACTERS})"
    return _as_bytes(read(column, sql), SHOWN_CHARACTERS)


def _as_bytes(sql: str, characters: int) -> str:
    return f"CAST(LEFT(CONVERT({sql} USING utf8mb4), {characters}) AS BINARY)"


def shown(value: object) -> str:
    """``'done '``: quoted; with what it is made of in hex when a person could not see it all, or could take it for
    another text that looks alike (an accent that is a sign of its own). NULL as such."""
    if value is None:
        return "NULL"
    raw = value if isinstance(value, bytes) else str(value).encode()
    try:
        text = raw.decode()
    except UnicodeDecodeError:
        return f"0x{raw.hex()}"
    visible = text.isprintable() and text == text.strip()
    return f"'{text}'" if visible and not _looks_alike(text) else f"{text!r} (0x{raw.hex()})"


def _looks_alike(text: str) -> bool:
    return not unicodedata.is_normalized("NFC", text) or any(unicodedata.combining(sign) for sign in text)


class ValueTally:
    """Counts by mapping, value and class; bounded whatever the table holds."""

    def __init__(self) -> None:
        self._counts: dict[tuple[str, str, str], int] = {}
        self._keys: dict[tuple[str, str, str], list[str]] = {}

    def add(self, mapping: str, value: object, problem: str, rows: int) -> None:
        at = (mapping, shown(value), problem)
        if at not in self._counts and len(self._counts) >= _MOST_VALUES:
            at = (mapping, _REST, problem)
        self._counts[at] = self._counts.get(at, 0) + rows

    def sample(self, mapping: str, value: object, problem: str, key: str) -> None:
        at = (mapping, shown(value), problem)
        kept = self._keys.setdefault(at, []) if at in self._counts else []
        if len(kept) < SAMPLES:
            kept.append(key)

    def refuse(self, mapping: str, error: ServerError, key: str) -> None:
        """One row for which the mapping's expression is an error; its value is not told."""
        at = (mapping, _COMPUTED, f"an error ({error.number} {error.without_values})")
        self._counts[at] = self._counts.get(at, 0) + 1
        self._keys.setdefault(at, []).append(key)

    def wants_keys(self) -> bool:
        return any(len(self._keys.get(at, ())) < min(SAMPLES, rows) for at, rows in self._counts.items())

    def counts(self) -> tuple[ValueCount, ...]:
        """Most rows first."""
        ordered = sorted(self._counts.items(), key=lambda item: (-item[1], item[0]))
        return tuple(
            ValueCount(mapping, value, rows, tuple(self._keys.get((mapping, value, problem), ())), problem)
            for (mapping, value, problem), rows in ordered
        )


def count_values(reader: Reader, span: Span, problems: Iterable[Problem]) -> tuple[ValueCount, ...]:
    """The values of ``span`` that are wrong. Raises ServerError."""
    tally = ValueTally()
    add_values(reader, span, problems, tally)
    return tally.counts()


def add_values(reader: Reader, span: Span, problems: Iterable[Problem], tally: ValueTally) -> None:
    """The same, added to what was counted before. Raises ServerError."""
    for problem in problems:
        condition, columns = f"{problem.name} IS NOT NULL", (problem.name, problem.value)
        for name, value, rows in reader.session.query(grouped(reader.space, span, condition, columns, reader.tag)):
            tally.add(problem.mapping, value, str(name), int(rows))
        if tally.wants_keys():
            text = listed(reader.space, span, condition, columns, _SAMPLE_ROWS, reader.tag)
            for *parts, name, value in reader.session.query(text):
                key = show(reader.space, read_key(reader.space, parts))
                tally.sample(problem.mapping, value, str(name), key)


def add_refused(reader: Reader, span: Span, problems: Sequence[Problem], tally: ValueTally, ask: Ask) -> bool:
    """Add rows of ``span`` whose values make an expression an error, up to ten, each by its key; whether there are any.
    Raises ServerError, and what ``ask`` raises."""
    for number in range(SAMPLES):
        found = refused_row(reader, span, lambda part: _refusal(reader, part, problems, ask), ask)
        row = None if found is None else reader.session.one(listed(reader.space, found[0], "1 = 1", (), 1, reader.tag))
        if found is None or row is None:
            return number > 0
        key = read_key(reader.space, row)
        for problem in problems:
            if error := _refusal(reader, found[0], (problem,), ask):
                tally.refuse(problem.mapping, error, show(reader.space, key))
        span = Span(key, span.hi)
    return True


def _refusal(reader: Reader, span: Span, problems: Sequence[Problem], ask: Ask) -> ServerError | None:
    """What the server says against computing the values of ``span``."""
    text = counts(reader.space, span, [f"{p.name} IS NOT NULL" for p in problems], reader.tag)
    try:
        ask(lambda: reader.session.query(text))
    except ServerError as error:
        if not error.is_of_a_row:
            raise
        return error
    return None
