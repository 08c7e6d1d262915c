"""The steps that move readers and writers of the application between the old and the new column, or watch them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal


@dataclass(frozen=True, slots=True, kw_only=True)
class MeasureBaselines:
    """Sample each gate before anything moves, and keep the figures that ``max_increase`` is measured against."""

    kind: Literal["measure-baselines"] = "measure-baselines"
    gates: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class OpenWrites:
    """The new application may write new columns, readers stay at 0 %."""

    kind: Literal["open-writes"] = "open-writes"
    ttl_s: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class SetPercent:
    """Move readers to ``percent`` and hold there for ``hold_s`` while gates pass, renewing the dead man's switch.

    ``ttl_s`` None: there is no such switch, and a lost watcher leaves readers where they are.
    ``baselines``: the figure of each gate before anything moved."""

    kind: Literal["set-percent"] = "set-percent"
    percent: int
    hold_s: float
    ttl_s: float | None
    gates: tuple[str, ...]
    baselines: tuple[tuple[str, float], ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class KeepFlags:
    """The last step passed its hold: the flags never expire from here on."""

    kind: Literal["keep-flags"] = "keep-flags"


@dataclass(frozen=True, slots=True, kw_only=True)
class WatchReaders:
    """Readers are where the ramp took them: gates and checks go on, gates at a lower rate, for ``seconds`` in which all
    of them pass; None: for as long as somebody listens."""

    kind: Literal["watch-readers"] = "watch-readers"
    seconds: float | None
    gates: tuple[str, ...]
    baselines: tuple[tuple[str, float], ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class LowerFlags:
    """Readers to 0 % and new writes closed, at once."""

    kind: Literal["lower-flags"] = "lower-flags"
    why: str


@dataclass(frozen=True, slots=True, kw_only=True)
class CloseRollout:
    """The flag row stays, at 100 % and never expiring; positions and requests go."""

    kind: Literal["close-rollout"] = "close-rollout"


ReadsStep = OpenWrites | SetPercent | KeepFlags | WatchReaders | LowerFlags | MeasureBaselines | CloseRollout
