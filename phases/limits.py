"""What the server refuses whatever the algorithm: judged by rule from the live table, before anything is tried."""

from __future__ import annotations

from collections.abc import Sequence

from orchestrator.model.contract import Column
from orchestrator.model.cost import cost_of, together
from orchestrator.model.facts import Facts, Shape
from orchestrator.model.runbook import Runbook
from orchestrator.model.shape_diff import ShapeDiff
from orchestrator.model.step import Step
from orchestrator.model.types import Family
from orchestrator.model.verdict import Problem, ProblemKind

_KEY_BYTES = 3072
_KEY_BYTES_OF_OLD_FORMATS = 767
_WIDTHS = {"utf8mb4": 4, "utf8mb3": 3, "latin1": 1, "ascii": 1, "binary": 1, "ucs2": 2, "utf16": 4, "utf32": 4}


def limit_problems(runbook: Runbook, shape: Shape, diff: ShapeDiff) -> Sequence[Problem]:
    """Every reason at once, so that one plan is enough to know them all."""
    return (*_partitions(shape, diff), *_key_lengths(runbook, shape, diff))


def disk_problems(runbook: Runbook, facts: Facts, steps: Sequence[Step]) -> Sequence[Problem]:
    """What does not fit is refused before anything is written. A disk or size that cannot be seen is the check's."""
    size = facts.size.value if facts.size is not None else None
    free = facts.disk.value.free_bytes if facts.disk is not None and facts.disk.value is not None else None
    server = facts.server.value if facts.server is not None else None
    need = together([cost_of(s, size, server) for s in steps])
    need_bytes = need.peak_bytes
    if size is None or free is None or need_bytes < free:
        return ()
    return (
        Problem(
            ProblemKind.HELD,
            "disk-budget",
            f"ddl needs up to {need_bytes / 2**20:.0f} MiB of disk (tables, indexes, temporary files, binary log), and"
            f" {free / 2**20:.0f} MiB are free",
            "room for all that the plan writes",
            "make room, or purge binary logs that no replica needs; then the same command again",
        ),
    )


def _partitions(shape: Shape, diff: ShapeDiff) -> Sequence[Problem]:
    """A unique index must hold every column of the partitioning, and no foreign key can be on such a table."""
    if not shape.partitioned:
        return ()
    keys = [
        _problem(
            "partitioned-foreign-key",
            f"the foreign key {f.name} on the partitioned table {shape.table} (1506)",
            "no foreign key on a partitioned table",
            "leave the foreign key out",
        )
        for f in diff.foreign_keys_missing
    ]
    by = [c.name.lower() for c in shape.columns if f"`{c.name.lower()}`" in shape.partitioned_by.lower()]
    uniques = [
        _problem(
            "partitioned-unique",
            f"the unique index {i.name} on {shape.table} lacks {', '.join(sorted(lacks))}, by which it is partitioned"
            " (1503)",
            "a unique index that holds every column of the partitioning",
            "add those columns to the index, or make it not unique",
        )
        for i in diff.indexes_missing
        if i.unique and (lacks := set(by) - {c.lower() for c in i.columns})
    ]
    return (*keys, *uniques)


def _key_lengths(runbook: Runbook, shape: Shape, diff: ShapeDiff) -> Sequence[Problem]:
    old = shape.row_format.upper() in ("REDUNDANT", "COMPACT")
    limit = _KEY_BYTES_OF_OLD_FORMATS if old else _KEY_BYTES
    columns = {c.name.lower(): c for c in (*shape.columns, *runbook.contract.columns)}
    found = []
    for index in diff.indexes_missing:
        sizes = [_part_bytes(columns.get(p.column.lower()), p.prefix, shape) for p in index.parts]
        longest, total = max(sizes), sum(sizes)
        if longest > limit or total > _KEY_BYTES:
            found.append(
                _problem(
                    "index-too-long",
                    f"the index {index.name} takes {max(longest, total)} bytes on {shape.table}"
                    f" ({shape.row_format}) (1071)",
                    f"at most {limit} bytes in a part and {_KEY_BYTES} in all",
                    "use prefixes, as in name(20), or fewer columns",
                )
            )
    return found


def _part_bytes(column: Column | None, prefix: int | None, shape: Shape) -> int:
    if column is None:
        return 0
    if column.type.family is Family.TEXT:
        return (prefix or column.type.length or 0) * _WIDTHS.get(column.charset or shape.charset, 4)
    if column.type.family is Family.BINARY:
        return prefix or column.type.length or 0
    return 8


def _problem(rule: str, seen: str, expected: str, next_: str) -> Problem:
    return Problem(ProblemKind.RUNBOOK, rule, seen, expected, next_)
