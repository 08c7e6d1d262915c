"""What became of the columns that the mappings read, between two stages: somebody may have altered one. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from msgspec.structs import replace

from orchestrator.model.contract import Column, Contract, Expression
from orchestrator.model.facts import Shape
from orchestrator.model.shape_diff import column_changes
from orchestrator.model.words import says_column


def read_by_mappings(contract: Contract, columns: Sequence[Column]) -> tuple[Column, ...]:
    """Those of ``columns`` that a mapping has as its old column, or names in an expression; a new column is none."""
    new = {c.name.lower() for c in contract.columns}
    old = {m.old.lower() for m in contract.mappings if m.old is not None}
    said = [t.sql for m in contract.mappings for t in (m.forward, m.backward) if isinstance(t, Expression)]
    renamed = {r.old.lower(): r.new for r in contract.renames_in_place}

    def is_read(name: str) -> bool:
        return name.lower() in old or any(says_column(sql, name) for sql in said)

    return tuple(
        c
        for c in columns
        if c.name.lower() not in new and (is_read(c.name) or is_read(renamed.get(c.name.lower(), c.name)))
    )


def source_changes(contract: Contract, stood: Sequence[Column], shape: Shape) -> Iterator[str]:
    """A sentence for each column of ``stood`` that mappings read and that is otherwise now: column, is, was. What the
    contract itself makes of a column (a change, a rename in place) is no difference, done or not."""
    if contract.before is not None and contract.before.collation:
        # What names no collation has the table's, as it was when the contract was written.
        shape = replace(shape, collation=contract.before.collation)
    changed = {c.name.lower(): c for c in contract.changes}
    renamed = {r.old.lower(): r.new for r in contract.renames_in_place}
    for was in read_by_mappings(contract, stood):
        names = (was.name, renamed.get(was.name.lower(), was.name))
        live = next((c for n in names if (c := shape.column(n)) is not None), None)
        if live is None:
            yield f"column {was.name} is gone, it was {was.type}"
            continue
        ours = changed.get(live.name.lower())
        reasons = column_changes(was, live, shape)
        if reasons and (ours is None or column_changes(ours, live, shape)):
            yield f"column {live.name}: {'; '.join(reasons)}"
