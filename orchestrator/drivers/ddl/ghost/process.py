"""A gh-ost that runs: started through ``sh``, watched by its files and its socket, ended with all that it started.

Its output goes to files, never into a pipe: a pipe that nobody reads would fill, and gh-ost would stand still with the
table locked. It dies with us: the kernel kills it when the thread that started it is gone, so that no gh-ost runs on
unwatched behind a ``rollout`` that was killed (ADR 0014).
"""

from __future__ import annotations

import ctypes
import os
import signal
from pathlib import Path
from typing import Any, BinaryIO

from msgspec.structs import replace

from orchestrator.command import environment_for_commands
from orchestrator.drivers.ddl.ghost.control import Silent, ask
from orchestrator.drivers.ddl.ghost.place import PASSWORD, USER, Place, end_group
from orchestrator.drivers.ddl.ghost.sleep import Sleep
from orchestrator.drivers.ddl.ghost.status import Line, last_line, parse
from orchestrator.errors import ConfigurationError
from orchestrator.model.contract import TableName
from orchestrator.model.copying import CopyEnd, CopyStatus
from orchestrator.ports import Clock
from orchestrator.settings import ServerSettings

_SILENT_S = 10.0
_STARTS_WITHIN_S = 60.0
_DEAF_S = 15.0
_ASK_EVERY_S = 0.5
_ANSWERS_WITHIN_S = 1.0
# It is asked in the middle of an attempt, too, where one that stands still must not keep us from looking.
_TELLS_WITHIN_S = 0.1
_ATTEMPT = b"Grabbing voluntary lock"
_FATAL = "FATAL"
_WORDS = 400
_PR_SET_PDEATHSIG = 1
_libc = ctypes.CDLL(None, use_errno=True)


def _die_with_parent() -> None:
    """Runs in the child between fork and exec."""
    _libc.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)


class _Tail:
    """The growing end of one output file."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._at = 0
        self._rest = b""

    def lines(self) -> list[bytes]:
        """Whole lines that came since the last call."""
        try:
            with self._path.open("rb") as file:
                file.seek(self._at)
                new = file.read()
        except OSError:
            return []
        self._at += len(new)
        *whole, self._rest = (self._rest + new).split(b"\n")
        return whole


class GhostRun:
    """Implements ports.CopyRun."""

    def __init__(self, program: Path, words: tuple[str, ...], place: Place, of: TableName, clock: Clock) -> None:
        self._place = place
        self._table = of.name
        self._clock = clock
        self._program, self._words = program, words
        self._process: Any = None
        self._out, self._err = _Tail(place.out), _Tail(place.err)
        self._line: Line | None = None
        self._coordinates = ""
        self._attempts = 0
        self._last_error = ""
        self._talked = False
        self._waits = False
        self._sleep = Sleep()
        self._asked_at = float("-inf")
        self._began_at = self._heard_at = self._moved_at = clock.monotonic()

    def begin(self, settings: ServerSettings) -> None:
        """Raises ConfigurationError when the program cannot be run."""
        import sh  # as in ``binary``

        environment = environment_for_commands(**{USER: settings.user, PASSWORD: settings.password.reveal()})
        try:
            with self._place.out.open("wb") as out, self._place.err.open("wb") as err:
                self._process = self._spawn(environment, out, err)
        except (sh.CommandNotFound, sh.ForkException, OSError) as error:
            raise ConfigurationError(
                f"{self._program} could not be started ({type(error).__name__})",
                "a gh-ost that runs here",
                "make gh-ost",
            ) from None
        self._place.note_process(self._process.pid)

    def _spawn(self, environment: dict[str, str], out: BinaryIO, err: BinaryIO) -> Any:
        import sh

        with Path(os.devnull).open("rb") as nothing:
            running = sh.Command(str(self._program))(
                *self._words,
                _env=environment,
                _in=nothing,
                _out=out,
                _err=err,
                _bg=True,
                _bg_exc=False,
                _new_session=True,
                _cwd=str(self._place.folder),
                _preexec_fn=_die_with_parent,
            )
        return running.process

    def status(self) -> CopyStatus | None:
        self._listen()
        status = self._line.status() if self._line is not None else None
        if status is None or not status.ready:
            return status
        return replace(status, waits_for=str(self._place.flag))

    def ended(self) -> CopyEnd | None:
        alive, code = self._process.is_alive()
        if alive:
            return None
        self._listen()
        words = self._last_error or "it said nothing"
        return CopyEnd(int(code) if code is not None else 0, words[-_WORDS:])

    def trouble(self) -> str:
        now = self._clock.monotonic()
        if not self._talked and now - self._began_at > _STARTS_WITHIN_S:
            return f"gh-ost serves no socket {now - self._began_at:.0f} s after its start; last: {self._last_error}"
        if now - self._heard_at > _SILENT_S:
            return f"gh-ost has said nothing and answered nothing for {now - self._heard_at:.0f} s"
        if not self._place.flag.exists():
            return f"{self._place.flag} is gone: without it gh-ost cuts over by itself"
        if self._line is not None and not self._waits and now - self._moved_at > _DEAF_S:
            return (
                f"gh-ost has read nothing of the binary log for {now - self._moved_at:.0f} s"
                f" (heartbeat {self._line.heartbeat_lag_s:.0f} s old): purged, or the connection is dead"
            )
        return ""

    def wait(self, wait: bool) -> None:
        if wait is not self._waits or (self._line is not None and self._line.told_to_wait is not wait):
            self._tell("throttle" if wait else "no-throttle")
        if self._waits and not wait:
            self._moved_at = self._clock.monotonic()
        self._waits = wait

    def cut_over(self) -> bool:
        return self._place.flag.exists() and "Unpostponed" in self._tell(f"unpostpone={self._table}")

    def attempts(self) -> int:
        self._listen()
        return self._attempts

    def takes_up(self, after_s: float) -> float | None:
        now = self._clock.monotonic()
        if (line := parse(self._tell("sup", _TELLS_WITHIN_S))) is not None:
            self._sleep.see(now, line.backlog_rows)
        return self._sleep.takes_up_after(after_s)

    def end(self) -> None:
        if self._process is not None:
            end_group(self._process.pid)
            self._process.is_alive()

    def _listen(self) -> None:
        now = self._clock.monotonic()
        if self._place.socket.exists():
            self._place.forget_conf()
        said = self._out.lines()
        self._take(last_line(text.decode(errors="replace") for text in said))
        errors = self._err.lines()
        for text in errors:
            self._attempts += _ATTEMPT in text
            words = text.decode(errors="replace").strip()
            if words and (_FATAL in words or _FATAL not in self._last_error):
                self._last_error = words
        if said or errors:
            self._heard_at = now
        if now - self._asked_at >= _ASK_EVERY_S and self._place.socket.exists():
            self._asked_at = now
            self._take(parse(self._tell("sup", _TELLS_WITHIN_S)))

    def _tell(self, command: str, within_s: float = _ANSWERS_WITHIN_S) -> str:
        try:
            answer = ask(self._place.socket, command, within_s)
        except Silent:
            return ""
        if answer:
            self._heard_at = self._clock.monotonic()
            self._talked = True
        return answer

    def _take(self, line: Line | None) -> None:
        if line is None:
            return
        self._line = line
        if line.coordinates != self._coordinates:
            self._coordinates = line.coordinates
            self._moved_at = self._clock.monotonic()
