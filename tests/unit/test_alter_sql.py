"""The text of every ALTER: its algorithm is named, its tag is there, and nothing of a definition is left out."""

from __future__ import annotations

import pytest

from orchestrator.model.contract import Column, Default, ForeignKey, Index, IndexPart, TableName
from orchestrator.model.step import (
    AddColumns,
    AddForeignKey,
    AddIndex,
    ChangeColumn,
    DropColumns,
    DropForeignKey,
    DropIndex,
    ExclusiveDdlStep,
)
from orchestrator.model.types import ColumnType, parse_type
from orchestrator.model.way import INPLACE, INSTANT, Way
from orchestrator.mysql.sql.alter import (
    alter,
    column_definition,
    count_orphans,
    default_text,
    index_definition,
    pins,
    sample_orphans,
)

TABLE = TableName("shop", "or`ders")
FAMILY = (TABLE,)
TAG = "/* rollout:r s */"
COLUMNS = (Column("state", parse_type("varchar(32)")), Column("n", parse_type("int"), False, Default("0")))
INDEX = Index("by_state", (IndexPart("state"), IndexPart("n", descending=True)))
KEY = ForeignKey("fk", ("a", "b"), TableName("shop", "parents"), ("x", "y"), "SET NULL", "RESTRICT")
LONGER = Column("state", parse_type("varchar(48)"), False, Default("new"), comment="")
SHORTER = Column("state", parse_type("varchar(32)"), False, Default("new"), comment="said's")

INSTANT_STEPS: tuple[ExclusiveDdlStep, ...] = (
    AddColumns(table=TABLE, columns=COLUMNS, family=FAMILY),
    DropColumns(table=TABLE, columns=COLUMNS, family=FAMILY),
    ChangeColumn(table=TABLE, before=SHORTER, after=LONGER, way=INSTANT, family=FAMILY),
)
INPLACE_STEPS: tuple[ExclusiveDdlStep, ...] = (
    ChangeColumn(table=TABLE, before=SHORTER, after=LONGER, way=INPLACE, family=FAMILY),
    AddIndex(table=TABLE, index=INDEX, final_lock_budget_s=2, tries=3, family=FAMILY),
    AddForeignKey(table=TABLE, foreign_key=KEY, family=FAMILY),
    DropForeignKey(table=TABLE, foreign_key=KEY, family=FAMILY),
    DropIndex(table=TABLE, index=INDEX, family=FAMILY),
)


@pytest.mark.parametrize("step", INSTANT_STEPS, ids=lambda s: s.kind)
def test_instant_names_its_algorithm_and_never_a_lock(step: ExclusiveDdlStep) -> None:
    text = alter(step, TAG)
    assert text.endswith(", ALGORITHM=INSTANT")
    assert "LOCK=" not in text


@pytest.mark.parametrize("step", INPLACE_STEPS, ids=lambda s: s.kind)
def test_inplace_names_its_algorithm_and_locks_nobody_out(step: ExclusiveDdlStep) -> None:
    assert alter(step, TAG).endswith(", ALGORITHM=INPLACE, LOCK=NONE")


@pytest.mark.parametrize("step", INSTANT_STEPS + INPLACE_STEPS, ids=lambda s: s.kind)
def test_every_statement_carries_its_tag_and_quotes_its_table(step: ExclusiveDdlStep) -> None:
    assert alter(step, TAG).startswith("ALTER /* rollout:r s */ TABLE `shop`.`or``ders` ")


def test_all_columns_are_one_statement() -> None:
    assert alter(INSTANT_STEPS[0], TAG).count("ADD COLUMN") == len(COLUMNS)


def test_only_adding_a_foreign_key_turns_the_checks_off() -> None:
    by_kind = {step.kind: pins(step) for step in INSTANT_STEPS + INPLACE_STEPS}
    assert by_kind.pop("add-foreign-key") == (("foreign_key_checks", 0),)
    assert set(by_kind.values()) == {()}


def test_a_change_never_copies() -> None:
    step = ChangeColumn(table=TABLE, before=SHORTER, after=LONGER, way=Way("COPY", "SHARED"), family=FAMILY)
    with pytest.raises(ValueError):
        alter(step, TAG)


def test_a_change_keeps_the_comment_that_the_contract_does_not_mention() -> None:
    assert "COMMENT 'said''s'" in alter(INPLACE_STEPS[0], TAG)


def test_a_definition_leaves_nothing_out() -> None:
    full = Column(
        "c",
        ColumnType("enum", labels=("it's", "a\\b")),
        null=False,
        default=Default("it's"),
        charset="utf8mb4",
        collation="utf8mb4_bin",
        invisible=True,
        comment="two\nlines",
    )
    assert column_definition(full) == (
        "`c` enum('it''s', 'a\\\\b') CHARACTER SET utf8mb4 COLLATE utf8mb4_bin NOT NULL DEFAULT 'it''s' INVISIBLE"
        " COMMENT 'two\\nlines'"
    )
    moment = Column("m", parse_type("datetime(3)"), False, Default("CURRENT_TIMESTAMP(3)", True), on_update=True)
    assert column_definition(moment) == (
        "`m` datetime(3) NOT NULL DEFAULT CURRENT_TIMESTAMP(3) ON UPDATE CURRENT_TIMESTAMP(3)"
    )
    made = Column("g", parse_type("int"), generated="`a` + 1", stored=True)
    assert column_definition(made) == "`g` int GENERATED ALWAYS AS (`a` + 1) STORED NULL"
    counted = Column("id", parse_type("bigint unsigned"), False, auto_increment=True)
    assert column_definition(counted) == "`id` bigint unsigned NOT NULL AUTO_INCREMENT"


def test_a_charset_is_a_word_or_refused() -> None:
    with pytest.raises(ValueError):
        column_definition(Column("c", parse_type("text"), collation="x; DROP TABLE t"))


@pytest.mark.parametrize(
    ("type", "default", "text"),
    [
        ("int", Default("-3"), "-3"),
        ("decimal(5,2)", Default("1.50"), "1.50"),
        ("int", Default("1; DROP TABLE t"), "'1; DROP TABLE t'"),
        ("bit(3)", Default("b'101'"), "b'101'"),
        ("varbinary(4)", Default("0x00ff"), "0x00ff"),
        ("varchar(9)", Default("0x00ff"), "'0x00ff'"),
        ("datetime", Default("2026-01-01"), "'2026-01-01'"),
        ("json", Default("json_object()", True), "(json_object())"),
        ("timestamp(6)", Default("CURRENT_TIMESTAMP(6)", True), "CURRENT_TIMESTAMP(6)"),
    ],
)
def test_a_default_is_written_as_its_type_wants_it(type: str, default: Default, text: str) -> None:
    assert default_text(default, parse_type(type)) == text


def test_an_index_says_all_that_it_has() -> None:
    parts = (IndexPart("a", prefix=10), IndexPart("", expression="lower(`b`)", descending=True))
    index = Index("i", parts, unique=True, visible=False)
    assert index_definition(index) == "UNIQUE INDEX `i` (`a`(10), (lower(`b`)) DESC) INVISIBLE"
    assert index_definition(Index("f", (IndexPart("a"),), kind="FULLTEXT")) == "FULLTEXT INDEX `f` (`a`)"


def test_an_orphan_has_all_parts_of_its_key() -> None:
    text = count_orphans(TABLE, KEY, TAG)
    assert "c.`a` IS NOT NULL AND c.`b` IS NOT NULL" in text
    assert "p.`x` = c.`a` AND p.`y` = c.`b`" in text
    assert "SELECT /* rollout:r s */ c.`id`, c.`a`, c.`b` " in sample_orphans(TABLE, KEY, ("id",), TAG)
