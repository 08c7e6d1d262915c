"""The steps that put a mirror up, try and prove it, and take it down: as triggers of ours, or as the applications' own
double writes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from orchestrator.model.contract import TableName
from orchestrator.model.runbook import ShadowDriver

# What a row is held against: n <=> f(o) while the old column is the truth, correspondence while both are written.
Truth = Literal["old-is-truth", "corresponds"]


@dataclass(frozen=True, slots=True, kw_only=True)
class TryMirror:
    """The mirror on scratch copies of the family, before its first trigger: the application must notice nothing."""

    kind: Literal["try-mirror"] = "try-mirror"
    table: TableName
    family: tuple[TableName, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class InstallTrigger:
    kind: Literal["install-trigger"] = "install-trigger"
    table: TableName
    event: Literal["update", "insert"]
    family: tuple[TableName, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class RaiseDoubleWrites:
    """The applications are asked to write both columns of each pair, and to go on with it until it is lowered."""

    kind: Literal["raise-double-writes"] = "raise-double-writes"
    table: TableName


@dataclass(frozen=True, slots=True, kw_only=True)
class ProveDoubleWrites:
    """``seconds`` in which rows that changed hold ``relation``, and every sampled statement that stores one column of
    ``pairs`` (old, new) stores the other one too."""

    kind: Literal["prove-double-writes"] = "prove-double-writes"
    table: TableName
    walk: int
    pairs: tuple[tuple[str, str], ...]
    seconds: float
    relation: Truth
    target_time_s: float


@dataclass(frozen=True, slots=True, kw_only=True)
class RemoveMirror:
    """The mirror goes: both triggers, insert first, or (``driver`` flag) the flag by which the applications write both
    columns. ``accepted`` maps a class of loss to the greatest number of rows accepted."""

    kind: Literal["remove-mirror"] = "remove-mirror"
    table: TableName
    accepted: tuple[tuple[str, int], ...]
    family: tuple[TableName, ...]
    driver: ShadowDriver = "triggers"


TriggerStep = InstallTrigger | RemoveMirror
FlagMirrorStep = RaiseDoubleWrites | RemoveMirror
