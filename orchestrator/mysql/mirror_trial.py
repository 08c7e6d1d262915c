"""The mirror tried on scratch copies: the same statements without it and with it, and what came out otherwise.

Each statement runs in a transaction that is rolled back, on rows that hold what the backfill would have left, so that
both runs begin alike. The application's own triggers and foreign keys are there; rows and triggers of production are
neither read nor fired.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence

from orchestrator.errors import RunbookError
from orchestrator.model.contract import Column, Contract, TableName
from orchestrator.model.facts import Trigger
from orchestrator.mysql import quote
from orchestrator.mysql.cascades import chain_rows, held_values, needed_values
from orchestrator.mysql.declared import Declared, declared
from orchestrator.mysql.errno import Cure, ServerError
from orchestrator.mysql.family_copy import FamilyCopy
from orchestrator.mysql.noticed import Ran, Run, Setting
from orchestrator.mysql.relation import MIRROR_PREFIX, Relation
from orchestrator.mysql.session import Session
from orchestrator.mysql.sql import mirror
from orchestrator.mysql.sql import mirror_trial as sql
from orchestrator.mysql.sql.mirror_trial import Case, Target
from orchestrator.mysql.tokens import TokenKind
from orchestrator.mysql.wording import words_of

_MOST_SETTINGS = 6
_PACE_ROWS, _PACE_ROUNDS = 40, 5
# The moment of every statement of a trial: two runs must give the same.
_MOMENT = 1_900_000_000


def client_settings(session: Session) -> tuple[Setting, ...]:
    """What clients use now: the server's own mode and zone first, no mode at all, and those of live sessions as far as
    the account may see them; at most six."""
    own = [Setting(str(m), str(z)) for m, z in session.query("SELECT @@GLOBAL.sql_mode, @@GLOBAL.time_zone")]
    try:
        live = session.query(
            "SELECT DISTINCT m.VARIABLE_VALUE, z.VARIABLE_VALUE FROM performance_schema.variables_by_thread m"
            " JOIN performance_schema.variables_by_thread z USING (THREAD_ID)"
            " JOIN performance_schema.threads t USING (THREAD_ID)"
            " WHERE m.VARIABLE_NAME = 'sql_mode' AND z.VARIABLE_NAME = 'time_zone' AND t.TYPE = 'FOREGROUND'"
            " AND t.PROCESSLIST_ID <> CONNECTION_ID() AND NOT EXISTS (SELECT 1 FROM"
            " performance_schema.session_connect_attrs a WHERE a.PROCESSLIST_ID = t.PROCESSLIST_ID"
            " AND a.ATTR_NAME = 'program_name' AND a.ATTR_VALUE LIKE 'rollout %') ORDER BY 1, 2"
        )
    except ServerError:
        live = []
    seen = [*own, Setting("", own[0].time_zone), *(Setting(str(m), str(z)) for m, z in live)]
    return tuple(dict.fromkeys(seen))[:_MOST_SETTINGS]


class MirrorTrial:
    """One run on one scratch copy. ``loads``: a file with the numbers of ``sql.LOADED`` in a line each, which
    ``session`` may send. Raises ServerError, RunbookError."""

    def __init__(
        self, session: Session, here: FamilyCopy, contract: Contract, relation: Relation, *, mirrored: bool, loads: str
    ) -> None:
        self._here = here
        self._session = session
        self._contract = contract
        self._relation = relation
        self._mirrored = mirrored
        self._loads = loads if session.value("SELECT @@GLOBAL.local_infile") else ""
        shape = here.shapes[contract.table]
        self._shape = shape
        key = tuple(c for name in shape.key if (c := shape.column(name)) is not None)
        new = {m.new for m in contract.mappings}
        rows = {
            n: {c: v for c, v in needed_values(here, contract.table, here.shapes, n).items() if c not in new}
            for n in (sql.FIRST, *range(sql.FRESH, 20))
        }
        self._target = Target(here.of(contract.table), key, rows)
        self._shown = tuple(c for c in shape.columns if c.type.family.value != "spatial")

    @property
    def columns(self) -> tuple[Column, ...]:
        return self._shown

    def run(self, settings: Sequence[Setting], beat: Callable[[int], bool]) -> Run | None:
        """None when ``beat``, told how many statements ran, said no."""
        found = Run()
        self._prepare(found)
        held = held_values(self._here, self._contract.table, (), self._here.shapes)
        declared_ = declared(self._contract, self._shape, held)
        for at, setting in enumerate(settings):
            self._session.execute(f"USE {quote.name(self._target.table.schema)}")
            for variable, value in (("sql_mode", setting.sql_mode), ("time_zone", setting.time_zone)):
                self._session.execute(f"SET SESSION {variable} = %s", (value,))
            for case in self._cases(declared_, first=at == 0):
                if not beat(len(found.ran)):
                    return None
                found.ran[setting, case.what] = self._ran(case, found)
        found.left_out += [d.problem for d in declared_ if d.problem]
        if not self._loads:
            found.left_out.append("LOAD DATA was not tried: local_infile is off on this server")
        found.pace_us = self._paces()
        return found

    def _prepare(self, found: Run) -> None:
        """Some rows with what the backfill leaves in them, then the application's triggers, then the mirror."""
        # Columns that have no default get one from the server then, whatever their type is.
        self._session.execute("SET SESSION sql_mode = 'NO_ENGINE_SUBSTITUTION', timestamp = %s", (_MOMENT,))
        for row in chain_rows(self._here, self._contract.table, (), self._here.shapes):
            self._session.execute(row)
        sets = ", ".join(f"{_cell(c)} = {value}" for c, value in self._relation.assignments(_cell))
        self._session.execute(f"UPDATE IGNORE {quote.table(self._target.table)} t SET {sets}")
        found.left_out = lay_triggers(self._session, self._here)
        if self._mirrored:
            self._session.execute("SET SESSION sql_mode = ''")
            for event in ("update", "insert"):
                self._session.execute(trigger_text(self._relation, self._target.table, event, self._here.tag))

    def _cases(self, said: Sequence[Declared], *, first: bool) -> Iterator[Case]:
        """All of them under the server's own settings; under others what a mode or a zone can change."""
        mapped = self._mapped()
        for column, is_source in mapped:
            known = sql.named(column, self._contract.mappings)
            if first or is_source:
                yield from sql.edge_cases(self._target, column, (*known, *sql.edges(column)))
            if first:
                value = (*known, *sql.edges(column)[-3:])[0]
                yield from sql.kind_cases(self._target, column, value, is_source=is_source)
                if self._loads:
                    yield sql.load_case(self._target, column, value, self._loads)
        following = {d.new.name.lower() for d in self._relation.derived if d.follows}
        for one in said:
            if not one.problem:
                yield sql.declared_case(
                    one.text, one.arguments, one.writes, counts=one.counts and not one.writes & following
                )

    def _mapped(self) -> list[tuple[Column, bool]]:
        """Every column that a mapping reads or sets, but for the key, and for those that follow, which are the mirror's
        alone (documented); with whether it is the application's of before.
        Raises RunbookError for a column that is not there yet."""
        new = [p.new for p in self._relation.pairs] + [d.new for d in self._relation.derived if not d.follows]
        old = [c for m in self._relation.mappings for c in m.forward.columns]
        keys = {c.name for c in self._target.key}
        live = {c.name: c for c in self._shape.columns}
        missing = [c.name for c in new if c.name not in live]
        if missing:
            raise RunbookError(
                f"{', '.join(missing)} is not there yet", "the columns of ddl", "rollout next --phase ddl"
            )
        sides = {c.name: True for c in old} | {c.name: False for c in new}
        return [(live[n], is_old) for n, is_old in sides.items() if n not in keys and live[n].generated is None]

    def _ran(self, case: Case, found: Run) -> Ran:
        order = quote.names([c.name for c in self._target.key])
        shown = ", ".join(_cell(c.name) for c in self._shown)
        of = f"{quote.table(self._target.table)} t"
        asked = [f"SELECT {shown} FROM {of} ORDER BY {order}"]
        judged = self._mirrored and not case.inserts
        if judged:
            lost = ", ".join(p.mismatch_class(_cell, "corresponds") for p in self._relation.pairs) or "NULL"
            asked.append(f"SELECT {lost} FROM {of} WHERE {self._target.where(sql.FIRST)}")
        spoken = ("START TRANSACTION", *case.statements, "SELECT ROW_COUNT(), LAST_INSERT_ID()", *asked, "ROLLBACK")
        try:
            answers = self._session.packet(spoken)
        except ServerError as error:
            if error.cure is Cure.RECONNECT:
                raise
            return Ran(case, error.number)
        told = len(case.statements) + 1
        if judged and answers[told + 2]:
            for pair, name in zip(self._relation.pairs, answers[told + 2][0], strict=False):
                if name == "unfit" and pair.old.name.lower() in case.writes:
                    found.unfit.setdefault((pair.name, case.what), pair.old.name)
        return Ran(case, 0, answers[told][0], tuple(answers[told + 1]))

    def _paces(self) -> dict[str, float]:
        """Microseconds of one statement inside a transaction in the best round: what the body costs, without the commit
        and without what else the machine does."""
        mapped = {c.name for c, _ in self._mapped()} | {c.name for c in self._target.key}
        plain = [c for c in self._shown if c.name not in mapped and c.generated is None and not self._held(c)]
        sources = [c for c, is_old in self._mapped() if is_old]
        wanted: dict[str, Sequence[str]] = {"insert": sql.pace_inserts(self._target)}
        if sources:
            wanted["update"] = sql.pace_cases(self._target, sources[0], _PACE_ROWS)
        if plain:
            wanted["update_of_another_column"] = sql.pace_cases(self._target, plain[0], _PACE_ROWS)
        return {name: self._pace_us(statements) for name, statements in wanted.items()}

    def _held(self, column: Column) -> bool:
        """Whether a key or an index may refuse a value of it."""
        keys = [k.columns for k in self._shape.foreign_keys] + [i.columns for i in self._shape.indexes if i.unique]
        return any(column.name in columns for columns in keys)

    def _pace_us(self, statements: Sequence[str]) -> float:
        self._session.execute("SET SESSION sql_mode = 'NO_ENGINE_SUBSTITUTION'")
        taken = []
        for _ in range(_PACE_ROUNDS):
            began = time.perf_counter()
            try:
                self._session.packet(("START TRANSACTION", *statements, "ROLLBACK"))
            except ServerError as error:
                if error.cure is Cure.RECONNECT:
                    raise
                return 0.0
            taken.append((time.perf_counter() - began) / max(1, len(statements)) * 1e6)
        return round(min(taken), 1)


def lay_triggers(session: Session, here: FamilyCopy) -> list[str]:
    """The application's triggers are on the copies; why some are not. Raises ServerError."""
    theirs, left_out = their_triggers(here)
    for trigger, text in theirs:
        try:
            session.execute("SET SESSION sql_mode = %s", (trigger.sql_mode,))
            session.execute(text)
        except ServerError as error:
            if error.cure is not Cure.STOP:
                raise
            left_out.append(f"the trigger {trigger.name} was left out: {error.number} {error.text}")
    return left_out


def their_triggers(here: FamilyCopy) -> tuple[list[tuple[Trigger, str]], list[str]]:
    """The application's triggers as they are made on the copies, in their order; and why some are left out."""
    made, left_out = list[tuple[Trigger, str]](), list[str]()
    for table, shape in here.shapes.items():
        for trigger in sorted(shape.triggers, key=lambda t: t.order):
            if trigger.name.startswith(MIRROR_PREFIX):
                continue
            if reason := _reaches_out(trigger.body, table.schema):
                left_out.append(f"the trigger {trigger.name} of {table} was left out: it names {reason}")
            else:
                made.append((trigger, sql.application_trigger(here.of(table), trigger, here.tag)))
    return made, left_out


def trigger_text(relation: Relation, copy: TableName, event: str, tag: str) -> str:
    """The mirror's own trigger, on the copy."""
    return mirror.create_trigger(relation, copy, event, mirror.trigger_name("trial", event), tag)


def _reaches_out(body: str, schema: str) -> str:
    """What a trigger's body names beside its own row and the tables beside it; "" when nothing."""
    try:
        tokens = words_of(body)
    except ValueError:
        return "something that cannot be read"
    for at, token in enumerate(tokens):
        if token.word == "CALL":
            return "a procedure"
        if token.kind in (TokenKind.NAME, TokenKind.QUOTED) and token.identifier == schema.lower():
            return f"the schema {schema}"
        if token.text == "." and tokens[at - 1].word.upper() not in ("NEW", "OLD"):
            return f"{tokens[at - 1].text}.{tokens[at + 1].text if at + 1 < len(tokens) else ''}"
    return ""


def _cell(column: str) -> str:
    return f"t.{quote.name(column)}"
