"""What was seen, and when: a module for each thing that is looked at; everybody else reads them all from here."""

from __future__ import annotations

from orchestrator.model.facts.locks import BlockerKind, Holder, OpenTransaction
from orchestrator.model.facts.look import Facts
from orchestrator.model.facts.mirror import FlagFacts, MirrorFacts, OldStatement, Part, Presence
from orchestrator.model.facts.reading import Need, Reading
from orchestrator.model.facts.replicas import ReplicaFacts
from orchestrator.model.facts.scans import (
    BROKEN,
    DROPPED,
    NULLS,
    SOMEBODYS,
    UNTRIED,
    DriftFacts,
    MeterFacts,
    MismatchClass,
    Position,
    ValueCount,
    ValueScan,
)
from orchestrator.model.facts.server import DiskFacts, GateSample, LoadFacts, MissingPrivilege, ServerFacts
from orchestrator.model.facts.shape import Dependent, RowVersions, Shape, SizeFacts, Trigger

__all__ = [
    "BROKEN",
    "DROPPED",
    "NULLS",
    "SOMEBODYS",
    "UNTRIED",
    "BlockerKind",
    "Dependent",
    "DiskFacts",
    "DriftFacts",
    "Facts",
    "FlagFacts",
    "GateSample",
    "Holder",
    "LoadFacts",
    "MeterFacts",
    "MirrorFacts",
    "MismatchClass",
    "MissingPrivilege",
    "Need",
    "OldStatement",
    "OpenTransaction",
    "Part",
    "Position",
    "Presence",
    "Reading",
    "ReplicaFacts",
    "RowVersions",
    "ServerFacts",
    "Shape",
    "SizeFacts",
    "Trigger",
    "ValueCount",
    "ValueScan",
]
