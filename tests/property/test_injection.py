"""Whatever names, values, comments and key values are, a statement says no more than with harmless ones.

Each statement is rendered twice, once with what is hostile and once with its harmless twin, and taken apart: the two
have the same tokens, but for what stands inside of a quoted name, a literal or a comment.
"""

from __future__ import annotations

import datetime
import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from typing import Any

import msgspec
import pymysql
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from orchestrator.drivers.ddl.ghost.command import arguments
from orchestrator.drivers.ddl.ghost.place import place
from orchestrator.model.contract import (
    Column,
    Contract,
    Index,
    IndexPart,
    TableName,
)
from orchestrator.model.copying import CopyChange
from orchestrator.model.facts import Shape, Trigger
from orchestrator.model.findings import FileFindings
from orchestrator.model.keys import Key
from orchestrator.model.state import Record
from orchestrator.model.step import (
    AddCheck,
    AddColumns,
    AddForeignKey,
    AddIndex,
    DropColumns,
    DropForeignKey,
    DropIndex,
    ExclusiveDdlStep,
    GhostAlter,
    RenameColumn,
    ShowIndex,
    step_key,
)
from orchestrator.model.types import parse_type
from orchestrator.mysql import quote
from orchestrator.mysql.clock import SystemClock
from orchestrator.mysql.filling import fill_rule
from orchestrator.mysql.kinds import no_rows_of
from orchestrator.mysql.look.unseen import Account
from orchestrator.mysql.questions import drift_question, invariants_question, meter_question, verify_question
from orchestrator.mysql.relation import load_relation
from orchestrator.mysql.site import Site
from orchestrator.mysql.sql import (
    alter,
    checksum,
    duplicates,
    family_copy,
    flag,
    mirror,
    packets,
    positions,
    rows,
    state,
)
from orchestrator.mysql.sql.bounds import Span, key_space
from orchestrator.mysql.tokens import TokenKind, tokenise
from orchestrator.runbook.emit import document
from orchestrator.runbook.forms import _identifier_problem
from orchestrator.runbook.load import parse
from orchestrator.settings import ServerSettings, TlsSettings
from phases.engines import ghost_obstacle
from tests.support.shapes import plain_shape

ODD = (
    *("`", "``", "'", "''", '"', "\\", "*/", "/*", "/*!99999 ", "/*+", "--", "-- ", "#", ";", "\n", "\r\n", "\t"),
    *("%", "%s", "%%", "(", ")", ",", ".", "@", "@@x", "{", "}", "?", "=", " ", "é", "表", "\u200b", "\u2028", "\b"),
    *("a", "DROP", " OR 1=1", "0x", "x'", "_utf8mb4", "N'", "NULL", "${IFS}", "$(id)", "&&", "|", "\x01", "\x1a"),
)
PIECES = st.one_of(
    st.sampled_from(ODD),
    st.characters(min_codepoint=1, max_codepoint=0xFFFF, exclude_categories=["Cs"]),
)
# What MySQL can have as a name, and what it can hold as a text.
NAMES = st.lists(PIECES, min_size=1, max_size=6).map("".join).filter(lambda s: not _identifier_problem(s))
TEXTS = st.lists(st.one_of(PIECES, st.sampled_from(["\0", "😀"])), max_size=6).map(lambda said: "t" + "".join(said))


@dataclass(frozen=True)
class Said:
    """What somebody chose; names differ, whatever was drawn."""

    drawn: tuple[str, ...]
    texts: tuple[str, ...]

    def name(self, at: int) -> str:
        """One of them; what is odd stands at its end as often as at its beginning."""
        drawn = self.drawn[at % len(self.drawn)]
        return f"{at}x{drawn}" if at % 2 else f"{drawn}x{at}"


HOSTILE = st.builds(Said, st.tuples(NAMES, NAMES, NAMES), st.tuples(*[TEXTS] * 6))
HARMLESS = Said(("a",) * 3, ("t",) * 6)
WORST = Said(("*/ DROP `", "\\'*/", "'); --\ty"), ("t\\", "t'", "t*/", "t\0\\'", 't";', "t%s"))


SAID = (TokenKind.NAME, TokenKind.OPERATOR, TokenKind.NUMBER)


def skeleton(sql: str) -> list[str]:
    """The tokens of a statement, without what is quoted, written as a literal, or said in a comment."""
    tokens = [t for t in tokenise(sql) if t.kind is not TokenKind.SPACE]
    told = [
        t.text if t.kind in (TokenKind.NAME, TokenKind.OPERATOR, TokenKind.NUMBER) else t.kind.value for t in tokens
    ]
    for at, token in enumerate(tokens[1:], 1):
        if tokens[at - 1].kind is TokenKind.INTRODUCER and token.kind in (TokenKind.NUMBER, TokenKind.STRING):
            told[at] = "literal"  # quote.text writes the one or the other
    return told


def runbook_text(said: Said) -> str:
    n, t = said.name, said.texts
    columns: list[dict[str, Any]] = [
        {"name": n(2), "type": "varchar(200)", "comment": t[0], "after": n(11)},
        {"name": n(3), "type": "varchar(200)"},
        {"name": n(4), "type": "varchar(200)", "null": False, "default": t[1]},
    ]
    refers = f"{quote.name(n(7))}.{quote.name(n(8))}({quote.name(n(9).translate(dict.fromkeys(map(ord, '(),'), 'x')))})"
    tree = {
        "apiVersion": "rollout/v1",
        "name": "hostile",
        "why": t[2],
        "table": {"schema": n(0), "name": n(1)},
        "contract": {
            "columns": columns,
            "indexes": [{"name": n(5), "columns": [f"{quote.name(n(2))}(10) desc", quote.name(n(4))], "serves": t[3]}],
            "foreign_keys": [{"name": n(6), "columns": [n(3)], "references": refers}],
        },
        "mappings": [
            {
                "old": n(10),
                "new": n(2),
                "forward": {"values": {"1" + t[4]: "1" + t[5], "2" + t[4]: "2" + t[5]}, "null_value": t[3]},
                "backward": {"values": {"1" + t[5]: "1" + t[4], "2" + t[5]: "2" + t[4]}, "unmapped": "keep"},
            },
            {"old": n(11), "new": n(3), "forward": "copy", "backward": "copy", "on_conflict": "old_wins"},
            {"old": n(11), "new": n(4), "forward": "copy", "follows": True},
        ],
    }
    return document(tree)


def live(said: Said, contract: Contract) -> Shape:
    """The table that the contract is for, with a key of every kind that is quoted in a way of its own."""
    n, t = said.name, said.texts
    label = parse_type("enum('a','b')")
    key = (
        Column(n(12), parse_type("varchar(100)"), False),
        Column(n(13), parse_type("varbinary(100)"), False),
        Column(n(14), parse_type("datetime(6)"), False),
        Column(n(15), msgspec.structs.replace(label, labels=("1" + t[0], "2" + t[1])), False),
    )
    old = (Column(n(10), parse_type("varchar(200)")), Column(n(11), parse_type("varchar(200)"), comment=t[2]))
    return plain_shape(
        contract.table,
        *key,
        *old,
        charset="utf8mb4",
        indexes=(Index("PRIMARY", tuple(IndexPart(c.name) for c in key), unique=True),),
        triggers=(Trigger(n(9), "BEFORE", "UPDATE", "BEGIN END", "", "r@h", 1),),
        key=tuple(c.name for c in key),
    )


def keys(said: Said) -> tuple[Key, Key]:
    moment = datetime.datetime(2024, 2, 29, 1, 2, 3)
    return (said.texts[0], said.texts[1].encode(), moment, 1), (said.texts[2], b"", "0000-00-00 00:00:00", 2)


def ddl(site: Site, shape: Shape) -> Iterator[str]:
    c = site.runbook.contract
    of, family, index, key = c.table, (c.table,), c.indexes[0], c.foreign_keys[0]
    steps: tuple[ExclusiveDdlStep, ...] = (
        AddColumns(table=of, columns=c.columns, family=family),
        AddIndex(table=of, index=index, final_lock_budget_s=2, tries=3, family=family),
        ShowIndex(table=of, index=index, family=family),
        AddForeignKey(table=of, foreign_key=key, family=family),
        RenameColumn(table=of, old=shape.columns[4].name, new=c.columns[0].name, family=family),
        DropForeignKey(table=of, foreign_key=key, family=family),
        DropIndex(table=of, index=index, family=family),
        DropColumns(table=of, columns=c.columns, family=family),
    )
    for step in steps:
        yield alter.alter(step, site.tag(step_key(step)))
    tag = site.tag(step_key(steps[1]))
    yield alter.count_orphans(of, key, tag)
    yield alter.sample_orphans(of, key, shape.key, tag)
    yield duplicates.count_duplicates(of, index, (), tag)
    yield duplicates.sample_duplicates(of, index, (), shape.key, tag)
    yield f"SELECT 1{no_rows_of((*shape.columns, *c.columns))}"
    yield from (f"ALTER TABLE t MODIFY COLUMN {alter.column_definition(column)}" for column in shape.columns)
    yield family_copy.copy_table(of, TableName("scratch", of.name), tag)
    yield family_copy.insert_row(of, {x.name: family_copy.sample(x, 1) for x in shape.columns}, tag)


class Asked:
    """Notes what the server would be asked about a default."""

    def __init__(self) -> None:
        self.texts: list[str] = []

    def value(self, sql: str) -> int:
        self.texts.append(sql)
        return 1


def work_on_rows(site: Site, shape: Shape, said: Said) -> Iterator[str]:
    c = site.runbook.contract
    asked = Asked()
    relation = load_relation(asked, c, shape)  # type: ignore[arg-type] # copies and values: hardly anything to ask
    yield from asked.texts
    space, (lo, hi) = key_space(shape), keys(said)
    tag = site.tag("fill:backfill")
    of = positions.PassName(said.name(1), c.table.name, 1, said.name(2))
    fence = positions.Fence(of, 7, lo)
    for conflict in ("", "refuse", "new_wins", "old_wins"):
        rule = fill_rule(relation, shape, conflict, said.name(3))  # type: ignore[arg-type] # each is one of its words
        yield from packets.batch(space, fence, packets.Move(hi, 9, 3, False, (lo, hi)), rule.write, tag)
        yield from packets.single(space, fence, lo, rule.write, tag)
        yield rows.counts(space, Span(lo, hi), rule.counted, tag)
    for question in (
        drift_question(relation, "old-is-truth"),
        verify_question(relation, "corresponds", c),
        meter_question(relation, c.columns),
    ):
        classes = [sql for _, sql in question.classes]
        yield rows.grouped(space, Span(lo), question.wrong, classes, tag)
        yield rows.listed(space, Span(None, hi), question.wrong, classes, 5, tag)
        yield rows.looked_at(space, (lo, hi), [question.wrong], lock=True, tag=tag)
    yield rows.nth_key(space, Span(lo, hi), 5, tag)
    yield rows.recent(space, said.name(3), said.name(4), 9, Span(lo))
    yield rows.row_lockers(c.table)
    yield checksum.span_digest(space, Span(lo, hi), shape.columns, tag)
    yield positions.begin(of, 7, hi, 100, lo)
    yield from positions.hand_out(fence, hi, of, False)
    yield positions.read_like(of, said.name(5))
    for event in ("update", "insert"):
        named = mirror.trigger_name(site.runbook.id, event)
        yield mirror.create_trigger(relation, c.table, event, named, tag)
        yield mirror.create_trigger(relation, c.table, event, said.name(5), tag)
        yield mirror.drop_trigger(c.table, said.name(5), tag)


def state_of_it(site: Site, said: Said) -> Iterator[str]:
    """What goes through the driver's own writing of values, in a schema of any name."""
    schema, id = said.name(6), said.texts[0]
    record = Record(id, site.runbook.table, "d", site.runbook.text, said.texts[1], "u", phase=said.texts[2])
    connection = pymysql.connect(defer_connect=True, ssl_disabled=True)
    connection.server_status = 0  # a session that reads backslashes, as all of ours do
    cursor = connection.cursor()
    texts = (*state.create(schema, record, said.texts[3]), *state.update(schema, record, said.texts[4]))
    for sql, args in (*texts, state.open_on(schema, record.table), *flag.open_writes(schema, id, (1, 1), 9.0)):
        yield cursor.mogrify(sql, args)


def grants(said: Said) -> Iterator[str]:
    account = Account(said.texts[0].replace("\0", ""), said.name(8))
    yield account.grant("SELECT", quote.table(TableName(said.name(0), said.name(1))))


def everything(said: Said) -> list[str]:
    runbook = parse(runbook_text(said), "f")
    site = Site(ServerSettings(), runbook, SystemClock())
    shape = live(said, runbook.contract)
    rendered = (ddl(site, shape), work_on_rows(site, shape, said), state_of_it(site, said), grants(said))
    return [sql for room in rendered for sql in room]


@cache
def twins() -> list[list[str]]:
    return [skeleton(sql) for sql in everything(HARMLESS)]


@settings(max_examples=settings().max_examples // 3)
@given(HOSTILE)
@example(WORST)
def test_no_name_and_no_value_changes_what_a_statement_says(said: Said) -> None:
    hostile, harmless = everything(said), twins()
    assert len(hostile) == len(harmless) > 80
    for one, twin in zip(hostile, harmless, strict=True):
        assert skeleton(one) == twin, one


def told_to_ghost(said: Said) -> tuple[str, ...]:
    """What gh-ost is called with. Raises ValueError for what it would read otherwise."""
    runbook = parse(runbook_text(said), "f")
    c = runbook.contract
    step = GhostAlter(table=c.table, columns=c.columns, indexes=c.indexes, family=(c.table,), why="")
    change = CopyChange(
        rollout=runbook.id,
        table=c.table,
        alter=alter.copy_clauses(step),
        host="127.0.0.1",
        port=3306,
        server_version=(9, 7, 0),
        replicas=(),
        gtid=True,
        encrypted=True,
        chunk_rows=100,
        max_lag_s=1.0,
        threads_running=9,
    )
    return arguments(change, place(runbook.id, "127.0.0.1:3306", c.table), TlsSettings(), 7)


GHOSTS_QUOTES = re.compile(r"'[^']*'")
GHOSTS_CLAUSES = re.compile(
    r"\bchange\s+(column\s+|)\S+\s+\S+\s|\bdrop\s+(column\s+|)\S+$|\brename\s+(to|as)\s|\bauto_increment\s*=",
    re.I | re.M,
)
WORDS = st.sampled_from(
    ("a", " drop x", "change a b c", "rename to y", "AUTO_INCREMENT=9", ";", "\\", "alter table t x", "'", "`", '"')
)


@settings(max_examples=settings().max_examples // 2)
@given(HOSTILE, WORDS, st.booleans())
def test_gh_ost_is_told_clauses_that_mean_one_thing_only_or_nothing(said: Said, word: str, in_name: bool) -> None:
    """It reads clauses as go/sql/parser.go (1.1.10) does, and puts names between backticks as they are."""
    texts = said.texts if in_name else (word, *said.texts[1:])
    drawn = (word, *said.drawn[1:]) if in_name else HARMLESS.drawn
    try:
        words = told_to_ghost(Said(drawn, texts))
    except ValueError:
        return
    twin = told_to_ghost(HARMLESS)
    told = next(w for w in words if w.startswith("--alter=")).removeprefix("--alter=")
    assert len(words) == len(twin), "a word each, whatever stands in it: no shell reads them"
    assert skeleton(told) == skeleton(next(w for w in twin if w.startswith("--alter=")).removeprefix("--alter="))
    bare = GHOSTS_QUOTES.sub("", told)
    assert not GHOSTS_CLAUSES.search(bare), told
    assert all(token.text.count("`") == 2 for token in tokenise(told) if token.kind is TokenKind.QUOTED), told


@pytest.mark.parametrize("at", ["schema", "table", "column", "index"])
@pytest.mark.parametrize("odd", ["`", "'", '"', "\\", "\n"])
def test_a_table_whose_names_gh_ost_cannot_quote_is_not_for_it(at: str, odd: str) -> None:
    said = {"schema": "s", "table": "t", "column": "c", "index": "PRIMARY"}
    for named, obstacle in ((said, ""), (said | {at: f"x{odd}y"}, "cannot quote")):
        shape = plain_shape(
            TableName(named["schema"], named["table"]),
            Column("id", parse_type("int"), False),
            Column(named["column"], parse_type("int")),
            indexes=(Index(named["index"], (IndexPart("id"),), unique=True),),
        )
        assert obstacle in ghost_obstacle(shape)
        assert bool(obstacle) is bool(ghost_obstacle(shape))


EXPRESSIONS = st.lists(
    st.sampled_from(
        (*"()`'\\;#", '"', "a", "1", " ", ", ", " + ", "-- x", "--", "/*", "*/", "/*! ) */", "\n", "''", "CONCAT(")
    ),
    min_size=1,
    max_size=9,
).map("".join)
REACHING = "1)), DROP COLUMN o, ADD COLUMN z INT DEFAULT ((2"


def with_expression(sql: str, in_forms: str = "") -> list[str]:
    """Statements that hold an expression of the runbook, each where it stands between parentheses of ours; in
    those that are judged first ``in_forms``, if given."""
    said = in_forms or sql
    tree = {
        "apiVersion": "rollout/v1",
        "name": "hostile",
        "table": {"schema": "s", "name": "t"},
        "contract": {
            "columns": [
                {"name": "n", "type": "int", "default": {"sql": sql}},
                {"name": "g", "type": "int", "generated": said},
            ],
            "indexes": [{"name": "i", "columns": [f"({sql})"]}],
            "checks": [{"name": "c", "sql": said}],
        },
        "invariants": [{"name": "v", "sql": said}],
    }
    contract = parse(document(tree), "f").contract
    of, family = contract.table, (contract.table,)
    return [
        alter.alter(AddColumns(table=of, columns=contract.columns[:1], family=family), ""),
        alter.alter(AddColumns(table=of, columns=contract.columns[1:], family=family), ""),
        alter.alter(AddIndex(table=of, index=contract.indexes[0], final_lock_budget_s=2, tries=3, family=family), ""),
        alter.alter(AddCheck(table=of, check=contract.checks[0], family=family), ""),
        f"SELECT {invariants_question(contract.invariants).wrong}",
    ]


def outside(sql: str) -> list[str]:
    """The skeleton without what stands between parentheses."""
    found, depth = list[str](), 0
    for word in skeleton(sql):
        depth -= word == ")"
        found += [word] if depth == 0 else []
        depth += word == "("
        assert depth >= 0, sql
    assert depth == 0, sql
    return found


@given(EXPRESSIONS)
@example("a + 1")
@example(REACHING)
@example("(a) + (1)")
def test_an_expression_says_nothing_outside_of_its_parentheses(sql: str) -> None:
    harmless = with_expression("1")
    try:
        hostile = with_expression(sql)
    except FileFindings:
        return
    for one, twin in zip(hostile, harmless, strict=True):
        assert outside(one) == outside(twin), one


@pytest.mark.parametrize("sql", [REACHING, "a -- b", "a # b", "a /*! + 1 */", "a; DROP TABLE t", "(a", "a)", "'a"])
def test_an_expression_that_could_reach_further_is_a_finding_with_a_line(sql: str) -> None:
    for in_forms, places in ((sql, 3), ("1", 2)):
        with pytest.raises(FileFindings) as refused:
            with_expression(sql, in_forms)
        assert len({f.line for f in refused.value.findings}) == places


@pytest.mark.parametrize("sql", ["a + 1", "(a) + (1)", "CONCAT(')', a, '(')", "`od)d` > 0", "CASE WHEN a THEN 1 END"])
def test_an_expression_that_is_whole_is_taken(sql: str) -> None:
    assert with_expression(sql)
