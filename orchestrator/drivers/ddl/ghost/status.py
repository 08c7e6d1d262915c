"""gh-ost's status line as numbers. Pure. The form was tested against real lines, kept in tests/data/ghost.

Traps of the line (each seen in a run): with an estimate of 0 it says 100 % and ETA due from start to end; at the end
the estimate is overwritten with what was copied; ``Lag`` keeps its last value when the server behind it is dead, so
only ``HeartbeatLag`` is believed; the state hides throttling while the cut-over is postponed.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

from msgspec import Struct

from orchestrator.model.copying import CopyStatus

_LINE = re.compile(
    r"^Copy: (?P<copied>\d+)/(?P<total>\d+) (?P<percent>[\d.]+)%; Applied: (?P<applied>\d+);"
    r" Backlog: (?P<backlog>\d+)/(?P<cap>\d+);"
    r" Time: (?P<all>[\dhms]+)\(total\), (?P<copy>[\dhms]+)\(copy\); streamer: (?P<at>[^;]+);"
    r" Lag: (?P<lag>[\d.]+)s, HeartbeatLag: (?P<heartbeat>[\d.]+)s, State: (?P<state>.+);"
    r" ETA: (?P<eta>N/A|due|[\dhms]+)$"
)
_DURATION = re.compile(r"(?:(\d+)h)?(?:(\d+)m)?(?:(\d+)s)?")
_POSTPONED = "postponing cut-over"
_THROTTLED = "throttled, "
_BY_US = "commanded by user"


class Line(Struct, frozen=True):
    """One status line. ``total_rows`` 0: no estimate, so neither percent nor ETA mean anything. Times in seconds."""

    copied_rows: int
    total_rows: int
    applied_rows: int
    backlog_rows: int
    backlog_cap_rows: int
    elapsed_s: float
    copying_s: float
    coordinates: str
    lag_s: float
    heartbeat_lag_s: float
    state: str
    eta_s: float | None

    @property
    def postponed(self) -> bool:
        """Whether all rows are copied and only the word for the cut-over is missing."""
        return self.state == _POSTPONED

    @property
    def throttled_by(self) -> str:
        """gh-ost's own reason for standing still, "" when it does not, or when it was told to by us."""
        if not self.state.startswith(_THROTTLED):
            return ""
        return "" if self.told_to_wait else self.state.removeprefix(_THROTTLED)

    @property
    def told_to_wait(self) -> bool:
        return self.state == _THROTTLED + _BY_US

    def status(self) -> CopyStatus:
        """What any tool of this kind tells."""
        return CopyStatus(
            copied_rows=self.copied_rows,
            total_rows=self.total_rows,
            applied_rows=self.applied_rows,
            backlog_rows=self.backlog_rows,
            lag_s=self.heartbeat_lag_s,
            eta_s=self.eta_s if self.total_rows else None,
            ready=self.postponed,
            throttled_by=self.throttled_by,
            told_to_wait=self.told_to_wait,
            note=f"{self.state}; lag {self.heartbeat_lag_s:.2f} s, backlog {self.backlog_rows}/{self.backlog_cap_rows}",
        )


def parse(text: str) -> Line | None:
    """The line's numbers; None when it is no status line (hints, log lines, CREATE TABLE, ``# Done``)."""
    # With --verbose the same line is on stderr too, ending in " []".
    match = _LINE.match(text.strip().removesuffix(" []"))
    if match is None:
        return None
    return Line(
        copied_rows=int(match["copied"]),
        total_rows=int(match["total"]),
        applied_rows=int(match["applied"]),
        backlog_rows=int(match["backlog"]),
        backlog_cap_rows=int(match["cap"]),
        elapsed_s=_seconds(match["all"]),
        copying_s=_seconds(match["copy"]),
        coordinates=match["at"],
        lag_s=float(match["lag"]),
        heartbeat_lag_s=float(match["heartbeat"]),
        state=match["state"],
        eta_s={"N/A": None, "due": 0.0}.get(match["eta"]) if match["eta"] in ("N/A", "due") else _seconds(match["eta"]),
    )


def last_line(lines: Iterable[str]) -> Line | None:
    """The last status line of some output."""
    found = None
    for text in lines:
        found = parse(text) or found
    return found


def _seconds(written: str) -> float:
    """``1h2m3s`` as Go writes a duration of whole seconds."""
    match = _DURATION.fullmatch(written)
    if match is None:
        return 0.0
    hours, minutes, seconds = (int(part or 0) for part in match.groups())
    return float(hours * 3600 + minutes * 60 + seconds)
