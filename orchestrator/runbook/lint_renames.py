"""Rules on renames: what the file can say of each of the three ways, and what the waiver of one in place must have."""

from __future__ import annotations

from collections.abc import Iterator

from orchestrator.model.contract import Contract, Expression, Mapping, Rename, RenameWay
from orchestrator.model.runbook import Runbook, Waiver
from orchestrator.mysql.captured import names
from orchestrator.runbook.rules import Breach
from orchestrator.runbook.tree import Path

IN_PLACE = "rename-in-place"


def renames(runbook: Runbook) -> Iterator[Breach]:
    """All three ways. Whether a statement still says the old name is for the server to tell (``rollout compat``)."""
    contract = runbook.contract
    for i, rename in enumerate(contract.renames):
        path: Path = ("contract", "renames", i)
        if problem := _unfit(rename, contract):
            yield Breach("rename-fits", path, f"{rename.old} → {rename.new} (way: {rename.way.value}): {problem}")
        if rename.way is RenameWay.RENAME:
            yield Breach(IN_PLACE, path, f"{rename.old} shall be renamed to {rename.new} in place")
            if problem := _unfounded(rename, runbook.waived(IN_PLACE)):
                yield Breach("rename-evidence", path, f"{rename.old} → {rename.new}: {problem}")


def _unfounded(rename: Rename, waiver: Waiver | None) -> str:
    """What the waiver lacks; "" when it says whose name goes, and how that is known."""
    if waiver is None:
        return "no waiver of rename-in-place stands for it"
    if not waiver.evidence.strip():
        return "the waiver of rename-in-place has no evidence"
    named = rename.old.lower() in f"{waiver.reason} {waiver.evidence}".lower()
    return "" if named else f"the waiver of rename-in-place does not name {rename.old}"


def _unfit(rename: Rename, contract: Contract) -> str:
    """Why the rename does not go with the rest of the contract; "" when it does."""
    old, new = rename.old.lower(), rename.new.lower()
    added = any(c.name.lower() == new for c in contract.columns)
    if rename.way is RenameWay.MIRROR:
        paired = any(m.new.lower() == new and (m.old or "").lower() == old for m in contract.pairs)
        return "" if added and paired else f"there is no new column {rename.new} with a mapping both ways"
    if added:
        return f"{rename.new} is a new column too"
    if rename.way is RenameWay.MAP:
        return ""
    if old == new:
        return "both are one name"
    if any(c.name.lower() in (old, new) for c in contract.changes):
        return "it is changed too"
    if old in {k.lower() for k in contract.key}:
        return f"{rename.old} is part of the key that rows are walked by"
    if any({old, new} & _columns(m) for m in contract.mappings):
        return "a mapping reads it"
    if any({old, new} & names(i.sql) for i in contract.invariants):
        return "an invariant names it"
    return ""


def _columns(mapping: Mapping) -> set[str]:
    sides = [mapping.forward] if mapping.backward is None else [mapping.forward, mapping.backward]
    named = [names(side.sql) for side in sides if isinstance(side, Expression)]
    return {(mapping.old or "").lower(), mapping.new.lower()}.union(*named)
