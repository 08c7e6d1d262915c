"""The steps that put a mirror up, try and prove it, and take it down: as triggers of ours, or as the applications' own
double writes."""

from __future__ import annotations

from typing import Literal

from orchestrator.model.contract import TableName
from orchestrator.model.runbook import ShadowDriver
from orchestrator.model.value import StepBase

# What a row is held against: n <=> f(o) while the old column is the truth, correspondence while both are written.
Truth = Literal["old-is-truth", "corresponds"]


class TryMirror(StepBase, frozen=True, kw_only=True, tag="try-mirror"):
    """The mirror on scratch copies of the family, before its first trigger: the application must notice nothing."""

    table: TableName
    family: tuple[TableName, ...]


class InstallTrigger(StepBase, frozen=True, kw_only=True, tag="install-trigger"):
    table: TableName
    event: Literal["update", "insert"]
    family: tuple[TableName, ...]


class RaiseDoubleWrites(StepBase, frozen=True, kw_only=True, tag="raise-double-writes"):
    """The applications are asked to write both columns of each pair, and to go on with it until it is lowered."""

    table: TableName


class ProveDoubleWrites(StepBase, frozen=True, kw_only=True, tag="prove-double-writes"):
    """``seconds`` in which rows that changed hold ``relation``, and every sampled statement that stores one column of
    ``pairs`` (old, new) stores the other one too."""

    table: TableName
    walk: int
    pairs: tuple[tuple[str, str], ...]
    seconds: float
    relation: Truth
    target_time_s: float


class RemoveMirror(StepBase, frozen=True, kw_only=True, tag="remove-mirror"):
    """The mirror goes: both triggers, insert first, or (``driver`` flag) the flag by which the applications write both
    columns. ``accepted`` maps a class of loss to the greatest number of rows accepted."""

    table: TableName
    accepted: tuple[tuple[str, int], ...]
    family: tuple[TableName, ...]
    driver: ShadowDriver = "triggers"


TriggerStep = InstallTrigger | RemoveMirror
FlagMirrorStep = RaiseDoubleWrites | RemoveMirror
