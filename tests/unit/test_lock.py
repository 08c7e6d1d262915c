"""The lock means the contract, not its spelling; a change is told in words, and a file that was touched is refused."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from orchestrator.model.findings import FileFindings
from orchestrator.runbook.load import parse
from orchestrator.runbook.lock import explain, lock_text, read_lock

RUNBOOKS = Path(__file__).resolve().parents[2] / "runbooks"
TEXT = """\
apiVersion: rollout/v1
name: clean
table: {schema: app, name: job}
contract:
  columns:
    - {name: state, type: varchar(9)}
    - {name: tries, type: int, null: false, default: 0}
    - {name: made, type: datetime(3), default: now(3)}
  indexes:
    - {name: job_state_idx, columns: [state]}
    - {name: job_tries_idx, columns: [tries]}
"""
FROZEN = read_lock(lock_text(parse(TEXT, "a.yaml").contract), "a.lock")


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("type: int,", "type: INTEGER(11),"),
        ("now(3)", "CURRENT_TIMESTAMP(3)"),
        ("default: 0", "default: '0'"),
        ("{name: state, type: varchar(9)}", "{type: VARCHAR(9), name: state, null: true}"),
        (
            "    - {name: job_state_idx, columns: [state]}\n    - {name: job_tries_idx, columns: [tries]}",
            "    - {name: job_tries_idx, columns: [tries]}\n    - {name: job_state_idx, columns: [state]}",
        ),
        ("contract:", "owner: somebody\ncontract:"),
    ],
)
def test_order_and_spelling_do_not_matter(old: str, new: str) -> None:
    assert old in TEXT
    assert explain(FROZEN, parse(TEXT.replace(old, new), "a.yaml").contract) == ()


@pytest.mark.parametrize(
    ("old", "new", "told"),
    [
        (
            "varchar(9)",
            "varchar(10)",
            "columns.state.type: varchar(9) → varchar(10)  (wider: takes all that was taken)",
        ),
        ("varchar(9)", "varchar(8)", "columns.state.type: varchar(9) → varchar(8)  (narrower: refuses what was taken)"),
        ("type: int,", "type: smallint,", "columns.tries.type: int → smallint  (narrower: refuses what was taken)"),
        (
            "varchar(9)}",
            "varchar(9), null: false, default: ''}",
            "columns.state.null: true → false  (stricter: refuses NULL that was taken)",
        ),
        ("default: 0", "default: 1", "columns.tries.default: '0' → '1'"),
        (
            "columns: [state]}",
            "columns: [state], unique: true}",
            "indexes.job_state_idx.unique: false → true  (stricter: refuses rows that were taken)",
        ),
    ],
)
def test_a_change_is_told_with_whom_it_favours(old: str, new: str, told: str) -> None:
    lines = explain(FROZEN, parse(TEXT.replace(old, new, 1), "a.yaml").contract)
    assert told in lines
    assert len(lines) == (2 if "null: false" in new else 1)


def test_what_comes_and_what_goes_is_told() -> None:
    more = explain(FROZEN, parse(TEXT + "    - {name: more_idx, columns: [made]}\n", "a.yaml").contract)
    assert len(more) == 1
    assert more[0].startswith("indexes.more_idx: (absent) → ")
    assert more[0].endswith("(more than was frozen)")
    less = explain(
        FROZEN, parse(TEXT.replace("    - {name: job_tries_idx, columns: [tries]}\n", ""), "a.yaml").contract
    )
    assert less[0].endswith("(less than was frozen)")


@pytest.mark.parametrize(
    ("change", "line", "words"),
    [
        (lambda t: t[:-3], 40, "not JSON"),
        (lambda t: t.replace("varchar(9)", "varchar(99)"), 1, "changed by hand"),
        (lambda t: t[1:], 1, "no digest"),
        (lambda t: "[]", 1, "no digest"),
        (lambda t: "0" * 64 + "\n" + "[" * 5000, 2, ""),
        (lambda t: "0" * 64 + "\n[]", 2, "missing"),
    ],
)
def test_a_lock_that_was_touched_is_a_finding(change: object, line: int, words: str) -> None:
    assert callable(change)
    with pytest.raises(FileFindings) as caught:
        read_lock(change(lock_text(parse(TEXT, "a.yaml").contract)), "a.lock")
    (finding,) = caught.value.findings
    assert words in finding.seen
    assert finding.line >= 1
    assert (finding.line > 1) == (line > 1)


@given(st.text(alphabet='{}[]":,0aform\n\\', max_size=60))
def test_no_text_ends_in_a_traceback(text: str) -> None:
    with pytest.raises(FileFindings):
        read_lock(text, "a.lock")


@pytest.mark.parametrize("path", sorted(RUNBOOKS.glob("*.lock")), ids=lambda p: p.stem)
def test_the_shipped_locks_are_those_of_the_runbooks(path: Path) -> None:
    runbook = parse(path.with_suffix(".yaml").read_text(encoding="utf-8"), str(path))
    assert path.read_text(encoding="utf-8") == lock_text(runbook.contract)
