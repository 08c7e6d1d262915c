"""What a decision record is made of, brought together from the rooms that know it. Asks no server."""

from __future__ import annotations

from collections.abc import Sequence

from msgspec.structs import replace

from orchestrator.adr.chinese import CHINESE
from orchestrator.adr.english import ENGLISH
from orchestrator.adr.material import Material, Planned, Query
from orchestrator.adr.page import page
from orchestrator.adr.words import Words
from orchestrator.contract.prisma.write import field_names, write_schema
from orchestrator.contract.stood import expanded, stood
from orchestrator.drivers.ddl.native import NativeDdlDriver
from orchestrator.errors import RunbookError, UsageError
from orchestrator.model.chooser import Ground
from orchestrator.model.contract import Contract
from orchestrator.model.facts import Facts, MirrorFacts, Presence, Reading
from orchestrator.model.matrix import VERSIONS, Matrix, Version
from orchestrator.model.runbook import RollbackDdl, Runbook
from orchestrator.model.state import FORWARD, Record
from orchestrator.model.step import GhostAlter, NativeDdlStep, Step
from orchestrator.mysql.clock import SystemClock
from orchestrator.mysql.lookups import lookup_of, serving
from orchestrator.mysql.site import Site
from orchestrator.mysql.sql.alter import copy_clauses
from orchestrator.mysql.sql.mirror import trigger_name
from orchestrator.runbook.proof import proof_beside
from orchestrator.settings import ServerSettings
from phases.ddl import missing_steps
from phases.rollback import Rollback

WORDS = {words.language: words for words in (ENGLISH, CHINESE)}
# The oldest server whose INSTANT columns can be trusted: what it can do, every newer one can.
_OLDEST = (8, 0, 31)


def record_page(runbook: Runbook, language: str) -> str:
    """The decision record in that language. The same runbook and proof give the same bytes.

    Raises UsageError for a language without words, and what ``material`` raises.
    """
    return page(material(runbook), words_of(language))


def words_of(language: str) -> Words:
    """Raises UsageError."""
    if language not in WORDS:
        raise UsageError(f"there are no words in {language!r}", f"one of {', '.join(WORDS)}", "correct --lang")
    return WORDS[language]


def material(runbook: Runbook) -> Material:
    """What the record is made of. Raises FileFindings; RunbookError when nobody wrote down what stood before."""
    contract = runbook.contract
    if contract.before is None:
        raise RunbookError(
            f"{runbook.path}: the runbook does not say what stood before",
            "table.before: a record shows the whole table, its delete rules and its DDL",
            "write it down; rollout init writes it from a live table, DDL or a Prisma schema",
        )
    return Material(
        runbook=runbook,
        matrix=_proof(runbook),
        ddl=_all_planned(missing_steps(runbook, Ground(stood(contract), _OLDEST), _new(runbook)), runbook),
        back=_all_planned(_back(runbook), runbook),
        prisma=write_schema(contract, runbook.decision.model),
        fields=field_names(contract),
        served=_served(contract),
        triggers=_triggers(runbook),
    )


def _triggers(runbook: Runbook) -> tuple[str, ...]:
    """None where there is nothing to mirror, or the applications write both columns by themselves."""
    ours = runbook.contract.mappings and runbook.phases.shadow == "triggers"
    return tuple(trigger_name(runbook.id, event) for event in ("update", "insert")) if ours else ()


def _proof(runbook: Runbook) -> Matrix | None:
    """The matrix that lies beside the runbook, when it is that of this contract."""
    found = proof_beside(runbook)
    return found if found is not None and found.digest == runbook.digest else None


def _new(runbook: Runbook) -> Record:
    return Record(
        id=runbook.id,
        table=runbook.table,
        digest=runbook.digest,
        runbook_text=runbook.text,
        runbook_path=runbook.path,
        server_uuid="",
    )


def _back(runbook: Runbook) -> Sequence[Step]:
    """What a rollback all the way does to the shape; nothing when it keeps what ddl added."""
    if runbook.phases.rollback_ddl is RollbackDdl.KEEP:
        return ()
    contract = runbook.contract
    added = replace(
        _new(runbook),
        done=FORWARD,
        columns_added=tuple(c.name for c in contract.columns),
        columns_renamed=tuple(r.old for r in contract.renames_in_place),
        indexes_added=tuple(i.name for i in contract.indexes),
        foreign_keys_added=tuple(f.name for f in contract.foreign_keys),
        checks_added=tuple(c.name for c in contract.checks),
    )
    gone = MirrorFacts.of_triggers(Presence.ABSENT, Presence.ABSENT)
    facts = Facts(shape=Reading(0.0, expanded(contract)), mirror=Reading(0.0, gone))
    return Rollback().steps(runbook, facts, added)


def _all_planned(steps: Sequence[Step], runbook: Runbook) -> tuple[Planned, ...]:
    """Those that send a statement to the table itself."""
    return tuple(_planned(s, runbook) for s in steps if isinstance(s, GhostAlter | NativeDdlStep))


def _planned(step: GhostAlter | NativeDdlStep, runbook: Runbook) -> Planned:
    """The step with the statements that its driver will send."""
    if isinstance(step, GhostAlter):
        try:
            return Planned(step, (f"gh-ost --alter={copy_clauses(step)}",))
        except ValueError as wrong:
            return Planned(step, (f"-- gh-ost cannot be told {wrong}",))
    site = Site(ServerSettings(), runbook, SystemClock())  # a description connects to nothing
    return Planned(step, tuple(NativeDdlDriver(site).describe(step)))


def _served(contract: Contract) -> dict[str, tuple[Query, ...]]:
    """By index, the declared statements that look their rows up by it."""
    indexes = expanded(contract).indexes
    found: dict[str, list[Query]] = {}
    for version in VERSIONS:
        for number, text in enumerate(_declared(contract, version), 1):
            index = serving(lookup_of(text), indexes)
            if index is not None:
                found.setdefault(index.name, []).append(Query(version, number, text))
    return {name: tuple(queries) for name, queries in found.items()}


def _declared(contract: Contract, version: Version) -> tuple[str, ...]:
    return contract.old_statements if version == "old" else contract.new_statements
