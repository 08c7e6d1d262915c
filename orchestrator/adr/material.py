"""What a record is made of: the contract, its proof, and what other rooms say of it. Gathered once, rendered twice."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from msgspec import Struct

from orchestrator.model.contract import Before, Column, Contract, Index
from orchestrator.model.matrix import Matrix, Version
from orchestrator.model.renaming import standing_after
from orchestrator.model.runbook import Runbook
from orchestrator.model.step import Step
from orchestrator.model.walking_key import PRIMARY

Own = Callable[[str], str]


class Planned(Struct, frozen=True):
    """One step of ddl, or of its way back, and the statements that it will run."""

    step: Step
    sql: tuple[str, ...]


class Query(Struct, frozen=True):
    """A declared statement, for which an index stands: its columns are what the statement looks rows up by."""

    version: Version
    number: int
    text: str


class Material(Struct, frozen=True):
    """``matrix`` None: nobody proved this contract. ``fields``: what Prisma calls each column, by lower-case name.
    ``served``: by the name of an index, the declared statements that it serves. ``triggers``: names of the mirror's."""

    runbook: Runbook
    matrix: Matrix | None
    ddl: tuple[Planned, ...]
    back: tuple[Planned, ...]
    prisma: str
    fields: Mapping[str, str]
    served: Mapping[str, tuple[Query, ...]]
    triggers: tuple[str, ...]

    @property
    def contract(self) -> Contract:
        return self.runbook.contract

    @property
    def before(self) -> Before:
        """What stood before, under the names that it has when ddl is done."""
        return standing_after(self.contract) or Before(())

    @property
    def model(self) -> str:
        """What applications call the table."""
        return self.runbook.decision.model or self.contract.table.name

    @property
    def stood(self) -> tuple[Column, ...]:
        """Columns that stood before, as they are afterwards."""
        changed = {c.name.lower(): c for c in self.contract.changes}
        return tuple(changed.get(c.name.lower(), c) for c in self.before.columns)

    @property
    def kept(self) -> tuple[Column, ...]:
        """Columns that stood before and are the model's too."""
        keeps = self.runbook.decision.keeps
        if keeps is not None:
            return tuple(c for c in self.stood if c.name in keeps)
        gone = {(m.old or "").lower() for m in self.contract.pairs}
        return tuple(c for c in self.stood if c.name.lower() not in gone and not c.retire)

    @property
    def left(self) -> tuple[Column, ...]:
        """Columns that stay beside the model, until a later contract drops them."""
        kept = self.kept
        return tuple(c for c in self.stood if c not in kept)

    @property
    def key(self) -> tuple[str, ...]:
        """The columns that rows are walked by."""
        primary = (i.columns for i in self.before.indexes if i.name == PRIMARY)
        return self.contract.key or next(primary, ())

    @property
    def indexes(self) -> tuple[tuple[str, Index], ...]:
        """Every index with its sign in the record: PK, S1 … of those that stood before, I1 … of the added ones."""
        stood = [i for i in self.before.indexes if i.name != PRIMARY]
        return (
            *(("PK", i) for i in self.before.indexes if i.name == PRIMARY),
            *((f"S{n}", i) for n, i in enumerate(stood, 1)),
            *((f"I{n}", i) for n, i in enumerate(self.contract.indexes, 1)),
        )


def texts_of(runbook: Runbook) -> tuple[str, ...]:
    """Every text of the runbook for people that a record shows, each once."""
    contract = runbook.contract
    before = contract.before or Before(())
    columns = (*before.columns, *contract.columns)
    keys = (*before.foreign_keys, *contract.foreign_keys, *(f for _, f in before.children))
    texts = (
        runbook.decision.title,
        runbook.why,
        contract.allow_rebuild,
        *(text for c in columns for text in (c.writer, c.retire)),
        *(i.serves for i in (*before.indexes, *contract.indexes)),
        *(f.why for f in keys),
        *(m.why for m in contract.mappings),
        *(text for w in runbook.waivers for text in (w.reason, w.evidence)),
    )
    return tuple(dict.fromkeys(t for t in texts if t))


def untranslated(runbook: Runbook, language: str) -> tuple[str, ...]:
    """Texts of the runbook that stand in the record as they are written, because nobody translated them."""
    if language == "en":
        return ()
    said = dict(dict(runbook.decision.words).get(language, ()))
    return tuple(t for t in texts_of(runbook) if t not in said)


def own_words(runbook: Runbook, language: str) -> Own:
    """The runbook's own texts in that language; what is not translated is shown as it is written."""
    known = dict(dict(runbook.decision.words).get(language, ()))
    return lambda text: known.get(text, text)
