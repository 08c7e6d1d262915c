"""Each check passes, holds or refuses for its own reason, and never takes for good what it could not see."""

from __future__ import annotations

import pytest
from msgspec.structs import fields, replace

from orchestrator.checks import all_checks
from orchestrator.checks.contract_drift import ContractDrift
from orchestrator.checks.flag_alive import FlagAlive
from orchestrator.checks.free_disk import FreeDisk, need_bytes
from orchestrator.checks.load import HistoryList, ThreadsRunning
from orchestrator.checks.long_transactions import LongTransactions
from orchestrator.checks.metadata_locks import MetadataLocks
from orchestrator.checks.mirror_intact import MirrorIntact
from orchestrator.checks.privileges import Privileges
from orchestrator.checks.replica_health import ReplicaHealth
from orchestrator.checks.replica_locks import ReplicaLocks
from orchestrator.checks.replication_lag import ReplicationLag
from orchestrator.checks.row_version_budget import RowVersionBudget
from orchestrator.checks.server_kind import ServerKind
from orchestrator.checks.server_settings import ServerSettings
from orchestrator.checks.writable_primary import WritablePrimary
from orchestrator.model.contract import Column, Contract, Copy, Index, IndexPart, Mapping, TableName
from orchestrator.model.facts import (
    BlockerKind,
    DiskFacts,
    Facts,
    FlagFacts,
    Holder,
    LoadFacts,
    MirrorFacts,
    MissingPrivilege,
    Need,
    OpenTransaction,
    Presence,
    Reading,
    ReplicaFacts,
    RowVersions,
    ServerFacts,
    SizeFacts,
)
from orchestrator.model.runbook import Limits, ReplicaPolicy, Runbook
from orchestrator.model.step import StepClass
from orchestrator.model.types import parse_type
from orchestrator.model.verdict import Judgement, ProblemKind, Verdict
from orchestrator.ports import Check
from tests.support.shapes import plain_shape

NOW = 1_000.0
LIMITS = Limits()
TABLE = TableName("shop", "orders")
STATE = Column("state", parse_type("varchar(32)"))
RUNBOOK = Runbook(
    id="orders-state",
    contract=Contract(
        TABLE,
        (STATE,),
        indexes=(Index("orders_state_idx", (IndexPart("state"),)),),
        mappings=(Mapping("state", "status", Copy(), Copy()),),
    ),
    digest="",
    text="",
    path="",
)
SERVER = ServerFacts(
    version=(8, 0, 28),
    version_text="8.0.28",
    is_mariadb=False,
    server_uuid="uuid-1",
    hostname="db1",
    port=3306,
    read_only=False,
    super_read_only=False,
    log_bin=True,
    binlog_format="ROW",
    binlog_row_image="FULL",
    binlog_retention_s=86_400,
    gtid_mode="ON",
    performance_schema=True,
    metadata_lock_instrument=True,
    is_replica=False,
    trust_function_creators=True,
    max_allowed_packet_bytes=2**26,
    native_foreign_keys=None,
)
SHAPE = plain_shape(TABLE, Column("id", parse_type("bigint"), null=False))
LIVE_STATE = replace(STATE, charset="utf8mb4", collation="utf8mb4_0900_ai_ci")
HOLDER = Holder(
    kind=BlockerKind.TRANSACTION,
    table="shop.orders",
    lock="TABLE SHARED_READ",
    waiting=False,
    age_s=0.2,
    process_id=12,
    user="app",
    host="10.0.0.7",
    idle=True,
    statement="SELECT 1 FROM orders",
)
HEALTHY = ReplicaFacts("r1:3306", True, lag_s=0.1, caught_up=True, io_running=True, sql_running=True)
GOOD = Facts(
    server=Reading(NOW, SERVER),
    shape=Reading(NOW, SHAPE),
    locks=Reading(NOW, (HOLDER,)),
    transactions=Reading(NOW, (OpenTransaction(5, "app", "h", 2.0, 1, "UPDATE orders"),)),
    replicas=Reading(NOW, (HEALTHY,)),
    replica_locks=Reading(NOW, (HEALTHY,)),
    load=Reading(NOW, LoadFacts(3, 100)),
    disk=Reading(NOW, DiskFacts(2**40, "/data")),
    privileges=Reading(NOW, ()),
    row_versions=Reading(NOW, RowVersions(3, 64)),
    size=Reading(NOW, SizeFacts(1000, 2**20, 2**18)),
    mirror=Reading(NOW, MirrorFacts.of_triggers(Presence.PRESENT, Presence.PRESENT)),
    flag=Reading(NOW, FlagFacts(True, True, 25, False, 60.0, 1)),
    began_on="uuid-1",
)
READINGS = [f.name for f in fields(Facts) if f.name not in ("began_on", "mirror_due", "readers_due", "stage")]
CHECKS = all_checks(RUNBOOK)
NAMES = [c.name for c in CHECKS]


def judge(check: Check, **readings: object) -> Verdict:
    """The verdict on the good facts with some of them replaced by fresh ones."""
    return check.judge(replace(GOOD, **{k: Reading(NOW, v) for k, v in readings.items()}), LIMITS, NOW)


def field_of(need: Need) -> str:
    return need.value.replace("-", "_")


@pytest.mark.parametrize("check", CHECKS, ids=NAMES)
def test_good_facts_pass_every_check_and_the_table_of_checks_can_be_printed(check: Check) -> None:
    verdict = check.judge(GOOD, LIMITS, NOW)
    assert verdict.judgement is Judgement.PASS, verdict
    assert verdict.check == check.name
    assert verdict.reason.startswith(check.name)
    assert verdict.seen
    assert verdict.limit


@pytest.mark.parametrize("check", CHECKS, ids=NAMES)
def test_a_fact_that_nobody_looked_at_is_never_good(check: Check) -> None:
    assert check.judge(Facts(), LIMITS, NOW).judgement is Judgement.UNSEEN


@pytest.mark.parametrize("check", CHECKS, ids=NAMES)
def test_a_fact_that_cannot_be_seen_is_never_good_and_names_its_grant(check: Check) -> None:
    blind = Facts(**{n: Reading(NOW, unseen="denied", grant="GRANT X ON *.* TO `u`@`%`;") for n in READINGS})
    verdict = check.judge(blind, LIMITS, NOW)
    assert verdict.judgement is Judgement.UNSEEN
    assert verdict.next == "GRANT X ON *.* TO `u`@`%`;"
    assert "denied" in verdict.seen


@pytest.mark.parametrize("check", CHECKS, ids=NAMES)
def test_a_stale_fact_is_as_good_as_none(check: Check) -> None:
    just = NOW + LIMITS.stale_after_s
    assert check.judge(GOOD, LIMITS, just).judgement is Judgement.PASS
    assert check.judge(GOOD, LIMITS, just + 0.1).judgement is Judgement.UNSEEN


@pytest.mark.parametrize("check", CHECKS, ids=NAMES)
def test_a_check_asks_for_all_that_it_judges(check: Check) -> None:
    asked = {field_of(n) for n in check.needs}
    only = replace(Facts(began_on="uuid-1"), **{n: getattr(GOOD, n) for n in READINGS if n in asked})
    assert check.judge(only, LIMITS, NOW).judgement is Judgement.PASS


@pytest.mark.parametrize("check", CHECKS, ids=NAMES)
def test_no_check_stands_in_the_way_back(check: Check) -> None:
    assert StepClass.URGENT not in check.before | check.during


def test_every_check_has_its_own_name_and_a_moment() -> None:
    assert len(set(NAMES)) == len(NAMES)
    assert all(c.before | c.during for c in CHECKS)


@pytest.mark.parametrize(
    ("server", "word"),
    [
        (replace(SERVER, is_mariadb=True, version_text="10.11.19-MariaDB"), "MariaDB"),
        (replace(SERVER, version=(8, 0, 27), version_text="8.0.27"), "8.0.27"),
        (replace(SERVER, version=(5, 7, 44), version_text="5.7.44"), "5.7.44"),
    ],
)
def test_another_kind_of_server_is_refused(server: ServerFacts, word: str) -> None:
    verdict = judge(ServerKind(), server=server)
    assert verdict.judgement is Judgement.REFUSE
    assert verdict.refusal is ProblemKind.CONFIGURATION
    assert word in verdict.reason


@pytest.mark.parametrize(
    ("change", "word"),
    [
        ({"performance_schema": False}, "performance_schema is off"),
        ({"metadata_lock_instrument": False}, "instrument is off"),
        ({"log_bin": False}, "binary log is off"),
        ({"binlog_format": "STATEMENT"}, "STATEMENT"),
        ({"binlog_row_image": "MINIMAL"}, "MINIMAL: what a replica"),
        ({"binlog_row_image": "NOBLOB"}, "NOBLOB: what a replica"),
        ({"binlog_retention_s": 300}, "300 s"),
    ],
)
def test_a_setting_that_blinds_or_loses_is_refused_by_name(change: dict[str, object], word: str) -> None:
    verdict = judge(ServerSettings(), server=replace(SERVER, **change))  # type: ignore[arg-type]  # names are given above
    assert verdict.judgement is Judgement.REFUSE
    assert word in verdict.seen


def test_an_instrument_that_may_not_be_looked_at_is_unseen_and_logs_kept_for_ever_are_kept() -> None:
    assert judge(ServerSettings(), server=replace(SERVER, metadata_lock_instrument=None)).judgement is Judgement.UNSEEN
    assert judge(ServerSettings(), server=replace(SERVER, binlog_retention_s=0)).judgement is Judgement.PASS


@pytest.mark.parametrize(
    "change", [{"server_uuid": "uuid-2"}, {"read_only": True}, {"super_read_only": True}, {"is_replica": True}]
)
def test_another_server_or_one_that_cannot_be_written_takes_readers_back(change: dict[str, object]) -> None:
    verdict = judge(WritablePrimary(), server=replace(SERVER, **change))  # type: ignore[arg-type]  # as above
    assert verdict.judgement is Judgement.REFUSE
    assert verdict.goes_back


def test_before_a_rollout_any_server_may_be_the_one_but_a_role_that_is_hidden_is_unseen() -> None:
    new = replace(GOOD, began_on="", server=Reading(NOW, replace(SERVER, server_uuid="other")))
    assert WritablePrimary().judge(new, LIMITS, NOW).judgement is Judgement.PASS
    hidden = replace(GOOD, began_on=None)
    assert WritablePrimary().judge(hidden, LIMITS, NOW).judgement is Judgement.UNSEEN
    assert judge(WritablePrimary(), server=replace(SERVER, is_replica=None)).judgement is Judgement.UNSEEN


def test_a_lock_that_is_held_for_long_is_named_with_user_host_age_and_last_statement() -> None:
    old = replace(HOLDER, age_s=7.0)
    verdict = judge(MetadataLocks(), locks=(HOLDER, old))
    assert verdict.judgement is Judgement.HOLD
    for word in ("app@10.0.0.7", "7 s", "idle in transaction", "SELECT 1 FROM orders"):
        assert word in verdict.reason
    assert not verdict.goes_back


@pytest.mark.parametrize(
    "kind",
    [k for k in BlockerKind if k not in (BlockerKind.TRANSACTION, BlockerKind.STATEMENT)],
    ids=lambda k: k.name,
)
def test_a_lock_that_no_traffic_takes_holds_at_any_age(kind: BlockerKind) -> None:
    assert judge(MetadataLocks(), locks=(replace(HOLDER, kind=kind),)).judgement is Judgement.HOLD


def test_somebody_who_waits_holds_us_and_an_orphan_is_told_what_frees_it() -> None:
    assert judge(MetadataLocks(), locks=(replace(HOLDER, waiting=True),)).judgement is Judgement.HOLD
    orphan = replace(HOLDER, kind=BlockerKind.PREPARED_XA, process_id=None)
    assert "XA RECOVER" in judge(MetadataLocks(), locks=(orphan,)).next


def test_the_oldest_transaction_decides() -> None:
    young, old = (OpenTransaction(i, "batch", "h", age, 9, "UPDATE x") for i, age in ((1, 29.0), (2, 31.0)))
    assert judge(LongTransactions(), transactions=(young,)).judgement is Judgement.PASS
    verdict = judge(LongTransactions(), transactions=(young, old))
    assert verdict.judgement is Judgement.HOLD
    assert verdict.reason.startswith("long-transactions 31.0s > 30.0s by batch@h (id 2)")
    assert judge(LongTransactions(), transactions=()).judgement is Judgement.PASS


def test_the_worst_replica_decides_and_the_reason_has_the_shape_of_the_law() -> None:
    verdict = judge(ReplicationLag(ReplicaPolicy()), replicas=(HEALTHY, replace(HEALTHY, name="replica-2", lag_s=7.2)))
    assert verdict.judgement is Judgement.HOLD
    assert verdict.reason == "replication-lag 7.2s > 5.0s on replica-2"


def test_a_lag_within_the_limit_says_how_near_it_is() -> None:
    verdict = judge(ReplicationLag(ReplicaPolicy()), replicas=(HEALTHY, replace(HEALTHY, name="replica-2", lag_s=3.8)))
    assert verdict.good
    assert verdict.strain == pytest.approx(3.8 / 5.0)
    assert verdict.reason == "replication-lag 3.8 s on replica-2"


def test_a_lag_that_nobody_can_say_is_worse_than_a_small_one() -> None:
    verdict = judge(ReplicationLag(ReplicaPolicy()), replicas=(HEALTHY, replace(HEALTHY, name="r2", lag_s=None)))
    assert verdict.judgement is Judgement.UNSEEN
    assert "r2" in verdict.reason


def test_a_replica_is_left_out_only_by_name() -> None:
    late = replace(HEALTHY, name="r2:3306", lag_s=3600.0, delay_s=3600)
    verdict = judge(ReplicationLag(ReplicaPolicy()), replicas=(HEALTHY, late))
    assert verdict.judgement is Judgement.HOLD
    assert "r2:3306" in verdict.next
    assert judge(ReplicationLag(ReplicaPolicy(delayed=("r2:3306",))), replicas=(HEALTHY, late)).good
    assert not judge(ReplicationLag(ReplicaPolicy(delayed=("r1:3306",))), replicas=(HEALTHY, late)).good


def test_a_broken_thread_takes_readers_back_and_a_reconnecting_one_only_holds() -> None:
    stopped = replace(HEALTHY, sql_running=False, problem="SQL thread stopped (1062: Duplicate entry)")
    verdict = judge(ReplicaHealth(ReplicaPolicy()), replicas=(stopped,))
    assert verdict.judgement is Judgement.HOLD
    assert verdict.goes_back
    assert "1062" in verdict.reason
    trying = replace(HEALTHY, io_running=False, connecting=True, problem="IO thread connecting")
    verdict = judge(ReplicaHealth(ReplicaPolicy()), replicas=(trying,))
    assert verdict.judgement is Judgement.HOLD
    assert not verdict.goes_back


def test_a_replica_out_of_reach_is_unseen_and_named() -> None:
    away = ReplicaFacts("r2:3306", False, problem="no answer for 2.0 s")
    for check in (ReplicaHealth(ReplicaPolicy()), ReplicationLag(ReplicaPolicy())):
        verdict = judge(check, replicas=(HEALTHY, away))
        assert verdict.judgement is Judgement.UNSEEN
        assert "r2:3306" in verdict.reason
        assert "no answer" in verdict.reason


def test_no_replicas_by_decision_passes_with_the_reason() -> None:
    none = ReplicaPolicy(kind="none", reason="a single development server")
    for check in (ReplicaHealth(none), ReplicationLag(none)):
        verdict = judge(check, replicas=())
        assert verdict.judgement is Judgement.PASS
        assert "development server" in verdict.seen


@pytest.mark.parametrize("policy", [ReplicaPolicy(), ReplicaPolicy("list")])
def test_no_replica_is_believed_only_when_the_runbook_says_so(policy: ReplicaPolicy) -> None:
    """Case B88: one that nobody can see would show a lag of 0 and slow nothing."""
    verdict = judge(ReplicationLag(policy), replicas=())
    assert (verdict.judgement, verdict.refusal) == (Judgement.REFUSE, ProblemKind.HELD)
    assert "replicas: {none: WHY}" in verdict.next


@pytest.mark.parametrize(
    ("stage", "judgement"),
    [
        ("backfill", Judgement.REFUSE),
        ("read-switch", Judgement.HOLD),
        ("verify", Judgement.HOLD),
        ("rollback", Judgement.PASS),
        ("finish", Judgement.PASS),
    ],
)
def test_the_way_back_waits_for_no_replica(stage: str, judgement: Judgement) -> None:
    """A replica that is down looks like none: readers wait for it, the way back does not."""
    facts = replace(GOOD, replicas=Reading(NOW, ()), stage=stage)
    assert ReplicationLag(ReplicaPolicy()).judge(facts, LIMITS, NOW).judgement is judgement


def test_a_reader_on_a_replica_holds_an_alter_and_a_replica_out_of_reach_too() -> None:
    held = replace(HEALTHY, holders=(replace(HOLDER, age_s=60.0),))
    verdict = judge(ReplicaLocks(), replica_locks=(HEALTHY, held))
    assert verdict.judgement is Judgement.HOLD
    assert "on r1:3306" in verdict.reason
    away = ReplicaFacts("r2:3306", False, problem="refused")
    assert judge(ReplicaLocks(), replica_locks=(HEALTHY, away)).judgement is Judgement.UNSEEN


def test_a_busy_server_holds() -> None:
    assert judge(ThreadsRunning(), load=LoadFacts(200, 0)).good
    assert judge(ThreadsRunning(), load=LoadFacts(201, 0)).reason == "threads-running 201 > 200"
    assert judge(HistoryList(), load=LoadFacts(1, 1_000_001)).judgement is Judgement.HOLD
    assert judge(HistoryList(), load=LoadFacts(1, None)).judgement is Judgement.UNSEEN


def test_the_disk_must_hold_what_the_rollout_writes() -> None:
    size = SizeFacts(10_000_000, 8 * 2**30, 2**30)
    need = need_bytes(size, RUNBOOK)
    assert need > 16 * 2**30
    assert judge(FreeDisk(RUNBOOK), size=size, disk=DiskFacts(need, "/data")).good
    verdict = judge(FreeDisk(RUNBOOK), size=size, disk=DiskFacts(need - 1, "/data"))
    assert verdict.judgement is Judgement.HOLD
    assert "/data" in verdict.reason


def test_a_disk_that_the_runbook_does_not_look_at_passes_and_says_so() -> None:
    verdict = judge(FreeDisk(RUNBOOK), disk=DiskFacts(None, "none: managed storage grows"))
    assert verdict.good
    assert "managed storage grows" in verdict.seen


def test_a_disk_without_a_known_size_of_the_table_is_unseen() -> None:
    facts = replace(GOOD, size=Reading(NOW, unseen="denied"))
    assert FreeDisk(RUNBOOK).judge(facts, LIMITS, NOW).judgement is Judgement.UNSEEN


def test_the_last_row_version_may_be_used_and_no_more() -> None:
    assert judge(RowVersionBudget(RUNBOOK), row_versions=RowVersions(63, 64)).good
    assert judge(RowVersionBudget(RUNBOOK), row_versions=RowVersions(64, 64)).judgement is Judgement.REFUSE


def test_no_row_version_is_needed_when_every_column_is_there() -> None:
    there = replace(SHAPE, columns=(*SHAPE.columns, LIVE_STATE))
    assert judge(RowVersionBudget(RUNBOOK), shape=there, row_versions=RowVersions(64, 64)).good


def test_a_missing_privilege_refuses_with_77_and_its_grant() -> None:
    missing = MissingPrivilege("ALTER", "GRANT ALTER ON `shop`.`orders` TO `u`@`%`;", "needed for ddl")
    verdict = judge(Privileges(), privileges=(missing,))
    assert verdict.judgement is Judgement.REFUSE
    assert verdict.refusal is ProblemKind.PRIVILEGE
    assert verdict.next == missing.grant
    assert "needed for ddl" in verdict.seen


def test_a_column_that_is_otherwise_than_the_contract_says_refuses_and_a_missing_one_does_not() -> None:
    other = replace(SHAPE, columns=(*SHAPE.columns, replace(LIVE_STATE, type=parse_type("int"), charset=None)))
    verdict = judge(ContractDrift(RUNBOOK), shape=other)
    assert verdict.judgement is Judgement.REFUSE
    assert "type is int, wanted varchar(32)" in verdict.seen
    assert "1 columns, 1 indexes" in judge(ContractDrift(RUNBOOK)).seen


def test_a_table_that_is_not_there_is_unseen_for_the_checks() -> None:
    facts = replace(GOOD, shape=Reading(NOW))
    assert ContractDrift(RUNBOOK).judge(facts, LIMITS, NOW).judgement is Judgement.UNSEEN


@pytest.mark.parametrize(
    "mirror",
    [
        MirrorFacts.of_triggers(Presence.ABSENT, Presence.PRESENT),
        MirrorFacts.of_triggers(Presence.PRESENT, Presence.CHANGED),
        MirrorFacts.of_triggers(Presence.PRESENT, Presence.PRESENT, "trigger x runs after ours"),
    ],
)
def test_a_mirror_that_is_not_whole_takes_readers_back(mirror: MirrorFacts) -> None:
    verdict = judge(MirrorIntact(RUNBOOK), mirror=mirror)
    assert verdict.judgement is Judgement.REFUSE
    assert verdict.goes_back


def test_a_mirror_that_is_not_due_yet_may_be_absent_but_not_half_there() -> None:
    none = replace(
        GOOD, mirror_due=False, mirror=Reading(NOW, MirrorFacts.of_triggers(Presence.ABSENT, Presence.ABSENT))
    )
    half = replace(none, mirror=Reading(NOW, MirrorFacts.of_triggers(Presence.PRESENT, Presence.ABSENT)))
    assert MirrorIntact(RUNBOOK).judge(none, LIMITS, NOW).good
    assert not MirrorIntact(RUNBOOK).judge(replace(none, mirror_due=True), LIMITS, NOW).good
    assert not MirrorIntact(RUNBOOK).judge(half, LIMITS, NOW).good


def test_a_contract_that_maps_nothing_needs_no_mirror() -> None:
    bare = replace(RUNBOOK, contract=replace(RUNBOOK.contract, mappings=()))
    assert judge(MirrorIntact(bare), mirror=MirrorFacts.of_triggers(Presence.ABSENT, Presence.ABSENT)).good


def test_a_raised_flag_that_expired_takes_readers_back_and_a_lowered_one_is_at_rest() -> None:
    raised = FlagFacts(True, True, 5, True, 0.0, 1)
    verdict = judge(FlagAlive(), flag=raised)
    assert verdict.judgement is Judgement.REFUSE
    assert verdict.goes_back
    assert judge(FlagAlive(), flag=replace(raised, read_percent=0)).judgement is Judgement.REFUSE
    assert judge(FlagAlive(), flag=FlagFacts(True, False, 0, True, 0.0, 1)).good
    assert judge(FlagAlive(), flag=FlagFacts(False)).good
    assert judge(FlagAlive(), flag=FlagFacts(True, True, 100, False, None, 1)).good


@pytest.mark.parametrize(
    ("step", "before", "during"),
    [
        (
            StepClass.EXCLUSIVE,
            {
                "metadata-locks",
                "long-transactions",
                "replica-locks",
                "replication-lag",
                "row-version-budget",
                "free-disk",
            },
            set(),
        ),
        (
            StepClass.ROWS,
            {"replication-lag", "replica-health", "threads-running", "history-list", "writable-primary"},
            {"replication-lag", "replica-health", "threads-running", "history-list", "writable-primary"},
        ),
        (
            StepClass.READS,
            {"mirror-intact", "replication-lag", "replica-health", "writable-primary"},
            {"mirror-intact", "flag-alive", "replica-health", "writable-primary"},
        ),
    ],
    ids=lambda v: v.name if isinstance(v, StepClass) else "",
)
def test_the_checks_run_at_their_moments(step: StepClass, before: set[str], during: set[str]) -> None:
    assert before <= {c.name for c in CHECKS if step in c.before}
    assert during <= {c.name for c in CHECKS if step in c.during}
