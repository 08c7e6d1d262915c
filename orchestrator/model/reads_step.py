"""The steps that move readers and writers of the application between the old and the new column, or watch them."""

from __future__ import annotations

from orchestrator.model.value import StepBase


class MeasureBaselines(StepBase, frozen=True, kw_only=True, tag="measure-baselines"):
    """Sample each gate before anything moves, and keep the figures that ``max_increase`` is measured against."""

    gates: tuple[str, ...]


class OpenWrites(StepBase, frozen=True, kw_only=True, tag="open-writes"):
    """The new application may write new columns, readers stay at 0 %."""

    ttl_s: float | None


class SetPercent(StepBase, frozen=True, kw_only=True, tag="set-percent"):
    """Move readers to ``percent`` and hold there for ``hold_s`` while gates pass, renewing the dead man's switch.

    ``ttl_s`` None: there is no such switch, and a lost watcher leaves readers where they are.
    ``baselines``: the figure of each gate before anything moved."""

    percent: int
    hold_s: float
    ttl_s: float | None
    gates: tuple[str, ...]
    baselines: tuple[tuple[str, float], ...] = ()


class KeepFlags(StepBase, frozen=True, kw_only=True, tag="keep-flags"):
    """The last step passed its hold: the flags never expire from here on."""


class WatchReaders(StepBase, frozen=True, kw_only=True, tag="watch-readers"):
    """Readers are where the ramp took them: gates and checks go on, gates at a lower rate, for ``seconds`` in which all
    of them pass; None: for as long as somebody listens."""

    seconds: float | None
    gates: tuple[str, ...]
    baselines: tuple[tuple[str, float], ...] = ()


class LowerFlags(StepBase, frozen=True, kw_only=True, tag="lower-flags"):
    """Readers to 0 % and new writes closed, at once."""

    why: str


class CloseRollout(StepBase, frozen=True, kw_only=True, tag="close-rollout"):
    """The flag row stays, at 100 % and never expiring; positions and requests go."""


ReadsStep = OpenWrites | SetPercent | KeepFlags | WatchReaders | LowerFlags | MeasureBaselines | CloseRollout
