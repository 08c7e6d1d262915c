"""A parameter becomes a value of the column that it stands for; a foreign key names the parent that is there."""

from __future__ import annotations

import pytest

from orchestrator.model.contract import Column, Contract, TableName
from orchestrator.model.types import parse_type
from orchestrator.mysql.declared import bound
from orchestrator.mysql.sql.family_copy import sample
from tests.support.shapes import plain_shape

TABLE = TableName("app", "job")
ID, NOTE, TRIES, OWNER = (
    Column(name, parse_type(kind))
    for name, kind in (("id", "int"), ("note", "varchar(9)"), ("tries", "decimal(5,2)"), ("owner_id", "int"))
)
SHAPE = plain_shape(TABLE, ID, NOTE, TRIES, OWNER)
CONTRACT = Contract(TABLE, ())
THERE, FRESH = 1, 7


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("UPDATE job SET note = ? WHERE tries = ?", (sample(NOTE, FRESH), sample(TRIES, THERE))),
        ("INSERT INTO job (id, note, tries) VALUES (1, 'x', ?)", (sample(TRIES, FRESH),)),
        (
            "INSERT INTO job (note, tries) VALUES (CONCAT(?, 'a'), ?), ('b', ?)",
            (sample(NOTE, FRESH), sample(TRIES, FRESH), sample(TRIES, FRESH)),
        ),
        (
            "INSERT INTO job (id, note) VALUES (?, ?) ON DUPLICATE KEY UPDATE tries = ?",
            (sample(ID, FRESH), sample(NOTE, FRESH), sample(TRIES, FRESH)),
        ),
        (
            "SELECT id FROM job WHERE note IN (?, ?) AND tries NOT IN (?)",
            (*[sample(NOTE, THERE)] * 2, sample(TRIES, THERE)),
        ),
        ("SELECT id FROM job AS j WHERE j.tries >= ? LIMIT ?", (sample(TRIES, THERE), "1")),
        ("UPDATE job SET owner_id = ?", ("41",)),
        ("DELETE FROM app.job WHERE app.job.note = ?", (sample(NOTE, THERE),)),
    ],
)
def test_each_parameter_gets_a_value_of_its_column(text: str, expected: tuple[str, ...]) -> None:
    said = bound(text, CONTRACT, SHAPE, {"owner_id": "41"})
    assert (said.arguments, said.problem) == (expected, "")
    assert "app." not in said.text


def test_what_another_schema_would_be_asked_is_left_out() -> None:
    assert "cannot be read" in bound("SELECT 'open FROM job", CONTRACT, SHAPE, {}).problem
    assert "names the schema" in bound("SELECT app FROM job", CONTRACT, SHAPE, {}).problem
