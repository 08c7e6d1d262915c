"""Which engine takes which statement: nothing dear without the runbook's word, and never in silence."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace

from orchestrator.drivers.ddl.native import refused
from orchestrator.model.chooser import Ground, choose, way_of, widens
from orchestrator.model.clauses import ChangedColumn, Clause, NewColumn, NewDefault, NewForeignKey, NewIndex
from orchestrator.model.contract import Column, Contract, Default, ForeignKey, Index, IndexPart, TableName
from orchestrator.model.facts import RowVersions, Trigger
from orchestrator.model.outcome import Result
from orchestrator.model.runbook import Engine, PhaseSettings, Runbook, Waiver
from orchestrator.model.step import AddColumns, AddForeignKey, AddIndex, GhostAlter
from orchestrator.model.types import parse_type
from orchestrator.mysql.errno import ServerError
from orchestrator.mysql.guard import AGAIN
from orchestrator.mysql.look.server import version_in
from phases.engines import BLOCKS_WRITES, Division, divide
from tests.support.shapes import plain_shape

TABLE = TableName("shop", "orders")
ID, NAME = Column("id", parse_type("int"), null=False), Column("name", parse_type("varchar(60)"), charset="utf8mb4")
LONGER, OVER = replace(NAME, type=parse_type("varchar(63)")), replace(NAME, type=parse_type("varchar(64)"))
STORED = Column("s", parse_type("int"), generated="id + 1", stored=True)
FIRST, SECOND = Column("a", parse_type("int")), Column("b", parse_type("json"))
FUNCTIONAL = Index("f", (IndexPart("", expression="lower(name)"),))
KEY = ForeignKey("fk", ("a",), TableName("shop", "p"), ("id",))
SHAPE = plain_shape(TABLE, ID, NAME)
GROUND = Ground(SHAPE, (9, 7, 4), RowVersions(0, 255))


def of(*clauses: Clause, engine: Engine = "auto", why: str = "", ground: Ground = GROUND, waived: str = "") -> Division:
    contract = Contract(TABLE, (FIRST, SECOND), allow_rebuild=why)
    waivers = (Waiver(waived, "it is empty"),) if waived else ()
    runbook = Runbook("r", contract, "d", "", "r.yaml", phases=PhaseSettings(engine=engine), waivers=waivers)
    return divide(clauses, ground, runbook, (TABLE,))


def at(**more: Any) -> Ground:
    return replace(GROUND, shape=replace(SHAPE, **more))


def test_one_change_is_split_into_columns_indexes_and_keys_each_recorded_separately() -> None:
    found = of(NewColumn(FIRST), NewColumn(SECOND), NewIndex(Index("i", (IndexPart("a"),))), NewForeignKey(KEY))
    assert found.problems == ()
    columns, *others = found.steps
    assert isinstance(columns, AddColumns)
    assert columns.columns == (FIRST, SECOND)
    assert str(columns.way) == "INSTANT"
    assert [(s.kind, str(s.way)) for s in others if isinstance(s, AddIndex | AddForeignKey)] == [
        ("add-index", "INPLACE LOCK=NONE"),
        ("add-foreign-key", "INPLACE LOCK=NONE"),
    ]


def test_a_default_expression_is_a_second_instant_statement() -> None:
    computed = replace(SECOND, default=Default("(json_object())", True))
    found = choose((NewColumn(computed),), GROUND)
    assert [s.clauses for s in found] == [(NewColumn(SECOND),), (NewDefault("b"),)]
    assert {s.way.algorithm for s in found} == {"INSTANT"}


def test_what_would_copy_the_table_is_refused_with_every_choice_and_its_price() -> None:
    (problem,) = of(ChangedColumn(NAME, OVER)).problems
    assert problem.rule == "rebuild-not-allowed"
    assert "would copy the table, and every write would wait" in problem.seen
    for choice in ("a new column with a mapping", "allow_rebuild: the reason", "gh-ost"):
        assert choice in problem.next


def test_auto_gives_to_gh_ost_what_would_copy_and_native_keeps_what_a_copy_would_spoil() -> None:
    unique = Index("u", (IndexPart("a"),), unique=True)
    found = of(
        NewColumn(FIRST), ChangedColumn(NAME, OVER), NewIndex(unique), NewForeignKey(KEY), why="one hour at night"
    )
    assert found.problems == ()
    ghost, *rest = found.steps
    assert isinstance(ghost, GhostAlter)
    assert (ghost.columns, ghost.changes, ghost.indexes) == ((FIRST,), ((NAME, OVER),), ())
    assert "255 bytes" in ghost.why
    assert [s.kind for s in rest] == ["add-index", "add-foreign-key"]


def test_auto_stays_native_while_nothing_is_dear() -> None:
    found = of(NewColumn(FIRST), ChangedColumn(NAME, LONGER), why="it may")
    assert [s.kind for s in found.steps] == ["add-columns", "change-column"]


@pytest.mark.parametrize("engine", ["auto", "gh-ost"])
@pytest.mark.parametrize(
    ("ground", "word"),
    [
        (at(foreign_keys=(KEY,)), "foreign keys (fk)"),
        (at(referenced_by=((TableName("shop", "c"), KEY),)), "foreign keys (fk)"),
        (at(triggers=(Trigger("tr", "BEFORE", "INSERT", "", "", "", 1),)), "triggers (tr)"),
        (at(key=(), key_problem="no key"), "no key"),
    ],
)
def test_a_table_that_gh_ost_cannot_take_is_refused_with_the_reason_and_the_other_choice(
    engine: Engine, ground: Ground, word: str
) -> None:
    found = of(ChangedColumn(NAME, OVER), engine=engine, why="it may", ground=ground)
    (problem,) = found.problems
    assert word in problem.seen + problem.next
    assert "native" in problem.next or "a new column" in problem.next
    assert not any(isinstance(s, GhostAlter) for s in found.steps)


def test_gh_ost_is_refused_without_the_reason_why_the_table_may_be_copied() -> None:
    (problem,) = of(NewColumn(FIRST), engine="gh-ost").problems
    assert problem.rule == "rebuild-not-allowed"
    assert "allow_rebuild" in problem.next


def test_native_rebuilds_in_place_only_with_the_runbooks_word_and_never_copies() -> None:
    full = replace(GROUND, versions=RowVersions(255, 255))
    (problem,) = of(NewColumn(FIRST), engine="native", ground=full).problems
    assert "all 255 row versions are used" in problem.seen
    (step,) = of(NewColumn(FIRST), engine="native", ground=full, why="it may").steps
    assert isinstance(step, AddColumns)
    assert (str(step.way), step.way.rebuilds) == ("INPLACE LOCK=NONE", True)
    found = of(NewColumn(STORED), engine="native", why="it may")
    assert (found.steps, len(found.problems)) == ((), 1)
    assert "VIRTUAL, which is INSTANT" in found.problems[0].next


def test_an_index_that_stops_writes_needs_a_waiver_or_gh_ost() -> None:
    (problem,) = of(NewIndex(FUNCTIONAL)).problems
    assert problem.rule == BLOCKS_WRITES
    (native,) = of(NewIndex(FUNCTIONAL), waived=BLOCKS_WRITES).steps
    assert isinstance(native, AddIndex)
    assert str(native.way) == "INPLACE LOCK=SHARED"
    assert isinstance(of(NewIndex(FUNCTIONAL), why="it may").steps[0], GhostAlter)


@pytest.mark.parametrize(
    ("version", "algorithm"),
    [((8, 0, 28), "INSTANT"), ((8, 0, 29), "INPLACE"), ((8, 0, 30), "INPLACE"), ((8, 0, 31), "INSTANT")],
)
def test_instant_is_refused_on_8_0_29_and_8_0_30(version: tuple[int, int, int], algorithm: str) -> None:
    ground = replace(GROUND, version=version)
    way = way_of(NewColumn(FIRST), ground)
    assert way.algorithm == algorithm
    if algorithm == "INPLACE":
        assert "damage rows" in way.reason
        assert "8.0.31" in of(NewColumn(FIRST), ground=ground).problems[0].seen


@pytest.mark.parametrize(
    ("text", "algorithm", "noted"),
    [
        ("8.0.28", "INSTANT", False),
        ("8.0.29-21", "INPLACE", False),
        ("8.0.30", "INPLACE", False),
        ("8.0.31", "INSTANT", True),
        ("8.0.32-24.1", "INSTANT", False),
        ("9.7.4", "INSTANT", False),
    ],
)
def test_row_versions_that_a_backup_of_files_may_refuse_are_noted(text: str, algorithm: str, noted: bool) -> None:
    """B75: note the limit of backup tools below 8.0.32; a version is read right whatever a vendor adds to it. Before
    8.0.29 there are no row versions, and on 8.0.29 and 8.0.30 none is made."""
    way = way_of(NewColumn(FIRST), replace(GROUND, version=version_in(text)))
    assert way.algorithm == algorithm
    assert ("before 8.0.32 some tools that back up" in way.reason) is noted
    virtual = way_of(NewColumn(Column("v", parse_type("int"), generated="id + 1")), replace(GROUND, version=(8, 0, 31)))
    assert "8.0.32" not in virtual.reason


def test_a_virtual_column_uses_no_row_version_and_a_plain_one_uses_one_with_it() -> None:
    made = Column("v", parse_type("int"), generated="id + 1")
    assert not way_of(NewColumn(made), GROUND).row_version
    (statement,) = choose((NewColumn(made), NewColumn(FIRST)), GROUND)
    assert statement.way.row_version


@pytest.mark.parametrize(
    ("before", "after", "wider"),
    [
        ("int", "bigint", True),
        ("int unsigned", "bigint", True),
        ("bigint", "int", False),
        ("int", "int unsigned", False),
        ("decimal(5,2)", "decimal(7,3)", True),
        ("decimal(5,2)", "decimal(5,3)", False),
        ("datetime(3)", "datetime(6)", True),
        ("text", "mediumtext", True),
        ("mediumtext", "text", False),
        ("varchar(9)", "text", False),
        ("enum('a')", "enum('a','b')", True),
        ("enum('a','b')", "enum('a','c','b')", False),
        ("char(3)", "char(5)", False),
    ],
)
def test_a_widening_keeps_every_value(before: str, after: str, wider: bool) -> None:
    assert widens(Column("c", parse_type(before)), Column("c", parse_type(after))) is wider


def test_null_to_not_null_is_no_widening() -> None:
    assert not widens(NAME, replace(OVER, null=False))
    assert widens(replace(NAME, null=False), OVER)


@pytest.mark.parametrize(
    ("number", "result", "word"),
    [
        (1799, Result.HELD, "innodb_online_alter_log_max_size"),
        (1846, Result.FAILED, "a copy of the table is never chosen by itself"),
        (4092, Result.FAILED, "rebuild"),
    ],
)
def test_a_refusal_of_the_server_is_a_clear_stop_with_the_next_way_and_never_a_blind_retry(
    number: int, result: Result, word: str
) -> None:
    outcome = refused(ServerError(number, "no"))
    assert outcome.result is result
    assert word in outcome.next
    assert number not in AGAIN
