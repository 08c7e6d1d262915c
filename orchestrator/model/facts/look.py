"""One look: all the readings that were taken together."""

from __future__ import annotations

from msgspec import Struct

from orchestrator.model.facts.locks import Holder, OpenTransaction
from orchestrator.model.facts.mirror import FlagFacts, MirrorFacts, OldStatement
from orchestrator.model.facts.reading import Reading
from orchestrator.model.facts.replicas import ReplicaFacts
from orchestrator.model.facts.scans import (
    DriftFacts,
    MeterFacts,
    Position,
    ValueScan,
)
from orchestrator.model.facts.server import DiskFacts, GateSample, LoadFacts, MissingPrivilege, ServerFacts
from orchestrator.model.facts.shape import Dependent, RowVersions, Shape, SizeFacts


class Facts(Struct, frozen=True):
    """Everything one look brought back; a reading that was not asked for is None.

    ``began_on``: the server of the rollout's record, "" before there is one, None when it cannot be read.
    ``mirror_due``: whether the record says that the mirror stands; ``readers_due``: and that all readers are on the new
    column. ``dependents``: what else names the table. ``stage``: for which it was looked; "": for
    the whole way.
    """

    server: Reading[ServerFacts] | None = None
    shape: Reading[Shape] | None = None
    locks: Reading[tuple[Holder, ...]] | None = None
    transactions: Reading[tuple[OpenTransaction, ...]] | None = None
    replicas: Reading[tuple[ReplicaFacts, ...]] | None = None
    replica_locks: Reading[tuple[ReplicaFacts, ...]] | None = None
    load: Reading[LoadFacts] | None = None
    disk: Reading[DiskFacts] | None = None
    privileges: Reading[tuple[MissingPrivilege, ...]] | None = None
    row_versions: Reading[RowVersions] | None = None
    size: Reading[SizeFacts] | None = None
    values: Reading[ValueScan] | None = None
    mirror: Reading[MirrorFacts] | None = None
    drift: Reading[DriftFacts] | None = None
    invariants: Reading[DriftFacts] | None = None
    meter: Reading[MeterFacts] | None = None
    flag: Reading[FlagFacts] | None = None
    positions: Reading[tuple[Position, ...]] | None = None
    throttles: Reading[tuple[GateSample, ...]] | None = None
    readers: Reading[tuple[OldStatement, ...]] | None = None
    dependents: Reading[tuple[Dependent, ...]] | None = None
    began_on: str | None = ""
    mirror_due: bool = True
    readers_due: bool = False
    stage: str = ""
