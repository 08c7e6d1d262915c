"""Wiring: settings and a runbook become everything that acts. The only module that knows concrete classes."""

from __future__ import annotations

import getpass
import socket
from collections.abc import Callable, Sequence
from contextlib import closing
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

import phases
from orchestrator.app.watch import last_figure, sum_of_figure
from orchestrator.checks import all_checks
from orchestrator.drivers.ddl.copying import CopyDriver
from orchestrator.drivers.ddl.ghost.tool import GhostTool
from orchestrator.drivers.ddl.native import NativeDdlDriver
from orchestrator.drivers.ddl.trial import TrialDriver
from orchestrator.drivers.reads.board import BoardFlags, BoardObserver
from orchestrator.drivers.reads.boards import board_of
from orchestrator.drivers.reads.gates import Gates
from orchestrator.drivers.reads.ramp import RampDriver
from orchestrator.drivers.reads.sampling import Samples
from orchestrator.drivers.rows.compare import CompareDriver
from orchestrator.drivers.rows.fill import FillDriver
from orchestrator.drivers.rows.replica import ReplicaCompareDriver
from orchestrator.drivers.shadow.double_writes import DoubleWriteProof, FlagMirrorDriver
from orchestrator.drivers.shadow.trial import MirrorTrialDriver
from orchestrator.drivers.shadow.triggers import TriggerDriver
from orchestrator.drivers.telling import Telling
from orchestrator.drivers.waiting import WaitDriver
from orchestrator.engine import Commands, Parts
from orchestrator.engine.judging import Judge
from orchestrator.engine.looking import compare_now
from orchestrator.engine.plan import Planner
from orchestrator.model.facts import MissingPrivilege, Need, Reading, ReplicaFacts
from orchestrator.model.outcome import Outcome
from orchestrator.model.runbook import Runbook
from orchestrator.model.state import Ask, Record
from orchestrator.model.stuck import stuck
from orchestrator.model.verdict import Judgement, Verdict
from orchestrator.mysql.clock import SystemClock
from orchestrator.mysql.errno import ServerError
from orchestrator.mysql.flags import MysqlFlags
from orchestrator.mysql.look.privileges import read_needed
from orchestrator.mysql.look.unseen import read_account
from orchestrator.mysql.observer import MysqlObserver
from orchestrator.mysql.site import Site
from orchestrator.mysql.told import told
from orchestrator.ports import Driver, Flags, Listener, Watcher
from orchestrator.runbook.difference import explain_difference
from orchestrator.runbook.lint import lint
from orchestrator.runbook.proof import proof_problems, proof_said
from orchestrator.sandbox.places import cache_folder
from orchestrator.settings import OneServer, ServerSettings
from orchestrator.store.mysql import MysqlStore
from orchestrator.telemetry.notify import Notifier
from orchestrator.telemetry.snapshot import Snapshot

SETTINGS_CHECKS = frozenset({"server-kind", "server-settings", "writable-primary"})


def whoami() -> str:
    """The person and machine that history and leases name."""
    return f"{getpass.getuser()}@{socket.gethostname()}"


class App(Struct, frozen=True):
    site: Site
    parts: Parts
    commands: Commands
    planner: Planner
    gates: Gates
    store: MysqlStore
    observer: BoardObserver
    closers: tuple[Callable[[], None], ...]

    def close(self) -> None:
        for close in self.closers:
            close()

    def compare(self, replica: str = "") -> Outcome:
        """``rollout verify``: one full comparison by the relation that holds now, on the primary or on ``replica``."""
        record = self.planner.present()
        driver = ReplicaCompareDriver(self.site, replica) if replica else self.parts.drivers["compare"]
        return compare_now(self.parts, record, driver)

    def missing(self) -> tuple[tuple[MissingPrivilege, ...], tuple[Verdict, ...]]:
        """Privileges that the account lacks, and checks of the server's settings that do not pass."""
        facts = self.observer.look(frozenset({Need.PRIVILEGES}))
        found = facts.privileges.value if facts.privileges is not None else None
        verdicts = self.parts.judge.everything()
        settings = [v for v in verdicts if v.check in SETTINGS_CHECKS and not v.good]
        if found is None:  # what nobody could ask is not what nothing is missing of
            settings += [v for v in verdicts if v.check == "privileges"]
        return found or (), (*settings, *(v for v in self.gates.tried() if v.judgement is Judgement.UNSEEN))

    def needed(self) -> tuple[MissingPrivilege, ...]:
        """Privileges that the whole way takes, whatever the account has. Raises ServerUnreachable."""
        with closing(self.site.connect("look")) as session:
            try:
                return read_needed(session, self.site.runbook, self.site.settings.state_schema, read_account(session))
            except ServerError as error:
                raise told(error, "while it was looked up what a rollout needs") from error

    def snapshots(self) -> Sequence[Snapshot]:
        """What a scrape shows: every rollout of the store, and of ours what the server shows."""
        return [self._snapshot(record) for record in self.store.rollouts()]

    def _snapshot(self, record: Record) -> Snapshot:
        told, id = self.store.read_progress(record.id), self.parts.runbook.id
        events = self.store.history(record.id)
        drift, retries = last_figure(events, "mismatches"), sum_of_figure(events, "retries")
        if record.id != id:
            return Snapshot(record, told, drift, retries=retries)
        facts = self.observer.look(frozenset({Need.FLAG, Need.REPLICAS, Need.MIRROR}))
        max_wait_s = self.parts.runbook.limits.max_wait_s
        found = stuck(record, told, self.store.holder(id), self.parts.clock.now(), max_wait_s)
        return Snapshot(record, told, drift, facts, ours=True, stuck=found, retries=retries)


class Surroundings(Struct, frozen=True):
    """Who watches, who listens, what signals ask for, and why the command was typed."""

    watcher: Watcher
    listeners: tuple[Listener, ...] = ()
    interrupted: Callable[[], Ask | None] = lambda: None
    reason: str = ""


def build(runbook: Runbook, settings: ServerSettings, around: Surroundings) -> App:
    """Everything for one rollout on one server. Opens no session yet, or only cheap ones; raises ServerUnreachable."""
    clock = SystemClock()
    settings = replace(settings, one=OneServer())
    site = Site(settings, runbook, clock)
    store = MysqlStore(settings, clock)
    look = MysqlObserver(site, lambda: store.load(runbook.id), samples=lambda: samples.latest())
    board = board_of(runbook, clock)
    observer = BoardObserver(look, board)
    row = MysqlFlags(settings, runbook.id, clock)
    flags = BoardFlags(row, board, clock, runbook.phases.ttl_s) if board is not None else row
    gates = Gates(site, lambda: MysqlObserver(site, lambda: store.load(runbook.id)))
    samples = Samples([runbook.gate(name) for name in runbook.limits.throttle], gates, clock)
    drivers = _drivers(site, look, flags, gates)
    parts = Parts(
        runbook=runbook,
        findings=lambda: (*lint(runbook), *proof_problems(runbook)),
        difference=lambda old_text: explain_difference(old_text, runbook),
        store=store,
        observer=observer,
        flags=flags,
        drivers=drivers,
        judge=Judge(all_checks(runbook), runbook.limits, observer, clock),
        forward=phases.FORWARD,
        rollback=phases.Rollback(),
        finish=lambda waived: phases.Finish(evidence_waived=waived),
        repair=phases.Repair(),
        listeners=(*around.listeners, Notifier(runbook.notify)),
        watcher=around.watcher,
        clock=clock,
        who=whoami(),
        interrupted=around.interrupted,
        tried=gates.tried,
        proven=lambda: proof_said(runbook),
        reason=around.reason,
    )
    closers = (gates.close, store.close, observer.close, row.close)
    return App(site, parts, Commands(parts), Planner(parts), gates, store, observer, closers)


def _drivers(site: Site, observer: MysqlObserver, flags: Flags, gates: Gates) -> dict[str, Driver[Any]]:
    def replicas() -> Reading[tuple[ReplicaFacts, ...]] | None:
        return observer.look(frozenset({Need.REPLICA_LOCKS})).replica_locks

    native, triggers = NativeDdlDriver(site, replicas), TriggerDriver(site, replicas)
    ghost = GhostTool(site.settings, site.clock, cache_folder() / "gh-ost" / "gh-ost")
    waiting = WaitDriver(site, observer)
    ddl = (
        "add-columns",
        "count-duplicates",
        "set-default",
        "rename-column",
        "show-index",
        "change-column",
        "add-check",
        "drop-check",
        "add-index",
        "add-foreign-key",
        "prove-foreign-key",
        "drop-foreign-key",
        "drop-index",
        "drop-columns",
    )
    watched = ("set-percent", "keep-flags", "watch-readers")
    reads = ("open-writes", *watched, "lower-flags", "measure-baselines", "close-rollout")
    table: dict[str, Driver[Any]] = dict.fromkeys(ddl, native) | {"try-ddl": TrialDriver(site)}
    table["try-mirror"] = MirrorTrialDriver(site)
    double, compare = FlagMirrorDriver(site, flags), CompareDriver(site)
    table |= {"install-trigger": triggers, "raise-double-writes": double}
    table["remove-mirror"] = double if site.runbook.phases.shadow == "flag" else triggers
    table["prove-double-writes"] = DoubleWriteProof(site, compare)
    table |= dict.fromkeys(("soak", "catch-up", "drain", "quiet"), waiting)
    table |= dict.fromkeys(reads, RampDriver(site, flags, gates))
    table["ghost-alter"] = CopyDriver(site, ghost, replicas)
    table |= {"fill": FillDriver(site), "compare": compare}
    return {kind: Telling(driver) for kind, driver in table.items()}
