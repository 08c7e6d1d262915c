"""A runbook as loaded: the contract, and the settings that may change while a rollout lives. All durations in
seconds."""

from __future__ import annotations

from enum import Enum
from typing import Literal

from msgspec import Struct, field

from orchestrator.model.blockers import KillPolicy
from orchestrator.model.contract import Contract, TableName
from orchestrator.model.window import Window

# Gates that exist in every runbook, by their kind: rows that do not correspond, a mirror that does not stand as it was
# installed, rows that break an invariant.
OWN_GATES = ("drift", "mirror", "invariants")
# Those of them that look at every row.
PASSES = ("drift", "invariants")
Engine = Literal["auto", "native", "gh-ost"]
ShadowDriver = Literal["triggers", "flag"]


class RollbackDdl(Enum):
    KEEP = "keep"
    DROP = "drop"


class GhostSettings(Struct, frozen=True):
    """How gh-ost works when it is the engine. ``drop_old_table``: the table that was swapped out goes when all is done;
    else it stays, with all its data, under its new name."""

    chunk_rows: int = 1_000
    cut_over_tries: int = 10
    drop_old_table: bool = False


class ReaderSettings(Struct, frozen=True):
    """How applications learn where to read. ``kind``: flag_table, flagd (``argument``: the file), command
    (``argument``: the program)."""

    kind: Literal["flag_table", "flagd", "command"] = "flag_table"
    argument: str = ""
    timeout_s: float = 5.0


class PhaseSettings(Struct, frozen=True):
    """The ``phases:`` part of a runbook. ``stays``: a lost watcher leaves readers where they are.

    ``workers``: of the backfill; 0 finds out how many. ``shadow``: who keeps both columns in step, triggers of ours or
    the applications themselves under a flag."""

    engine: Engine = "auto"
    window: Window | None = None
    final_lock_budget_s: float = 2.0
    index_tries: int = 10
    gh_ost: GhostSettings = field(default_factory=GhostSettings)
    target_time_s: float = 0.08
    max_batch_rows: int = 5_000
    workers: int = 1
    shadow: ShadowDriver = "triggers"
    soak_s: float = 30.0
    reader: ReaderSettings = field(default_factory=ReaderSettings)
    percents: tuple[int, ...] = (1, 5, 25, 50, 100)
    reads_window: Window | None = None
    hold_s: float = 300.0
    ttl_s: float = 90.0
    stays: bool = False
    poll_s: float = 1.0
    gates: tuple[str, ...] = ("drift",)
    verify_soak_s: float = 600.0
    rollback_ddl: RollbackDdl = RollbackDdl.KEEP
    rollback_quiet_s: float = 60.0
    finish_quiet_s: float = 600.0


class DiskSource(Struct, frozen=True):
    """Where free disk is read: ``local`` (a server on this machine), ``command``, or ``none`` with a reason."""

    kind: str = "local"
    argument: str = ""


class Limits(Struct, frozen=True):
    """The ``checks:`` part of a runbook. ``throttle``: gates that hold work on rows while they are over their max."""

    replication_lag_s: float = 5.0
    metadata_lock_age_s: float = 5.0
    transaction_age_s: float = 30.0
    threads_running: int = 200
    rest_above: int | None = None
    history_list: int = 1_000_000
    disk: DiskSource = field(default_factory=DiskSource)
    kill: KillPolicy = field(default_factory=KillPolicy)
    max_wait_s: float = 600.0
    stall_budget_s: float = 0.25
    stale_after_s: float = 15.0
    throttle: tuple[str, ...] = ()


class ReplicaPolicy(Struct, frozen=True):
    """``discover``, a fixed list of ``host:port``, or none with a reason. ``delayed`` replicas are watched but not
    waited for."""

    kind: str = "discover"
    hosts: tuple[str, ...] = ()
    reason: str = ""
    delayed: tuple[str, ...] = ()


class PrometheusSource(Struct, frozen=True):
    """Where Prometheus is asked; "" when only the environment says it. ``ca``: file of the authorities that are
    believed instead of the machine's."""

    url: str = ""
    ca: str = ""


class GateSpec(Struct, frozen=True):
    """One gate of the application. ``kind``: drift, mirror, invariants (they exist by themselves), sql, prometheus,
    command. Exactly one of ``max`` and ``max_increase`` for numbers.

    A sample fails when its number is over the limit; the gate fails when ``failure_limit`` of the last ``count``
    samples failed, and cannot say when ``inconclusive_limit`` of them gave no number. ``sample_size`` asks, as
    ``argument`` is asked, how many events the number is made of; fewer than ``min_sample_size`` make it none.
    """

    name: str
    kind: str
    argument: str = ""
    max: float | None = None
    max_increase: float | None = None
    interval_s: float = 10.0
    count: int = 5
    failure_limit: int = 3
    inconclusive_limit: int = 3
    timeout_s: float = 5.0
    sample_size: str = ""
    min_sample_size: float = 0.0


class Waiver(Struct, frozen=True):
    rule: str
    reason: str
    evidence: str = ""
    until: str = ""


class DecisionSettings(Struct, frozen=True):
    """What the decision record says beyond the contract. ``model``: what applications call the table, "" as the table
    is called. ``keeps``: columns that stood before and are the model's too; None: all that nothing takes over from.
    ``words``: by language, what each text of the runbook is in it."""

    title: str = ""
    model: str = ""
    keeps: tuple[str, ...] | None = None
    words: tuple[tuple[str, tuple[tuple[str, str], ...]], ...] = ()


class Runbook(Struct, frozen=True):
    """One change of one table. ``digest`` covers the contract (hex sha256 of its canonical form), ``text`` the whole
    file."""

    id: str
    contract: Contract
    digest: str
    text: str
    path: str
    why: str = ""
    owner: str = ""
    phases: PhaseSettings = field(default_factory=PhaseSettings)
    limits: Limits = field(default_factory=Limits)
    replicas: ReplicaPolicy = field(default_factory=ReplicaPolicy)
    gates: tuple[GateSpec, ...] = ()
    prometheus: PrometheusSource = field(default_factory=PrometheusSource)
    waivers: tuple[Waiver, ...] = ()
    notify: tuple[str, ...] = ()
    decision: DecisionSettings = field(default_factory=DecisionSettings)

    @property
    def table(self) -> TableName:
        return self.contract.table

    def gate(self, name: str) -> GateSpec:
        """The gate of that name; those of ``OWN_GATES`` exist without being written. Raises KeyError."""
        for gate in self.gates:
            if gate.name == name:
                return gate
        if name in OWN_GATES:
            return GateSpec(name=name, kind=name, max=0.0)
        raise KeyError(name)

    def waived(self, rule: str) -> Waiver | None:
        return next((w for w in self.waivers if w.rule == rule), None)
