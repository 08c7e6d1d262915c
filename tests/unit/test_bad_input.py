"""Whatever is done to a runbook, a lock, a file of DDL or a Prisma schema, it ends in findings with a line."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from orchestrator.contract.ddl import read_tables
from orchestrator.contract.prisma import read_models
from orchestrator.contract.target import Source
from orchestrator.model.findings import FileFindings
from orchestrator.runbook.lint import find
from orchestrator.runbook.load import parse
from orchestrator.runbook.lock import read_lock
from orchestrator.runbook.proof import read_proof
from orchestrator.runbook.source import MAX_BYTES, clean_text, read_source

ROOT = Path(__file__).resolve().parents[2]
# Five kinds of file share the 20,000 inputs of the long profile.
EXAMPLES = 4_000 if settings.default.max_examples > 100 else settings.default.max_examples

READERS: dict[str, tuple[Path, Callable[[str], object]]] = {
    "runbook": (ROOT / "runbooks" / "orders.yaml", lambda t: find(parse(t, "f"))),
    "lock": (ROOT / "runbooks" / "orders.lock", lambda t: read_lock(t, "f")),
    "proof": (ROOT / "runbooks" / "aijob.proof", lambda t: read_proof(t, "f")),
    "ddl": (ROOT / "runbooks" / "sandbox" / "orders.sql", lambda t: read_tables([Source("f", t)], "shop")),
    "prisma": (ROOT / "tests" / "data" / "prisma" / "shop.prisma", lambda t: read_models([Source("f", t)], "shop")),
}
ODD = (
    *("\t", "\ufeff", "\r\n", "\x00", "🙂", "`", "``", "'", '"', "%s", "*", "&a", "*a", "<<: *a", "{", "}", "[", "]"),
    *("(", ")", ":", ",", ";", "--", "/*", "*/", "#", "null", "~", "select", "DELIMITER ;;\n", "@", "@@", "\\", "0x"),
    *("1e9", "é"),
)


def judged(read: Callable[[str], object], text: str) -> list[int]:
    """The lines of what is found; none when the text can be read."""
    try:
        read(clean_text(text))
    except FileFindings as found:
        return [f.line for f in found.findings]
    return [1]


@pytest.mark.parametrize("kind", READERS)
@settings(max_examples=EXAMPLES)
@given(data=st.data())
def test_a_file_that_was_hurt_ends_in_findings(kind: str, data: st.DataObject) -> None:
    path, read = READERS[kind]
    text = path.read_text(encoding="utf-8")
    for _ in range(data.draw(st.integers(1, 4))):
        at = data.draw(st.integers(0, len(text)))
        cut = data.draw(st.integers(0, 40))
        text = text[:at] + data.draw(st.sampled_from(ODD)) + text[at + cut :]
    assert min(judged(read, text)) >= 0


@pytest.mark.parametrize("kind", READERS)
def test_line_ends_and_a_byte_order_mark_are_no_difference(kind: str) -> None:
    path, read = READERS[kind]
    text = path.read_text(encoding="utf-8")
    assert read(clean_text("\ufeff" + text.replace("\n", "\r\n"))) == read(text)


@pytest.mark.parametrize("kind", READERS)
def test_deep_nesting_and_large_files_are_bounded(kind: str, tmp_path: Path) -> None:
    _, read = READERS[kind]
    for sign in "[{(":
        assert judged(read, sign * 20_000)
        assert judged(read, "a: " + sign * 20_000)
    assert judged(read, "CREATE TABLE t (a INT DEFAULT " + "(" * 20_000)
    file = tmp_path / "large"
    file.write_bytes(b"#" * (MAX_BYTES + 1))
    with pytest.raises(FileFindings, match="larger than 1 MiB"):
        read_source(file)


def test_a_name_outside_of_the_basic_plane_shows_its_code_point() -> None:
    """B99: the server would store a question mark, and two names would fall together."""
    text = (ROOT / "runbooks" / "orders.yaml").read_text(encoding="utf-8").replace("name: orders\n", 'name: "u😀"\n', 2)
    with pytest.raises(FileFindings) as caught:
        parse(text, "f")
    assert any("U+1F600" in f.seen for f in caught.value.findings)
