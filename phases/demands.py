"""What several stages demand alike: a table that can be walked, values that a mapping knows, facts that were seen."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeVar

from orchestrator.errors import Held, PrivilegeMissing
from orchestrator.model import in_use
from orchestrator.model.chooser import Ground
from orchestrator.model.comparing import mend
from orchestrator.model.facts import (
    BROKEN,
    NULLS,
    SOMEBODYS,
    UNTRIED,
    Facts,
    FlagFacts,
    MirrorFacts,
    Reading,
    Shape,
    ValueCount,
)
from orchestrator.model.missing import correct, there_is_no
from orchestrator.model.runbook import Runbook
from orchestrator.model.shape_diff import compare_shape
from orchestrator.model.state import Record
from orchestrator.model.step import Fill
from orchestrator.model.verdict import Problem, ProblemKind

T = TypeVar("T")
_PARTNER, _CASCADE = "partner-constrained", "cascade-unseen"


def seen(what: str, reading: Reading[T] | None) -> T:
    """The value of a reading that the plan hangs on: it is never guessed. Raises PrivilegeMissing when a right would
    show it, else Held."""
    if reading is None:
        raise Held(f"{what} cannot be seen: nobody looked", f"{what} can be read", "rollout check")
    if reading.value is None:
        told = f"{what} cannot be seen: {reading.unseen}", f"{what} can be read"
        raise PrivilegeMissing(*told, reading.grant) if reading.grant else Held(*told, "rollout check")
    return reading.value


def shape_of(facts: Facts) -> Shape:
    return seen("the table", facts.shape)


def ground_of(facts: Facts) -> Ground:
    """What the chooser decides by. Row versions that this account cannot see are taken to be enough: the server says
    4092 otherwise, and nothing happened. Raises Held when the table or the server cannot be seen."""
    versions = facts.row_versions.value if facts.row_versions is not None else None
    return Ground(shape_of(facts), seen("the server", facts.server).version, versions)


def flag_of(facts: Facts) -> FlagFacts:
    return seen("the flag row", facts.flag)


def mirror_of(facts: Facts) -> MirrorFacts:
    return seen("the mirror", facts.mirror)


def doubled(runbook: Runbook) -> tuple[tuple[str, str], ...]:
    """Pairs (old, new) that the applications write both columns of; none where triggers do it."""
    if runbook.phases.shadow != "flag":
        return ()
    return tuple((m.old, m.new) for m in runbook.contract.pairs if m.old is not None)


def sweep(runbook: Runbook, record: Record) -> Fill:
    """The pass over the whole table that mends what moved. Once both columns were written a conflict stops it, unless
    somebody decided it."""
    return Fill(
        table=runbook.table,
        walk=record.walk,
        pass_name="sweep",
        target_time_s=runbook.phases.target_time_s,
        max_batch_rows=runbook.phases.max_batch_rows,
        on_conflict=(record.on_conflict or "refuse") if record.both_written else "",
        mend=mend(record),
    )


def table_problems(facts: Facts, table: str) -> Sequence[Problem]:
    """The table must exist and be a plain InnoDB table."""
    reading = facts.shape
    if reading is None or not reading.seen:
        return ()
    shape = reading.value
    if shape is None:
        return (
            _runbook(
                "table-missing",
                there_is_no(table, reading.near),
                "the table that the runbook names",
                correct(reading.near),
            ),
        )
    if shape.kind != "BASE TABLE":
        return (
            _runbook("not-a-table", f"{table} is a {shape.kind.lower()}", "a base table", "name the table behind it"),
        )
    if shape.engine.lower() != "innodb":
        return (
            _runbook(
                "not-innodb",
                f"{table} has the engine {shape.engine}",
                "InnoDB: batches and fences need transactions",
                f"convert it first: ALTER TABLE {table} ENGINE=InnoDB (this copies the table)",
            ),
        )
    return ()


def columns_gone(runbook: Runbook, facts: Facts, record: Record) -> Sequence[str]:
    """Columns that ddl added and that somebody took away, or that a table put in its place never had."""
    shape = facts.shape.value if facts.shape is not None else None
    missing = compare_shape(runbook.contract, shape).columns_missing if shape is not None else ()
    return tuple(c.name for c in missing if c.name in record.columns_added)


def column_problems(runbook: Runbook, facts: Facts, record: Record) -> Sequence[Problem]:
    """What ddl added is still there."""
    gone = columns_gone(runbook, facts, record)
    if not gone:
        return ()
    return (
        _runbook(
            "columns-gone",
            f"{runbook.table} lacks {', '.join(gone)}, which ddl added: somebody dropped that, or swapped the table",
            "the columns of the contract",
            "rollout rollback, which takes readers back first; then rollout next begins with ddl again",
        ),
    )


def key_problems(facts: Facts) -> Sequence[Problem]:
    """The table must have a key that visits every row once."""
    reading = facts.shape
    shape = reading.value if reading is not None else None
    if shape is None or shape.key or shape.engine.lower() != "innodb":
        return ()
    return (
        _runbook(
            "no-usable-key",
            f"{shape.table}: {shape.key_problem or 'there is no usable key'}",
            "a PRIMARY KEY, or a UNIQUE key on NOT NULL columns without FLOAT or DOUBLE",
            "give the table such a key first; rows without one cannot be walked exactly once",
        ),
    )


def constraint_problems(runbook: Runbook, facts: Facts) -> Sequence[Problem]:
    """The mirror writes both columns of a pair: no constraint of the live table may fail, or delete, because of that.

    Indexes and keys of the contract itself are judged when the file is linted, and its CHECKs are not enforced. Waived
    as ``partner-constrained``.
    """
    shape = facts.shape.value if facts.shape is not None else None
    if shape is None or runbook.waived(_PARTNER):
        return ()
    contract = runbook.contract
    ours = {i.name.lower() for i in contract.indexes} | {f.name.lower() for f in contract.foreign_keys}
    ours |= {c.name.lower() for c in contract.checks}
    held: list[tuple[str, str, Sequence[str]]] = [
        (f"the unique index {i.name}", i.name, i.columns) for i in shape.indexes if i.unique
    ]
    held += [(f"the foreign key {f.name}", f.name, f.columns) for f in shape.foreign_keys]
    names = tuple(c.name for c in shape.columns)
    held += [(f"the CHECK {name}", name, _named(clause, names)) for name, clause in shape.checks]
    written = {m.new.lower(): m for m in contract.mappings} | {m.old.lower(): m for m in contract.pairs if m.old}
    return tuple(
        _runbook(
            _PARTNER,
            f"{column} of the mapping {written[column.lower()]} is in {what}",
            "a mapped column is in no UNIQUE, FOREIGN KEY or CHECK that its counterpart is not in too: the mirror "
            "writes it, and the application's statement could fail because of that",
            f"leave that mapping out, or waive {_PARTNER} when its counterpart is constrained in the same way",
        )
        for what, name, columns in held
        for column in columns
        if name.lower() not in ours and column.lower() in written
    )


def cascade_problems(runbook: Runbook, facts: Facts) -> Sequence[Problem]:
    """No cascade changes a column that is mirrored, unless the mirror sees it. Waived as ``cascade-unseen``.

    The applications' own double writes never see one: a cascade is no statement of theirs.
    """
    shape = facts.shape.value if facts.shape is not None else None
    if shape is None or runbook.waived(_CASCADE):
        return ()
    server = facts.server.value if facts.server is not None else None
    unseen = "the server's settings cannot be seen" if server is None else server.cascades_unseen
    if runbook.phases.shadow == "flag":
        unseen = "the applications write both columns, and a cascade is no statement of theirs"
    if not unseen:
        return ()
    # The room of expressions is loaded by whoever needs it: other commands do not pay for it.
    from orchestrator.mysql.mirror_sources import cascade_problems as judged

    return judged(runbook.contract, shape, unseen)


def _named(clause: str, columns: Sequence[str]) -> Sequence[str]:
    """The columns that a CHECK names; the server quotes them all."""
    return [c for c in columns if f"`{c.replace('`', '``').lower()}`" in clause.lower()]


def value_problems(facts: Facts) -> Sequence[Problem]:
    """Every value that was looked at is known to its mapping and fits, no column that was there holds somebody's data,
    and what the contract promises of a row holds for those that are there."""
    reading = facts.values
    if reading is None or reading.value is None:
        return ()
    scan = reading.value
    least = "" if scan.complete else f"at least (the first {scan.rows_scanned} of the table were looked at) "
    return tuple(_value_problem(v, f"in {least}{v.rows} rows (keys {' '.join(v.keys)})") for v in scan.problems)


def unseen_values(facts: Facts) -> Sequence[Problem]:
    """The values that exist could be looked at. To be asked where nothing else is wrong, which may be why."""
    reading = facts.values
    if reading is None or reading.seen:
        return ()
    kind = ProblemKind.RUNBOOK if reading.mend else ProblemKind.PRIVILEGE if reading.grant else ProblemKind.HELD
    return (
        Problem(
            kind,
            "values-unseen",
            f"the values that exist cannot be looked at: {reading.unseen}",
            reading.wanted or "rows that can be read, and mappings that the server can compute for them",
            reading.mend or reading.grant or "mend what is named, then the same command again",
        ),
    )


# By what is wrong with it: the rule, what was seen, what is expected, what to do.
_VALUES = {
    SOMEBODYS: (
        "column-in-use",
        "{of} holds {value} {where}, and no step of ours added it",
        in_use.ALLOWED,
        in_use.NEXT,
    ),
    NULLS: (
        "null-in-not-null",
        "{of} is NULL {where}, and the contract says NOT NULL",
        "a column that may be NULL stays so: no value is made up for these rows, and nobody's NULL is refused",
        "add a column of another name that is NOT NULL and has a default, and a mapping into it that says what NULL"
        " becomes (null_value)",
    ),
    BROKEN: (
        "check-broken",
        "{of} would be broken by {value} {where}, as the mappings fill them",
        "a CHECK that holds for every row that exists, so that it can be enforced once verify has passed",
        "mend the rows, change the mapping so that its values hold, or leave the CHECK to a later contract",
    ),
    UNTRIED: (
        "check-untried",
        "{of} cannot be tried on the rows that exist: {value}",
        "a condition over one row that gives the same whoever asks, and that raises on none",
        "write the CHECK so, or leave it to a later contract",
    ),
}


def _value_problem(found: ValueCount, where: str) -> Problem:
    rule, seen_text, expected, next_ = _VALUES.get(found.problem) or (
        "unmapped-value" if found.problem == "unmapped" else "unfit-value",
        "{of}: {value} is {problem} {where}",
        "every value that exists is mapped and fits the new column",
        "add it to values, or say match: collation, or unmapped: keep; or widen the new column; or mend the rule",
    )
    said = seen_text.format(of=found.mapping, value=found.value, problem=found.problem, where=where)
    return _runbook(rule, said, expected, next_)


def _runbook(rule: str, seen_text: str, expected: str, next_: str) -> Problem:
    return Problem(ProblemKind.RUNBOOK, rule, seen_text, expected, next_)
