"""A Prisma schema that cannot be read is a finding with its line; whatever else a text is, it ends in one."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from orchestrator.contract.prisma import read_models
from orchestrator.contract.prisma.keys import index_name
from orchestrator.contract.target import Source, Target
from orchestrator.model.findings import FileFindings

HEAD = 'datasource db {\n  provider = "mysql"\n}\n'


def read(text: str) -> tuple[Target, ...]:
    return read_models([Source("s.prisma", text)], "app")


@pytest.mark.parametrize(
    ("text", "line", "words"),
    [
        ("model A {\n id Int @id\n", 2, "ends here"),
        ("model A {\n id Int @id\n name Strin\n}", 3, "type Strin"),
        ("model A {\n id Int @id\n tags String[]\n}", 3, "is a list"),
        ("model A {\n id Int @id @db.Serial\n}", 2, "@db.Serial"),
        ("model A {\n id Int @id\n s String @db.VarChar\n}", 3, "needs a length"),
        ("model A {\n id Int @id\n id Int\n}", 3, "A.id is there twice"),
        ("model A {\n id Int @id\n}\nmodel A {\n id Int @id\n}", 4, "A is there twice"),
        ("model A {\n id Int @id\n @@index([x])\n}", 3, "names x"),
        ("model A {\n id Int @id\n @@index()\n}", 3, "without fields"),
        ("model A {\n id Int @id\n s String\n @@index([s(length: -5)])\n}", 4, "length: -5"),
        (f"model A {{\n id Int @id\n s String\n @@index([s(length: {'9' * 5000})])\n}}", 4, "length: 999"),
        (
            "model A {\n id Int @id\n b B @relation(fields: [x], references: [id])\n}\nmodel B {\n id Int @id\n}",
            3,
            "no field A.x",
        ),
        (
            "model A {\n id Int @id\n b B @relation(fields: [id], references: [])\n}\nmodel B {\n id Int @id\n}",
            3,
            "fields and references",
        ),
        ("model A {\n id Int @id\n b C @relation(fields: [id], references: [id])\n}", 3, "refers to C"),
        (
            "model A {\n id Int @id\n b A @relation(fields: [id], references: [id], onDelete: Bang)\n}",
            3,
            "onDelete: Bang",
        ),
        ('datasource db {\n provider = "postgresql"\n}', 1, "postgresql"),
        ("modell A {\n}", 1, "'modell'"),
        ('model A {\n id Int @id @default("x)\n}', 2, "not part of a Prisma schema"),
        ("model A {\n id Int @id\n e E\n}\nenum E {\n A B\n}", 6, "'B'"),
        ("model A {\n id Int @id\n a Int @default(" + "[" * 30 + ")\n}", 3, "nested so deep"),
    ],
)
def test_what_cannot_be_read_is_a_finding_with_its_line(text: str, line: int, words: str) -> None:
    with pytest.raises(FileFindings) as caught:
        read(text)
    (finding,) = caught.value.findings
    assert finding.line == line
    assert words in finding.seen + finding.expected


WORDS = tuple(
    token
    for line in (
        "model A { id Int @id @@index ( [ x ] ) } enum E datasource db provider = // /// /* */ @relation fields :",
        'references map name String ? [] [ ] , . @db.VarChar(9) @db.Bit @default now() dbgenerated("(x)") 1 -1.5',
        'true \n \n " "mysql" \\ 🙂 \ufeff \x00 Unsupported("point") type view generator @@map("a") @@id @unique',
        "onDelete Cascade @default(autoincrement()) @db.Time(x) length: 5 sort: Desc",
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


def test_names_that_are_not_written_end_where_those_of_the_server_end() -> None:
    assert index_name("Job", ("userId", "at"), "_idx") == "Job_userId_at_idx"
    long = index_name("T" * 40, ("column_" * 5, "b"), "_fkey")
    assert len(long) == 64
    assert long.endswith("_fkey")


def test_many_to_many_is_a_table_that_holds_two_keys() -> None:
    text = HEAD + "model A {\n id Int @id\n bs B[]\n}\nmodel B {\n id Int @id\n as A[]\n}\n"
    children = {t.shape.table.name: t.shape.referenced_by for t in read(text)}
    assert [(t.name, f.name, f.columns, f.on_delete) for t, f in children["A"]] == [
        ("_AToB", "_AToB_A_fkey", ("A",), "CASCADE")
    ]
    assert [f.columns for _, f in children["B"]] == [("B",)]
