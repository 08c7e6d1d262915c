"""The table as a contract says that it stands, without a server: before ddl, and after it. Pure."""

from __future__ import annotations

from msgspec.structs import replace

from orchestrator.model.contract import Before, Contract
from orchestrator.model.facts import Shape
from orchestrator.model.renaming import standing_after
from orchestrator.model.walking_key import choose_key


def stood(contract: Contract) -> Shape:
    """Before ddl; empty where the contract does not say what stood before. Of what a contract has no words for (engine,
    row format, CHECKs, triggers) the shape of a table that has nothing special."""
    before = contract.before or Before(())
    key = choose_key(before.columns, before.indexes, contract.key)
    return Shape(
        table=contract.table,
        kind="BASE TABLE",
        engine="InnoDB",
        charset=before.collation.split("_", 1)[0],
        collation=before.collation,
        row_format="Dynamic",
        partitioned=False,
        columns=before.columns,
        indexes=before.indexes,
        foreign_keys=before.foreign_keys,
        referenced_by=before.children,
        checks=(),
        triggers=(),
        key=key.columns,
        key_name=key.index,
        key_problem=key.problem,
    )


def expanded(contract: Contract) -> Shape:
    """After ddl, under the names that renames in place give."""
    shape = stood(replace(contract, before=standing_after(contract)))
    changed = {c.name.lower(): c for c in contract.changes}
    return replace(
        shape,
        columns=(*(changed.get(c.name.lower(), c) for c in shape.columns), *contract.columns),
        indexes=(*shape.indexes, *contract.indexes),
        foreign_keys=(*shape.foreign_keys, *contract.foreign_keys),
        checks=tuple((c.name, c.sql) for c in contract.checks),
    )
