"""What renames in place make of the names that stood before: columns, parts of indexes, keys of both sides. Pure."""

from __future__ import annotations

from collections.abc import Iterable

from msgspec.structs import replace

from orchestrator.model.contract import Before, Contract, ForeignKey, Index, Rename, TableName


def standing_after(contract: Contract) -> Before | None:
    """``contract.before`` under the names that it has when ddl is done; None when the contract does not say it."""
    before = contract.before
    if before is None or not contract.renames_in_place:
        return before
    new = _names(contract.renames_in_place)
    return replace(
        before,
        columns=tuple(replace(c, name=new.get(c.name.lower(), c.name)) for c in before.columns),
        indexes=tuple(_index(i, new) for i in before.indexes),
        foreign_keys=tuple(_key(f, new, contract.table) for f in before.foreign_keys),
        children=tuple((t, _child(f, new)) for t, f in before.children),
    )


def _names(renames: Iterable[Rename]) -> dict[str, str]:
    return {r.old.lower(): r.new for r in renames}


def _index(index: Index, new: dict[str, str]) -> Index:
    return replace(index, parts=tuple(replace(p, column=new.get(p.column.lower(), p.column)) for p in index.parts))


def _key(key: ForeignKey, new: dict[str, str], mine: TableName) -> ForeignKey:
    own = replace(key, columns=_all(key.columns, new))
    return _child(own, new) if key.references == mine else own


def _child(key: ForeignKey, new: dict[str, str]) -> ForeignKey:
    return replace(key, referenced_columns=_all(key.referenced_columns, new))


def _all(columns: tuple[str, ...], new: dict[str, str]) -> tuple[str, ...]:
    return tuple(new.get(c.lower(), c) for c in columns)
