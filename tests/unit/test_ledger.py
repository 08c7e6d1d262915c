"""The ledger's own judgement, without a server: the order of writes, the mirror's rule, and answers that never came."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from decimal import Decimal
from random import Random
from typing import Any

import pytest

from orchestrator.model.contract import (
    Column,
    Contract,
    Copy,
    Default,
    Expression,
    ForeignKey,
    Mapping,
    TableName,
    ValueMap,
)
from orchestrator.model.runbook import Runbook
from orchestrator.model.types import parse_type
from orchestrator.sandbox.expression import evaluate
from orchestrator.sandbox.ledger import Ledger
from orchestrator.sandbox.mapping import UNKNOWN, Image, TableModel
from orchestrator.sandbox.replay import Write
from orchestrator.sandbox.script import render_script
from orchestrator.sandbox.statements import Kind, parse
from orchestrator.sandbox.values import draw, fits
from tests.support.shapes import plain_shape

TABLE = TableName("t", "job")


def _column(name: str, type: str, default: str | None = None, *, null: bool = True, on_update: bool = False) -> Column:
    of = Default(default) if default is not None else None
    charset = "utf8mb4" if "char" in type or type == "text" else None
    return Column(name, parse_type(type), null, of, charset, None, on_update)


OLD = (
    _column("id", "varchar(40)", null=False),
    _column("status", "varchar(16)", "pending", null=False),
    _column("timeout_s", "int", "120", null=False),
    _column("tries", "int", "0", null=False),
    _column("note", "text"),
    _column("touched", "datetime(3)", on_update=True),
)
STATES = (("pending", "pending"), ("processing", "running"), ("failed", "failed"))
BACK = (
    ("pending", "pending"),
    ("locked", "processing"),
    ("running", "processing"),
    ("failed", "failed"),
    ("cancelled", "failed"),
)
MAPPINGS = (
    Mapping("state", "status", ValueMap(STATES), ValueMap(BACK)),
    Mapping(
        "timeout_ms",
        "timeout_s",
        Expression("timeout_s * 1000"),
        Expression("LEAST(CEIL(timeout_ms / 1000), 2147483647)"),
    ),
    Mapping("attempts", "tries", Copy(), Copy()),
)
NEW = (
    _column("state", "varchar(16)"),
    _column("timeout_ms", "bigint", "120000", null=False),
    _column("attempts", "int", "0", null=False),
    _column("priority", "int", "0", null=False),
    _column("parent", "varchar(40)"),
)
PARENT = ForeignKey("parent_fk", ("parent",), TABLE, ("id",), "SET NULL")
CONTRACT = Contract(TABLE, NEW, mappings=MAPPINGS, foreign_keys=(PARENT,))
RUNBOOK = Runbook("job", CONTRACT, "", "", "")
SHAPE = plain_shape(TABLE, *OLD, collation="utf8mb4_0900_bin")
SEEDED = ("a", "pending", 30, 1, None, datetime(2026, 1, 1))


class Table:
    """Rows to be compared with, in the columns' order: what two questions of the ledger give."""

    def __init__(self, *rows: Sequence[Any], names: tuple[str, ...] = ()) -> None:
        self._rows = [(row[0], *row) for row in rows]
        self._names = names

    def query(self, sql: str, args: Sequence[object] = ()) -> list[tuple[Any, ...]]:
        if "information_schema" in sql:
            return [(name,) for name in self._names]
        return [] if args else self._rows


@pytest.fixture
def ledger() -> Ledger:
    made = Ledger(RUNBOOK, SHAPE)
    made.load(Table(SEEDED))
    return made


def _write(ledger: Ledger, text: str, number: int = 0, key: str = "a", **args: Any) -> Write:
    certain = args.pop("certain", True)
    return Write(number or ledger.number(), (key,), parse(text), {"row": key, "fresh": key} | args, certain=certain)


def _row(ledger: Ledger, key: str = "a") -> Image:
    (row,) = ledger.expected()[(key,)]
    assert row is not None
    return row


def test_the_number_decides_the_order_of_writes_and_not_the_order_of_answers(ledger: Ledger) -> None:
    first, second = ledger.number(), ledger.number()
    ledger.record([_write(ledger, "UPDATE job SET status = 'failed' WHERE id = :row", second)])
    ledger.record([_write(ledger, "UPDATE job SET status = 'processing' WHERE id = :row", first)])
    assert (_row(ledger)["status"], _row(ledger)["state"]) == ("failed", "failed")


@pytest.mark.parametrize(
    ("texts", "columns"),
    [
        (["SET state = 'locked'"], {"status": "processing", "state": "locked"}),
        (["SET state = 'locked'", "SET status = 'processing'"], {"status": "processing", "state": "locked"}),
        (["SET state = 'locked'", "SET note = 'x'"], {"status": "processing", "state": "locked", "note": "x"}),
        (["SET state = 'cancelled'", "SET status = 'pending'"], {"status": "pending", "state": "pending"}),
        (["SET timeout_ms = 1500"], {"timeout_s": 2, "timeout_ms": 1500}),
        (["SET timeout_ms = 1500", "SET timeout_s = 2"], {"timeout_s": 2, "timeout_ms": 1500}),
        (["SET timeout_ms = 1500", "SET timeout_s = 3"], {"timeout_s": 3, "timeout_ms": 3000}),
        (["SET attempts = attempts + 1", "SET tries = tries + 1"], {"tries": 3, "attempts": 3}),
        (["SET tries = 7, note = CONCAT('n', tries)"], {"tries": 7, "note": "n7", "touched": UNKNOWN}),
    ],
)
def test_a_write_moves_its_partner_as_the_mirror_promises(ledger: Ledger, texts: list[str], columns: Image) -> None:
    for text in texts:
        ledger.record([_write(ledger, f"UPDATE job {text} WHERE id = :row")])
    row = _row(ledger)
    assert {name: row[name] for name in columns} == columns


def test_a_new_row_takes_what_was_given_and_defaults_for_the_rest(ledger: Ledger) -> None:
    text = "INSERT INTO job (id, state, parent) VALUES (:fresh, 'running', NULL)"
    ledger.record([_write(ledger, text, key="b")])
    row = _row(ledger, "b")
    assert (row["status"], row["state"], row["timeout_s"], row["timeout_ms"]) == ("processing", "running", 120, 120000)


def test_an_upsert_stores_values_of_the_insert_that_did_not_happen(ledger: Ledger) -> None:
    text = "INSERT INTO job (id, status, note) VALUES (:kept, 'failed', :n) ON DUPLICATE KEY UPDATE note = VALUES(note)"
    ledger.record([Write(ledger.number(), ("a",), parse(text), {"kept": "a", "n": "neu"}, existed=True)])
    assert (_row(ledger)["status"], _row(ledger)["note"]) == ("pending", "neu")


def test_an_unanswered_commit_allows_both_rows_until_the_next_answer(ledger: Ledger) -> None:
    ledger.record([_write(ledger, "UPDATE job SET status = 'failed' WHERE id = :row", certain=False)])
    ledger.record([_write(ledger, "UPDATE job SET tries = tries + 1 WHERE id = :row")])
    found = ledger.expected()[("a",)]
    assert [(row["status"], row["tries"]) for row in found if row] == [("pending", 2), ("failed", 2)]
    ledger.record([_write(ledger, "UPDATE job SET status = 'processing' WHERE id = :row")])
    assert {row["status"] for row in ledger.expected()[("a",)] if row} == {"processing"}


def test_a_deleted_parent_leaves_its_children_without_one(ledger: Ledger) -> None:
    ledger.record([_write(ledger, "INSERT INTO job (id, parent) VALUES (:fresh, 'a')", key="b")])
    assert _row(ledger, "b")["parent"] == "a"
    ledger.record([_write(ledger, "DELETE FROM job WHERE id = :row")])
    assert ledger.expected()[("a",)] == [None]
    assert _row(ledger, "b")["parent"] is None


def test_after_the_way_back_the_new_column_follows_the_old_one(ledger: Ledger) -> None:
    ledger.record([_write(ledger, "UPDATE job SET state = 'locked', priority = 4 WHERE id = :row")])
    ledger.old_is_truth()
    assert (_row(ledger)["state"], _row(ledger)["priority"]) == ("running", 4)
    ledger.old_is_truth(dropped=True)
    assert (_row(ledger)["state"], _row(ledger)["priority"]) == ("running", 0)


def test_compare_names_the_value_that_was_lost(ledger: Ledger) -> None:
    ledger.record([_write(ledger, "UPDATE job SET status = 'failed' WHERE id = :row")])
    names = tuple(c.name for c in NEW)
    good = ("a", "failed", 30, 1, None, datetime(2026, 5, 5), "failed", 30000, 1, 0, None)
    assert ledger.compare(Table(good, names=names)) == []
    lost = ledger.compare(Table((*good[:6], "pending", *good[7:]), names=names))
    assert [(d.key, d.column, d.expected, d.found) for d in lost] == [("a", "state", "'failed'", "'pending'")]
    assert ledger.compare(Table((*good[:6], "pending", *good[7:]), names=names), partners=False) == []
    assert [d.column for d in ledger.compare(Table(names=names))] == [""]


def test_a_row_that_nobody_wrote_must_be_as_it_was(ledger: Ledger) -> None:
    touched = (*SEEDED[:5], datetime(2026, 1, 2))
    assert [d.column for d in ledger.compare(Table(touched), partners=False)] == ["touched"]


@pytest.mark.parametrize(
    ("sql", "value"),
    [
        ("LEAST(CEIL(n / 1000), 2147483647)", 2),
        ("n DIV 1000 + (MOD(n, 1000) > 0)", 2),
        ("CASE WHEN z IS NULL THEN 'none' ELSE z END", "none"),
        ("COALESCE(z, t, 'x')", "it's"),
        ("IF(t = 'it''s', 1, 0)", 1),
        ("n BETWEEN 1 AND 2000 AND NOT n IN (1, 2)", 1),
        ("z + 1", None),
        ("z <=> NULL", 1),
        ("CAST(d AS DECIMAL(6, 1))", Decimal("2.3")),
        ("CONCAT(UPPER(t), '-', n)", "IT'S-1500"),
        ("-n + 2 * 3", -1494),
        ("t IS NOT NULL OR z = 1", 1),
    ],
)
def test_expressions_mean_what_mysql_means(sql: str, value: Any) -> None:
    assert evaluate(sql)({"n": 1500, "z": None, "t": "it's", "d": Decimal("2.25")}) == value


@pytest.mark.parametrize("sql", ["SLEEP(1)", "a +", "(SELECT 1)", "a || b", "1 2", "JSON_EXTRACT(a, '$.b')"])
def test_an_expression_that_is_not_understood_is_refused_and_not_guessed(sql: str) -> None:
    with pytest.raises(ValueError):
        evaluate(sql)


def test_a_statement_that_the_ledger_cannot_follow_is_refused() -> None:
    for text in ("REPLACE INTO job (id) VALUES (:row)", "UPDATE job SET a = RAND() WHERE id = :row", "DROP TABLE job"):
        with pytest.raises(ValueError):
            parse(text)


def test_placeholders_inside_texts_are_text() -> None:
    statement = parse("UPDATE job SET note = ':row 50%', tries = tries % 7 WHERE id = :row AND status = :col.status")
    assert statement.sql == (
        "UPDATE job SET note = ':row 50%%', tries = tries %% 7 WHERE id = %(row)s AND status = %(col.status)s"
    )
    assert (statement.kind, statement.rows) == (Kind.UPDATE, ("row",))


def test_drawn_values_fit_both_ways() -> None:
    model, rng = TableModel(CONTRACT, SHAPE), Random(3)
    for _ in range(300):
        for pair in model.pairs:
            old, new = pair.draw_old(rng), pair.draw_new(rng)
            assert pair.forward({pair.names[0]: old}) is not UNKNOWN
            assert pair.backward({pair.names[1]: new}) is not UNKNOWN


@pytest.mark.parametrize(
    "type",
    ["tinyint", "bigint unsigned", "decimal(8,3)", "char(7)", "varchar(300)", "text", "binary(4)", "blob", "date",
     "datetime(3)", "timestamp", "enum('a','b')", "bit(9)", "year", "double", "time", "json", "set('x','y')"],
)  # fmt: skip
def test_drawn_values_fit_their_column(type: str) -> None:
    column, rng = _column("c", type), Random(5)
    for _ in range(200):
        assert fits(draw(rng, column), column)


def test_old_statements_name_no_new_column() -> None:
    script = render_script(RUNBOOK, SHAPE, TableModel(CONTRACT, SHAPE))
    added = {c.name for c in NEW}
    for operation in script.old:
        for statement in operation.statements:
            assert not added & set(statement.text.replace("`", " ").split()), statement.text
    assert all(not added & set(read.old.text.replace("`", " ").split()) for read in script.reads)
