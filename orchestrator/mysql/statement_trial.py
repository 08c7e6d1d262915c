"""Declared statements prepared and executed on a scratch copy: what the server says of each, in the shape at hand.

PREPARE proves names; what it misses (1364, values that are too long, errors in triggers) shows when the statement runs.
So each is executed on sample rows in a transaction that is rolled back. An error that comes from our sample values
and not from the shape proves nothing, and is told from one that does.
"""

from __future__ import annotations

from collections.abc import Sequence
from enum import Enum

from msgspec import Struct
from msgspec.structs import replace

from orchestrator.model.contract import Contract
from orchestrator.model.facts import Shape
from orchestrator.model.types import Family
from orchestrator.mysql.cascades import chain_rows, expanded, held_values, parent_row
from orchestrator.mysql.declared import Declared, bound
from orchestrator.mysql.errno import Cure, ServerError
from orchestrator.mysql.family_copy import FamilyCopy
from orchestrator.mysql.session import Session
from orchestrator.mysql.sql import statement_trial as sql
from orchestrator.mysql.tokens import TokenKind
from orchestrator.mysql.wording import words_of

# What a sample value can meet and a real one need not: a key that is taken, a parent that is not there, a form or a
# range that the column does not take, a trigger of the application's that refuses it.
_OF_A_VALUE = frozenset(
    {1048, 1062, 1216, 1217, 1264, 1265, 1292, 1365, 1366, 1367, 1406, 1411, 1416, 1451, 1452, 1525, 1644, 1690}
    | {3037, 3140, 3141, 3156, 3819, 3903, 6575}
)
# What a copy does not have: a table that was not copied, a routine, a statement that cannot be prepared.
_OF_THE_COPY = frozenset({1146, 1295, 1305, 1356, 1370})
# What a copy must not do: wait, lock by name, or touch files.
_LEAVES_THE_COPY = frozenset(
    ["OUTFILE", "DUMPFILE", "LOAD_FILE", "SLEEP", "BENCHMARK", "GET_LOCK", "RELEASE_LOCK", "RELEASE_ALL_LOCKS", "CALL"]
)
_RUN = frozenset({"SELECT", "INSERT", "UPDATE", "DELETE", "REPLACE", "TABLE", "VALUES"})


class Fared(Struct, frozen=True):
    """What became of one statement. ``number`` 0: it passed. ``left_out``: why it was only prepared, or not even
    that."""

    number: int = 0
    text: str = ""
    executing: bool = False
    left_out: str = ""

    @property
    def passed(self) -> bool:
        return self.number == 0


class Judged(Enum):
    PASSES = "passes"
    FAILS = "fails"
    UNPROVEN = "unproven"


def judged(first: Fared, here: Fared) -> Judged:
    """``here`` in the light of the first shape in which the version runs: an error that sample values can cause says
    nothing of a shape when it was there from the first."""
    if here.passed:
        return Judged.PASSES
    weak = here.number in _OF_THE_COPY or (here.executing and here.number in _OF_A_VALUE)
    return Judged.UNPROVEN if weak and not first.passed else Judged.FAILS


class StatementTrial:
    """Statements on one copy, under the settings of the application's sessions. Raises ServerError only when the server
    itself is the trouble."""

    def __init__(self, session: Session, here: FamilyCopy, contract: Contract) -> None:
        self._session, self._here, self._contract = session, here, contract
        live = here.shapes[contract.table]
        added = [c for c in contract.columns if live.column(c.name) is None]
        self._shapes = shapes = expanded(here, contract.table, added)
        keys = tuple(f for f in contract.foreign_keys if f.references in here.copies)
        self._held = held_values(here, contract.table, keys, shapes)
        self._parents = tuple(dict.fromkeys(f.references for f in keys if f.references != contract.table))

    def lay_rows(self, shape: Shape) -> None:
        """Four rows, and one of each parent; ``shape``: of the copy now. Rows that cannot be made are left out."""
        session, tag, copy = self._session, self._here.tag, self._here.of(self._contract.table)
        session.execute("SET SESSION sql_mode = 'NO_ENGINE_SUBSTITUTION'")
        live = self._here.shapes[self._contract.table]
        keys = tuple(f for f in live.foreign_keys if shape.foreign_key(f.name) is not None)
        now = replace(live, columns=shape.columns, indexes=shape.indexes, foreign_keys=keys)
        standing = [f.references for f in keys]
        rows = list(chain_rows(self._here, self._contract.table, (), self._here.shapes | {self._contract.table: now}))
        rows += [parent_row(self._here, p, self._shapes) for p in self._parents if p not in standing]
        named = {c.lower() for f in shape.foreign_keys for c in f.columns}
        named |= {c.lower() for i in shape.indexes if i.unique for c in i.columns}
        plain = [
            c
            for c in shape.columns
            if c.generated is None and c.name.lower() not in named and c.type.family is not Family.SPATIAL
        ]
        for row in (*rows, *([sql.fill(copy, plain, tag)] if plain else ())):
            try:
                session.execute(row)
            except ServerError as error:
                if error.cure is not Cure.STOP:
                    raise

    def clear(self) -> None:
        """No row is left on any copy."""
        self._session.execute("SET SESSION foreign_key_checks = 0")
        for copy in self._here.copies.values():
            self._session.execute(sql.clear(copy, self._here.tag))
        self._session.execute("SET SESSION foreign_key_checks = 1")

    def bound(self, text: str, shape: Shape) -> Declared:
        """With sample values of the columns of ``shape``."""
        return bound(text, self._contract, shape, self._held)

    def fared(self, text: str, shape: Shape, modes: Sequence[str]) -> Fared:
        """The statement under each sql_mode, with samples and with the longest values; the first error of them."""
        said = self.bound(text, shape)
        if said.problem:
            return Fared(1295, said.problem, left_out=said.problem)
        longest = bound(text, self._contract, shape, self._held, sql.longest)
        found = Fared()
        for mode in modes:
            self._session.execute("SET SESSION sql_mode = %s", (mode,))
            self._session.execute(sql.use(self._here.schema))
            found = self._once(said, longest)
            if not found.passed:
                return found
        return found

    def _once(self, said: Declared, longest: Declared) -> Fared:
        if refused := self._sent(sql.prepare(said.text)):
            return Fared(refused.number, self._shown(refused))
        why = _not_run(said)
        if why:
            return Fared(left_out=f"{said.text} was prepared and not run: {why}")
        for arguments in dict.fromkeys((said.arguments, longest.arguments)):
            if refused := self._sent(sql.execute(arguments)):
                return Fared(refused.number, self._shown(refused), executing=True)
        return Fared()

    def _sent(self, statements: Sequence[str]) -> ServerError | None:
        try:
            self._session.packet(statements)
        except ServerError as error:
            if error.cure is Cure.RECONNECT:
                raise
            return error
        return None

    def _shown(self, error: ServerError) -> str:
        """As the application would read it: with the name of its own schema."""
        return error.without_values.replace(self._here.schema, self._contract.table.schema)


def _not_run(said: Declared) -> str:
    if said.says.verb not in _RUN:
        return f"{said.says.verb or 'it'} is no statement on rows"
    words = {t.word for t in words_of(said.text) if t.kind is TokenKind.NAME}
    out = sorted(words & _LEAVES_THE_COPY)
    return f"{out[0]} reaches beyond the copy" if out else ""
