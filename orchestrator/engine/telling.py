"""What a stage does to the application and for how long, in words for a plan. Pure."""

from __future__ import annotations

from collections.abc import Sequence

from orchestrator.model.contract import Contract, RenameWay
from orchestrator.model.cost import cost_of, together
from orchestrator.model.facts import Facts, SizeFacts
from orchestrator.model.runbook import RollbackDdl
from orchestrator.model.step import (
    AddColumns,
    AddIndex,
    Compare,
    DropColumns,
    ExclusiveDdlStep,
    GhostAlter,
    ProveDoubleWrites,
    Quiet,
    SetPercent,
    Soak,
    Step,
    StepClass,
    WatchReaders,
    step_class,
    step_key,
)

# Rows in a second, slow and fast: one worker on a table of this kind (measured in `make bench`).
_COMPARE_RATE = (100_000, 500_000)


_WORDS = {
    "rename-column": "columns renamed in place",
    "change-column": "columns widened",
    "add-index": "indexes INPLACE",
    "show-index": "indexes shown",
    "ghost-alter": "the table filled anew by gh-ost and swapped in",
    "add-foreign-key": "foreign keys INPLACE, proven",
    "fill": "keyed pass",
    "try-mirror": "trial of the mirror on scratch copies",
    "install-trigger": "triggers",
    "raise-double-writes": "double_writes raised",
    "prove-double-writes": "proof that the applications write both columns",
    "soak": "soak",
    "compare": "full comparison",
    "compare:in-use": "columns that were there asked of every row",
    "watch-readers": "readers watched",
    "open-writes": "new_writes opened",
    "lower-flags": "readers to 0 %",
    "drain": "old transactions end",
    "quiet": "quiet time",
    "remove-mirror": "mirror taken down",
    "try-ddl": "trial on a scratch copy",
    "count-duplicates": "duplicates counted",
    "set-default": "default expressions",
    "add-check": "checks, not enforced",
    "drop-check": "checks dropped",
    "drop-foreign-key": "foreign keys dropped",
    "drop-index": "indexes dropped",
}
_WAY_BACK = {
    "ddl": "keep (nobody reads them)",
    "backfill": "nothing to undo",
    "shadow-write": "the mirror off, after readers are back",
    "read-switch": "to 0 % at once",
    "verify": "as read-switch",
}


_RENAMES = {
    RenameWay.MIRROR: "a second column and two triggers keep both names; no version must change at once",
    RenameWay.MAP: "only the model above the table has the new name; the server does nothing",
    RenameWay.RENAME: "in place, INSTANT; from then on whatever still says the old name fails with 1054, and the way "
    "back is the same rename",
}


def rename_prices(contract: Contract) -> tuple[str, ...]:
    """What each rename of the contract costs, in a line."""
    return tuple(f"rename {r.old} → {r.new} ({r.way.value}): {_RENAMES[r.way]}" for r in contract.renames)


def way_back(name: str, ddl: RollbackDdl) -> str:
    """What going back from the stage means."""
    if name == "ddl" and ddl is RollbackDdl.DROP:
        return "columns, indexes and keys are dropped, renames are taken back"
    return _WAY_BACK.get(name, "forward again")


def way_and_why(step: Step) -> tuple[str, str]:
    """Algorithm and lock of an ALTER, and the reason; of gh-ost why it is chosen; ("", "") of all else."""
    if isinstance(step, GhostAlter):
        return "gh-ost", step.why
    return (str(step.way), step.way.reason) if isinstance(step, ExclusiveDdlStep) else ("", "")


def blocks(step: Step) -> str:
    """For how long one step keeps the application waiting at most."""
    if isinstance(step, GhostAlter):
        return "for a moment at each try of its cut-over, inside the stall budget (6 s if we stand still just then)"
    if isinstance(step, ExclusiveDdlStep) and step.way.stops_writes:
        return "every write for as long as it is built"
    if isinstance(step, ExclusiveDdlStep) and step.way.rebuilds and not isinstance(step, AddIndex):
        return "for a moment at its start, and at its end for up to final_lock_budget"
    if isinstance(step, AddIndex):
        return f"for a moment at its start, and at its end for up to {step.final_lock_budget_s:g} s"
    if step_class(step) is StepClass.EXCLUSIVE:
        return "for a moment, inside the stall budget"
    return "nothing"


def blocks_in_all(steps: Sequence[Step], budget_s: float) -> str:
    """The same for a stage; ``budget_s``: the stall budget."""
    count = sum(1 for s in steps if step_class(s) is StepClass.EXCLUSIVE)
    ends = [s.final_lock_budget_s for s in steps if isinstance(s, AddIndex)]
    last = f", {len(ends)} × up to {max(ends):g} s at an index's end" if ends else ""
    return f"{count} × up to {budget_s * 1000:.0f} ms{last}" if count else "nothing"


def what(steps: Sequence[Step]) -> str:
    """The steps in the order in which they come, equal ones counted."""
    parts: list[str] = []
    for kind in dict.fromkeys(s.kind for s in steps):
        same = [s for s in steps if s.kind == kind]
        columns = sum(len(s.columns) for s in same if isinstance(s, AddColumns | DropColumns))
        if kind == "set-percent":
            parts.append(" → ".join(str(s.percent) for s in same if isinstance(s, SetPercent)) + " %")
        elif columns:
            parts.append(f"{columns} columns {'INSTANT' if kind == 'add-columns' else 'dropped'}")
        elif kind in _WORDS:
            counted, word = len(same) > 1 or kind.startswith(("add", "drop", "rename")), _WORDS[kind]
            parts.append(f"{len(same)} {word}" if counted else _WORDS.get(step_key(same[0]), word))
    return ", ".join(parts) or "nothing is missing"


def takes(steps: Sequence[Step], size: SizeFacts | None) -> str:
    """Seconds from fixed waits, and a range for passes by the rates that were measured."""
    fixed = sum(s.seconds for s in steps if isinstance(s, Soak | Quiet | ProveDoubleWrites))
    fixed += sum(s.seconds or 0.0 for s in steps if isinstance(s, WatchReaders))
    fixed += sum(s.hold_s for s in steps if isinstance(s, SetPercent))
    rows = size.rows_estimate if size is not None else 0
    compares = sum(1 for s in steps if isinstance(s, Compare))
    cost = together([cost_of(s, size, None) for s in steps])
    low = fixed + cost.low_s + compares * rows / _COMPARE_RATE[1]
    high = fixed + cost.high_s + compares * rows / _COMPARE_RATE[0]
    return f"{low:.0f} s" if round(low) == round(high) else f"{low:.0f}-{high:.0f} s"


def values_cut(facts: Facts) -> str:
    """How far the scan of live values came, in a line; "" when it met every row."""
    scan = facts.values.value if facts.values is not None else None
    if scan is None or scan.complete:
        return ""
    return (
        f"values that exist: the first {scan.rows_scanned} rows were looked at, no more; a value behind them that a"
        " mapping cannot carry stops backfill where it is met, and a CHECK that it breaks is found by verify"
    )


def fires_none(facts: Facts) -> str:
    """Which statements on the table no trigger sees, in a line; what they leave otherwise, drift and verify find."""
    server = facts.server.value if facts.server is not None else None
    cascades = "" if server is not None and not server.cascades_unseen else ", and cascades of foreign keys"
    return (
        f"fire no trigger: TRUNCATE, ALTER TABLE … TRUNCATE, DROP or EXCHANGE PARTITION{cascades}; both columns of a"
        " pair are in one row and go together, and a row that comes in so is found by drift and verify"
    )
