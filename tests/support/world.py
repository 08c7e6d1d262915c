"""A world without a server, for the laws of the engine alone: what steps do to it, what is seen of it, and dying in it.

Only the engine is under test here; what drivers really do to MySQL has tests of its own on real servers.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any

from msgspec.structs import replace

import phases
from orchestrator.engine import Commands, Parts
from orchestrator.engine.judging import Judge
from orchestrator.errors import Fenced, Held
from orchestrator.model.contract import Column, Contract, Copy, Mapping, TableName
from orchestrator.model.facts import (
    Dependent,
    Facts,
    FlagFacts,
    MeterFacts,
    MirrorFacts,
    MismatchClass,
    Need,
    Presence,
    Reading,
    ServerFacts,
    Shape,
    ValueScan,
)
from orchestrator.model.outcome import GO, Outcome, Progress, Result, Seen, SignalKind, goes_on, stopped_by
from orchestrator.model.runbook import PhaseSettings, Runbook
from orchestrator.model.state import Ask, Record
from orchestrator.model.step import Step, step_key
from orchestrator.model.types import ColumnType
from orchestrator.model.verdict import Verdict
from orchestrator.ports import Beat, Check, KeepGoing
from orchestrator.store.memory import MemoryStore
from tests.support.shapes import plain_shape

TABLE = TableName("shop", "orders")
OLD, NEW = Column("status", ColumnType("int")), Column("state", ColumnType("int"))
CONTRACT = Contract(TABLE, (NEW,), mappings=(Mapping("state", "status", Copy(), Copy()),))
RUNBOOK = Runbook(
    id="orders",
    contract=CONTRACT,
    digest="d" * 64,
    text="text",
    path="orders.yaml",
    phases=PhaseSettings(percents=(25, 100), hold_s=2, soak_s=1, verify_soak_s=1, gates=()),
)


class Died(BaseException):
    """The process was killed here."""


@dataclass
class World:
    """The server as the steps leave it. ``mirror``: triggers that stand; ``filled``: every row holds what it should.
    ``interfere`` is asked whenever time passes in a command: what others do meanwhile."""

    old: Column = OLD
    columns: set[str] = field(default_factory=set)
    mirror: set[str] = field(default_factory=set)
    filled: bool = False
    new_writes: bool = False
    percent: int = 0
    expires_at: float = 0.0
    flag_epoch: int = 0
    now_s: float = 0.0
    lost_rows: int = 0
    dependents: tuple[Dependent, ...] = ()
    ever_unsafe: list[str] = field(default_factory=list)
    interfere: Callable[[], None] = lambda: None

    def effective(self) -> int:
        return self.percent if self.expires_at > self.now_s else 0

    def look(self) -> None:
        """Law 11 at every moment: no reader on the new column without the mirror."""
        if self.effective() > 0 and self.mirror != {"update", "insert"}:
            self.ever_unsafe.append(f"{self.effective()} % with mirror {sorted(self.mirror)}")


class WorldClock:
    def __init__(self, world: World) -> None:
        self._world = world

    def monotonic(self) -> float:
        return self._world.now_s

    def now(self) -> datetime:
        return datetime(2026, 1, 1, tzinfo=UTC) + timedelta(seconds=self._world.now_s)

    def sleep(self, seconds: float) -> None:
        self._world.now_s += seconds
        self._world.look()
        self._world.interfere()


class WorldFlags:
    """The flag row, fenced as the real one is."""

    def __init__(self, world: World) -> None:
        self._w = world

    said = ""

    def beside(self, new_writes: bool, percent: int) -> tuple[str, ...]:
        return ()

    def clear(self, epoch: int) -> None:
        """There is nothing outside of the world."""

    def read(self) -> FlagFacts:
        expired = self._w.expires_at <= self._w.now_s
        return FlagFacts(True, self._w.new_writes, self._w.percent, expired, None, self._w.flag_epoch)

    def open(self, epoch: int, ttl_s: float | None) -> None:
        self._fence(epoch)
        if self._expired() and (self._w.new_writes or self._w.percent):
            raise Held("the flag has expired", "a flag that was lowered", "again")
        self._set(True, 0, self._w.now_s + (1e12 if ttl_s is None else ttl_s))

    def set_percent(self, epoch: int, percent: int, ttl_s: float | None) -> None:
        self._fence(epoch)
        if self._expired() or not self._w.new_writes:
            raise Held("the flag has expired, or is closed", "an open flag", "again")
        self._set(True, percent, self._w.now_s + (1e12 if ttl_s is None else ttl_s))

    def renew(self, epoch: int, percent: int, ttl_s: float | None) -> bool:
        alive = self._w.expires_at > self._w.now_s and self._w.percent == percent and epoch >= self._w.flag_epoch
        if alive:
            self._w.expires_at = self._w.now_s + (1e12 if ttl_s is None else ttl_s)
        return alive

    def keep(self, epoch: int, percent: int) -> bool:
        return self.renew(epoch, percent, 1e12)

    def lower(self, epoch: int | None) -> None:
        self._set(False, 0, self._w.now_s)

    def _expired(self) -> bool:
        return self._w.expires_at <= self._w.now_s

    def _fence(self, epoch: int) -> None:
        if epoch < self._w.flag_epoch:
            raise Fenced("an old epoch", "the present one", "rollout status")
        self._w.flag_epoch = epoch

    def _set(self, writes: bool, percent: int, until: float) -> None:
        self._w.new_writes, self._w.percent, self._w.expires_at = writes, percent, until
        self._w.look()


class WorldObserver:
    def __init__(self, world: World, flags: WorldFlags, record: Callable[[], Record | None]) -> None:
        self._w = world
        self._flags = flags
        self._record = record

    def look(self, needs: frozenset[Need], keep_going: KeepGoing = lambda _: True) -> Facts:
        def of(value: Any) -> Reading[Any]:
            return Reading(self._w.now_s, value)

        present = {True: Presence.PRESENT, False: Presence.ABSENT}
        mirror = MirrorFacts.of_triggers(present["update" in self._w.mirror], present["insert" in self._w.mirror])
        lost = (MismatchClass("cancelled", "state", self._w.lost_rows, ()),) if self._w.lost_rows else ()
        return Facts(
            server=of(_SERVER),
            shape=of(self._shape()),
            mirror=of(mirror),
            flag=of(self._flags.read()),
            values=of(ValueScan(0, True, ())),
            meter=of(MeterFacts(lost)),
            positions=of(()),
            dependents=of(self._w.dependents),
            readers_due=(record := self._record()) is not None and record.readers_due,
        )

    def _shape(self) -> Shape:
        columns = (self._w.old, *((NEW,) if NEW.name in self._w.columns else ()))
        return plain_shape(TABLE, *columns)


_SERVER = ServerFacts(
    (9, 7, 4),
    "9.7.4",
    False,
    "uuid",
    "host",
    3306,
    False,
    False,
    True,
    "ROW",
    "FULL",
    86400,
    "ON",
    True,
    True,
    False,
    True,
    1 << 26,
    False,
)


class WorldDriver:
    """One driver for every kind of step. ``dies`` is asked before and after each effect."""

    def __init__(self, world: World, flags: WorldFlags, clock: WorldClock, dies: Callable[[str], None]) -> None:
        self._w = world
        self._flags = flags
        self._clock = clock
        self._dies = dies
        self.fail: dict[str, Outcome] = {}
        self.applied: list[str] = []

    def describe(self, step: Step) -> Sequence[str]:
        return (f"-- {step_key(step)}",)

    def apply(self, step: Step, beat: Beat) -> Outcome:
        key = step_key(step)
        self._dies(f"before {key}")
        # The real one keeps the flag in one write, without a beat.
        signal = beat(Progress()) if step.kind != "keep-flags" else GO
        if signal.kind not in (SignalKind.GO, SignalKind.HOLD):
            if step.kind == "set-percent":
                self._flags.lower(beat.epoch)
            return stopped_by(signal)
        if key in self.fail:
            return self.fail[key]
        outcome = self._effect(step, beat)
        self.applied.append(key)
        self._w.look()
        self._dies(f"after {key}")
        return outcome

    def _effect(self, step: Step, beat: Beat) -> Outcome:
        match step.kind:
            case "add-columns":
                self._w.columns.add(NEW.name)
            case "drop-columns":
                self._w.columns.discard(NEW.name)
            case "fill":
                self._w.filled = True
            case "install-trigger":
                self._w.mirror.add(step.event)
            case "remove-mirror":
                self._w.mirror.clear()
                self._w.filled = False
            case "open-writes":
                self._flags.open(beat.epoch, step.ttl_s)
            case "set-percent":
                return self._hold(step, beat)
            case "watch-readers":
                return self._watch(step, beat)
            case "keep-flags":
                if not self._flags.keep(beat.epoch, 100):
                    return Outcome(Result.BACK, "the flag is gone")
            case "lower-flags":
                self._flags.lower(beat.epoch)
            case "compare":
                if not self._w.filled and step.purpose != "in-use":
                    return Outcome(Result.FAILED, "rows differ")
            case _:
                pass
        return Outcome(Result.DONE)

    def _hold(self, step: Any, beat: Beat) -> Outcome:
        self._flags.set_percent(beat.epoch, step.percent, step.ttl_s)
        for _ in range(int(step.hold_s)):
            self._clock.sleep(1.0)
            signal = beat(Progress())
            if signal.kind is not SignalKind.GO:
                self._flags.lower(beat.epoch)
                return stopped_by(signal)
            if not self._flags.renew(beat.epoch, step.percent, step.ttl_s):
                return Outcome(Result.BACK, "the flag is gone")
        return Outcome(Result.DONE)

    def _watch(self, step: Any, beat: Beat) -> Outcome:
        passed_s = 0.0
        while step.seconds is None or passed_s < step.seconds:
            self._clock.sleep(1.0)
            passed_s += 1.0
            signal = beat(Progress())
            if not goes_on(signal):
                return stopped_by(signal)
        return Outcome(Result.DONE)

    def observe(self, step: Step, beat: Beat) -> Seen:
        match step.kind:
            case "add-columns":
                return Seen.PRESENT if NEW.name in self._w.columns else Seen.ABSENT
            case "install-trigger":
                return Seen.PRESENT if step.event in self._w.mirror else Seen.ABSENT
            case "remove-mirror":
                return Seen.ABSENT if self._w.mirror else Seen.PRESENT
            case "fill":
                return Seen.PRESENT if self._w.filled else Seen.PARTIAL
            case _:
                return Seen.ABSENT

    def abandon(self, step: Step, beat: Beat) -> Outcome:
        return Outcome(Result.DONE, "cleared")


class Silent:
    def progress(self, *args: object) -> None:
        """Nobody watches."""

    def waiting(self, record: Record, verdicts: Sequence[Verdict], waited_s: float) -> None:
        """Nobody waits."""


KINDS = [
    "add-columns",
    "set-default",
    "show-index",
    "count-duplicates",
    "try-ddl",
    "try-mirror",
    "add-check",
    "drop-check",
    "drop-columns",
    "drop-index",
    "drop-foreign-key",
    "add-index",
    "add-foreign-key",
    "prove-foreign-key",
    "change-column",
    "fill",
    "compare",
    "install-trigger",
    "remove-mirror",
    "soak",
    "catch-up",
    "drain",
    "quiet",
    "open-writes",
    "set-percent",
    "keep-flags",
    "watch-readers",
    "lower-flags",
    "measure-baselines",
    "close-rollout",
]


@dataclass
class Stage:
    """One operator at one terminal in the world; ``dies`` may raise Died, ``ask`` is what a signal asks."""

    world: World = field(default_factory=World)
    runbook: Runbook = RUNBOOK
    dies: Callable[[str], None] = lambda where: None
    ask: Ask | None = None
    checks: tuple[Check, ...] = ()

    def __post_init__(self) -> None:
        self.clock = WorldClock(self.world)
        self.flags = WorldFlags(self.world)
        self.observer = WorldObserver(self.world, self.flags, lambda: self.store.load(self.runbook.id))
        self.driver = WorldDriver(self.world, self.flags, self.clock, lambda where: self.dies(where))
        self.store = MemoryStore(self.clock)
        self.events: list[str] = []
        self.parts = Parts(
            runbook=self.runbook,
            findings=lambda: (),
            difference=lambda text: "state: varchar(32) → varchar(64)",
            store=self.store,
            observer=self.observer,
            flags=self.flags,
            drivers=dict.fromkeys(KINDS, self.driver),
            judge=Judge(self.checks, self.runbook.limits, self.observer, self.clock),
            forward=phases.FORWARD,
            rollback=phases.Rollback(),
            finish=lambda waived: phases.Finish(evidence_waived=waived),
            repair=phases.Repair(),
            listeners=(self,),
            watcher=Silent(),
            clock=self.clock,
            who="op@here",
            interrupted=lambda: self.ask,
        )
        self.commands = Commands(self.parts)

    def event(self, record: Record, event: Any) -> None:
        self.events.append(event.kind.value)

    @property
    def record(self) -> Record:
        found = self.store.load(self.runbook.id)
        assert found is not None
        return found

    def with_runbook(self, **settings: Any) -> None:
        self.runbook = replace(self.runbook, phases=replace(self.runbook.phases, **settings))
        self.__post_init__()
