"""Every check, in the order in which a person reads them: what the server is, who is in the way, how it fares."""

from __future__ import annotations

from orchestrator.checks.contract_drift import ContractDrift
from orchestrator.checks.flag_alive import FlagAlive
from orchestrator.checks.free_disk import FreeDisk
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
from orchestrator.checks.throttle import Throttle
from orchestrator.checks.writable_primary import WritablePrimary
from orchestrator.model.runbook import Runbook
from orchestrator.ports import Check

__all__ = ["all_checks"]


def all_checks(runbook: Runbook) -> tuple[Check, ...]:
    """All checks for one runbook."""
    return (
        ServerKind(),
        ServerSettings(),
        WritablePrimary(),
        Privileges(),
        ContractDrift(runbook),
        MetadataLocks(),
        LongTransactions(),
        ReplicationLag(runbook.replicas),
        ReplicaHealth(runbook.replicas),
        ReplicaLocks(),
        ThreadsRunning(),
        HistoryList(),
        *(Throttle(runbook.gate(name)) for name in runbook.limits.throttle),
        FreeDisk(runbook),
        RowVersionBudget(runbook),
        MirrorIntact(runbook),
        FlagAlive(),
    )
