"""The flags that applications obey, as a row on the primary: a dead man's switch on the server's own clock."""

from __future__ import annotations

import secrets
from pathlib import Path

from orchestrator.errors import CannotSay, Fenced, Held, RolloutError, ServerUnreachable
from orchestrator.journal import last_line
from orchestrator.model.facts import FlagFacts
from orchestrator.mysql.errno import Cure, ServerError
from orchestrator.mysql.look.marks import read_flag
from orchestrator.mysql.session import Row, Session
from orchestrator.mysql.sql import flag as sql
from orchestrator.mysql.sql.state import Statement
from orchestrator.mysql.told import NOT_INSTALLED, packet, told, told_of_state
from orchestrator.ports import Clock
from orchestrator.settings import ServerSettings

_PAUSE_S = 0.1


class MysqlFlags:
    """Implements ``ports.Flags``. Every write may be repeated, so one whose answer was lost is sent again.

    ``timeout_s``: how long one answer is waited for, and twice that in all. Raises CannotSay when none comes: an open
    flag then expires by itself, and what was to be written stands in the local journal.
    """

    def __init__(
        self,
        settings: ServerSettings,
        id: str,
        clock: Clock,
        *,
        timeout_s: float = 5.0,
        journal_path: Path | None = None,
    ) -> None:
        self._settings = settings
        self._schema = settings.state_schema
        self._id = id
        self._clock = clock
        self._timeout_s = timeout_s
        self._journal = journal_path
        self._session: Session | None = None

    def close(self) -> None:
        if self._session is not None:
            self._session.close()
            self._session = None

    @property
    def said(self) -> str:
        return ""

    def beside(self, new_writes: bool, percent: int) -> tuple[str, ...]:
        """Applications ask the row itself."""
        return ()

    def clear(self, epoch: int) -> None:
        """The row goes with the state."""

    def read(self) -> FlagFacts:
        for last in (False, True):
            try:
                return read_flag(self._ready(), self._schema, self._id)
            except ServerError as error:
                if last or error.cure is not Cure.RECONNECT:
                    raise self._told(error, "reading the flag") from error
        raise AssertionError("the last try returns or raises")

    def open(self, epoch: int, ttl_s: float | None) -> None:
        statements = sql.open_writes(self._schema, self._id, (epoch, secrets.token_hex(8)), ttl_s)
        answers = self._send(statements, "opening new_writes")
        (before, alive, writes, percent), stands = answers[-2][0], answers[-1]
        self._fence(stands[0][0] if stands else None, epoch)
        if before is not None and not alive and (writes or percent):
            raise self._expired()

    def set_percent(self, epoch: int, percent: int, ttl_s: float | None) -> None:
        statements = sql.set_percent(self._schema, self._id, epoch, percent, ttl_s)
        before, alive, writes, _ = self._send(statements, f"moving readers to {percent} %")[-1][0]
        self._fence(before, epoch)
        if not alive:
            raise self._expired()
        if not writes:
            raise Held(
                f"new_writes of {self._id} is closed: somebody lowered the flags",
                "flags that are open before readers move",
                "type the same command again: it opens them behind their gate",
            )

    def renew(self, epoch: int, percent: int, ttl_s: float | None) -> bool:
        statements = sql.renew(self._schema, self._id, epoch, percent, ttl_s)
        return _held(self._send(statements, "renewing the flag")[-1][0], epoch, percent)

    def keep(self, epoch: int, percent: int) -> bool:
        statements = sql.keep(self._schema, self._id, epoch, percent)
        return _held(self._send(statements, "keeping the flag")[-1][0], epoch, percent)

    def lower(self, epoch: int | None) -> None:
        try:
            before = self._send(sql.lower(self._schema, self._id, epoch), "lowering the flags")[-1][0][0]
        except _Missing:
            return
        if epoch is not None and before is not None:
            self._fence(before, epoch)

    def raise_double_writes(self, epoch: int) -> None:
        statements = sql.raise_double_writes(self._schema, self._id, (epoch, secrets.token_hex(8)))
        stands = self._send(statements, "raising double_writes")[-1]
        self._fence(stands[0][0] if stands else None, epoch)

    def lower_double_writes(self, epoch: int | None) -> None:
        try:
            statements = sql.lower_double_writes(self._schema, self._id, epoch)
            before = self._send(statements, "lowering double_writes")[-1][0][0]
        except _Missing:
            return
        if epoch is not None and before is not None:
            self._fence(before, epoch)

    def _fence(self, stored: int | None, epoch: int) -> None:
        if stored is None or int(stored) != epoch:
            raise Fenced(
                f"the flag of {self._id} is {'gone' if stored is None else f'at epoch {stored}'}, we act under {epoch}",
                "a lease that is still ours; the flag was not changed",
                "rollout status shows who acts now; then type the same command again",
            )

    def _expired(self) -> Held:
        return Held(
            f"the flag of {self._id} has expired: nobody renewed it in time, and readers are back on the old column",
            "a flag that is lowered and opened again behind its gate, never revived",
            "type the same command again: it begins at 0 %",
        )

    def _send(self, statements: tuple[Statement, ...], doing: str) -> list[list[Row]]:
        """The answers of the packet. It may be sent twice: every flag write leaves the same row the second time."""
        deadline = self._clock.monotonic() + 2 * self._timeout_s
        lost = False
        while True:
            try:
                return packet(self._ready(), statements)
            except ServerError as error:
                lost = lost or error.cure is Cure.RECONNECT
                if error.number in NOT_INSTALLED:
                    raise _Missing(self._id) from error
                if error.cure not in (Cure.RETRY, Cure.RECONNECT):
                    raise self._told(error, doing) from error
                if self._clock.monotonic() >= deadline:
                    raise (self._cannot_say(error, doing) if lost else told(error, doing)) from error
            except ServerUnreachable as error:
                if not lost:
                    raise
                if self._clock.monotonic() >= deadline:
                    raise self._cannot_say(error, doing) from error
            self._clock.sleep(_PAUSE_S)

    def _cannot_say(self, error: Exception, doing: str) -> CannotSay:
        where = last_line(f"{self._id} flag: {doing}: no answer from the server", self._journal)
        return CannotSay(
            f"{doing} of {self._id}: no answer from the server ({error}; journal: {where})",
            f"an answer within {self._timeout_s:.0f} s",
            "an open flag expires by itself; look at the server's disks, kill no session, then: rollout status",
        )

    def _told(self, error: ServerError, doing: str) -> RolloutError:
        return told_of_state(self._ready(), error, doing)

    def _ready(self) -> Session:
        if self._session is None:
            self._session = Session(self._settings, role="flags", timeout_s=self._timeout_s, roams=True)
        return self._session


class _Missing(Held):
    """Rollout was never installed on this server, so there is no flag."""

    def __init__(self, id: str) -> None:
        super().__init__(f"there is no flag of {id}", "a rollout that has begun on this server", "rollout next")


def _held(row: Row, epoch: int, percent: int) -> bool:
    """Whether the row that was locked was ours, at that percent, and alive: then the write took effect."""
    before, alive, _, stands = row
    return before is not None and int(before) == epoch and bool(alive) and int(stands) == percent
