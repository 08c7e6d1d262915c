"""A file of DDL that cannot be read is a finding with its line; what is read keeps the line of each thing."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from orchestrator.contract.change import added_by
from orchestrator.contract.ddl import read_tables
from orchestrator.contract.difference import Kind
from orchestrator.contract.drift import compare
from orchestrator.contract.target import Source, Target
from orchestrator.model.contract import Contract, TableName
from orchestrator.model.findings import FileFindings
from tests.support.contracts import contract_of

BASE = """CREATE TABLE owner (id INT PRIMARY KEY);
CREATE TABLE job (
  id INT PRIMARY KEY,
  state VARCHAR(9),
  KEY job_state_idx (state)
);
"""


def read(text: str) -> tuple[Target, ...]:
    return read_tables([Source("a.sql", text)], "app")


def contract() -> Contract:
    return contract_of(next(t for t in read(BASE) if t.shape.table.name == "job").shape)


@pytest.mark.parametrize(
    ("text", "line", "words"),
    [
        ("CREATE TABLE t (\n id INT,\n name VARCHAR\n)", 3, "varchar needs a length"),
        ("CREATE TABLE t (\n id INTT)", 2, "no column type 'intt'"),
        ("CREATE TABLE t (id INT,\n\n id INT)", 3, "is there twice"),
        ("CREATE TABLE t (id INT);\nCREATE TABLE t (id INT)", 2, "made twice"),
        ("\nALTER TABLE t ADD a INT", 2, "no table t"),
        ("CREATE TABLE t (id INT);\nALTER TABLE t DROP COLUMN x", 2, "no column x"),
        ("CREATE TABLE t (id INT);\nALTER TABLE t ADD id INT", 2, "column id already"),
        ("CREATE TABLE t (\nid INT", 2, "the statement ends here"),
        ("CREATE TABLE t (id INT) WHATEVER=1", 1, "'WHATEVER'"),
        ("CREATE TABLE t (id INT,\n a VARCHAR(9) DEFAULT 'x)", 2, "this is not SQL"),
        ("CREATE TABLE t (id INT);\nMERGE INTO t", 2, "'MERGE'"),
        ("CREATE TABLE t (id INT, FOREIGN KEY (id) REFERENCES p (id) ON DELETE SET DEFAULT)", 1, "SET DEFAULT"),
        ("CREATE TABLE t (id INT DEFAULT 0xZZ)", 1, "this is not SQL"),
        ("CREATE TABLE t (b BINARY(2) DEFAULT X'123')", 1, "x'123'"),
        ("CREATE TABLE t (a INT, b INT,\n KEY k (a (a, b)))", 2, "'a'"),
        ("CREATE TABLE t (a INT,\n KEY k (a(²)))", 2, "'²'"),
        ("CREATE TABLE t (a VARCHAR(²))", 1, "'²'"),
        ("CREATE TABLE t (a INT,\n KEY k (a(٣)))", 2, "'٣'"),
        (f"CREATE TABLE t (a INT,\n KEY k (a({'9' * 5000})))", 2, "'999"),
        ("CREATE TABLE t (a TEXT(٣))", 1, "is not a length"),
        ("CREATE TABLE t (a TEXT(3, 4))", 1, "is not a length"),
    ],
)
def test_what_cannot_be_read_is_a_finding_with_its_line(text: str, line: int, words: str) -> None:
    with pytest.raises(FileFindings) as caught:
        read(text)
    (finding,) = caught.value.findings
    assert finding.line == line
    assert words.lower() in finding.seen.lower()
    assert finding.expected
    assert finding.next


WORDS = tuple(
    token
    for line in (
        "CREATE TABLE t ( id INT PRIMARY KEY , a VARCHAR ( 9 ) DEFAULT 'x' ) ; ALTER ADD DROP MODIFY CHANGE",
        "COLUMN INDEX KEY UNIQUE FOREIGN REFERENCES ON DELETE SET NULL CHECK AS NOT `q` \" ' /* */ -- \n # DELIMITER",
        ";; 0x1 b'1' . = RENAME TO LIKE ENUM DECIMAL , 🙂 \ufeff \x00 /*!40101 CHARSET COLLATE COMMENT CONSTRAINT",
        "USING AFTER FIRST CURRENT_TIMESTAMP NOW() BINARY X'1 X'12' IN ENFORCED GENERATED STORED",
    )
    for token in line.split(" ")
)


@given(st.lists(st.sampled_from(WORDS), max_size=40).map(" ".join))
def test_no_text_ends_in_anything_but_tables_or_findings(text: str) -> None:
    lines = [1]
    try:
        read(text)
    except FileFindings as found:
        lines = [f.line for f in found.findings]
    assert min(lines) >= 1


def test_each_difference_has_the_line_of_what_differs() -> None:
    changed = BASE.replace("VARCHAR(9)", "VARCHAR(8)").replace("(state)", "(state, id)")
    found = compare(contract(), next(t for t in read(changed) if t.shape.table.name == "job"))
    assert [(d.thing, d.line) for d in found] == [("column", 4), ("index", 5)]


def test_a_change_that_adds_what_nobody_named_fails_and_an_older_debt_does_not() -> None:
    base = read(BASE + "ALTER TABLE job ADD COLUMN older INT;")
    same = added_by(contract(), base, base)
    assert same == ()
    head = read(
        BASE
        + "ALTER TABLE job ADD COLUMN older INT, ADD COLUMN later INT, ADD INDEX later_idx (later);\n"
        + "CREATE TABLE log (id INT PRIMARY KEY, job_id INT,"
        + " CONSTRAINT log_fk FOREIGN KEY (job_id) REFERENCES job (id));"
        + "CREATE TABLE coupon (id INT PRIMARY KEY);"
    )
    found = added_by(contract(), base, head)
    assert [(d.kind, d.thing, d.name) for d in found] == [
        (Kind.CONTRACT_LACKS, "column", "later"),
        (Kind.CONTRACT_LACKS, "index", "later_idx"),
        (Kind.CONTRACT_LACKS, "relation", "log.log_fk"),
        (Kind.NEW_TABLE, "table", "coupon"),
    ]
    assert [d.name for d in added_by(contract(), base, read("CREATE TABLE other (id INT)"))] == ["job"]


def test_without_what_stood_before_the_base_says_it() -> None:
    bare = replace(contract(), before=None, columns=(), indexes=())
    base = read(BASE)
    assert added_by(bare, base, base) == ()
    found = added_by(bare, base, read(BASE + "ALTER TABLE job ADD INDEX x (id, state), DROP COLUMN state"))
    assert [(d.kind, d.thing, d.name) for d in found] == [
        (Kind.TARGET_LACKS, "column", "state"),
        (Kind.TARGET_LACKS, "index", "job_state_idx"),
        (Kind.CONTRACT_LACKS, "index", "x"),
    ]


def test_a_json_that_a_dump_of_another_flavour_made_text_is_json() -> None:
    """B142: type aliases are equal."""
    ours = read("CREATE TABLE job (id INT PRIMARY KEY, a JSON, b BOOLEAN NOT NULL DEFAULT FALSE, c INTEGER)")[0]
    theirs = read(
        "CREATE TABLE `job` (`id` int(11) NOT NULL, `a` longtext CHARACTER SET utf8mb4 COLLATE utf8mb4_bin "
        "DEFAULT NULL CHECK (json_valid(`a`)), `b` tinyint(1) NOT NULL DEFAULT 0, `c` int(11),"
        " PRIMARY KEY (`id`))"
    )[0]
    assert compare(contract_of(ours.shape), theirs) == ()
    assert contract().table == TableName("app", "job")
