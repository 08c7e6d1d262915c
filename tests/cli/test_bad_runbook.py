"""A runbook file that cannot be meant ends with 65 and the line to blame, before any server is asked."""

from __future__ import annotations

import socket
from pathlib import Path

import pytest

from orchestrator.sandbox.server import Server
from tests.support.command import Ran, Terminal
from tests.support.small import RUNBOOK

TEXT = RUNBOOK.format(name="orders-state", schema="shop")


@pytest.fixture
def nobody(tmp_path: Path) -> Terminal:
    """A terminal whose server does not exist: whoever asks it ends with 69."""
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        port = int(taken.getsockname()[1])
    server = Server("none", "127.0.0.1", port, tmp_path / "none.sock", tmp_path / "none", 0, ())
    terminal = Terminal(server, tmp_path / "rollout.yaml")
    terminal.runbook.write_text(TEXT, encoding="utf-8")
    return terminal


def line_of(text: str, part: str) -> int:
    return text[: text.index(part)].count("\n") + 1


def is_told(ran: Ran, *parts: str) -> None:
    """Seen, wanted and what to do, on standard error alone."""
    assert ran.out == ""
    first, *lines = ran.err.splitlines()
    assert first.split() == ["runbook", "exit", "65"], ran.err
    told = [line.split()[0] for line in lines if line.startswith((" seen ", " wanted ", " do "))]
    assert told == ["seen", "wanted", "do"]
    for part in parts:
        assert part in ran.err, f"{part!r} is not in\n{ran.err}"


@pytest.mark.parametrize("verb", [("next", "-y"), ("status",)], ids=lambda v: v[0])
def test_65_for_a_runbook_that_is_not_there(nobody: Terminal, verb: tuple[str, ...]) -> None:
    nobody.runbook.unlink()
    is_told(nobody.run(*verb, expect=65), f"{nobody.runbook}: there is no such file", "ROLLOUT_RUNBOOK")


@pytest.mark.parametrize("text", ["a: [1, 2", "just a sentence\n", ""], ids=repr)
def test_65_for_a_file_that_is_no_yaml_or_no_runbook(nobody: Terminal, text: str) -> None:
    nobody.runbook.write_text(text, encoding="utf-8")
    is_told(nobody.run("lint", expect=65), str(nobody.runbook))


@pytest.mark.parametrize(
    ("old", "new", "blamed", "parts"),
    [
        ("  indexes:\n", "  indices:\n", "  indices:", ("indices", "indexes")),
        ("    new: state\n", "    nwe: state\n", "    nwe:", ("nwe", "new")),
    ],
)
def test_65_for_an_unknown_key_with_its_line_and_the_nearest_known_one(
    nobody: Terminal, old: str, new: str, blamed: str, parts: tuple[str, ...]
) -> None:
    text = TEXT.replace(old, new)
    assert text != TEXT
    nobody.runbook.write_text(text, encoding="utf-8")
    where = f"{nobody.runbook}:{line_of(text, blamed)}: "
    is_told(nobody.run("next", "-y", expect=65), where, *parts)


def test_65_for_a_key_that_is_there_twice_with_both_lines(nobody: Terminal) -> None:
    text = TEXT + "mappings: []\n"
    nobody.runbook.write_text(text, encoding="utf-8")
    first = line_of(text, "mappings:")
    where = f"{nobody.runbook}:{text.count(chr(10))}: duplicate key 'mappings', first on line {first}"
    is_told(nobody.run("plan", expect=65), where)


def test_65_for_a_duration_without_a_unit_with_its_line_and_the_units(nobody: Terminal) -> None:
    text = TEXT.replace("soak: 200ms}\n  read", "soak: 30}\n  read")
    nobody.runbook.write_text(text, encoding="utf-8")
    is_told(nobody.run("plan", expect=65), f"{nobody.runbook}:{line_of(text, 'soak: 30')}: ", "30", "ms", "unit")


def test_65_is_told_in_json_with_its_five_keys_and_nothing_else(nobody: Terminal) -> None:
    nobody.runbook.unlink()
    ran = nobody.run("plan", "--json", expect=65)
    assert set(ran.json) == {"error", "code", "seen", "expected", "next"}
    assert (ran.json["error"], ran.json["code"]) == ("runbook", 65)
    assert ran.err == ""


def test_0_for_a_clean_runbook_and_65_for_each_breach_with_its_line(nobody: Terminal) -> None:
    clean = nobody.run("lint", "--json").json
    assert (clean["problems"], clean["waived"]) == ([], [])
    assert [w["rule"] for w in clean["warnings"]] == ["before-unsaid"]
    text = TEXT.replace("type: varchar(32)}", "type: varchar(32), null: false}").replace("gates: [drift]", "gates: []")
    nobody.runbook.write_text(text, encoding="utf-8")
    ran = nobody.run("lint", "--json", expect=65)
    found = {p["rule"]: p for p in ran.json["problems"]}
    assert set(found) >= {"new-column-not-null", "gate-drift"}
    for problem in found.values():
        assert problem["seen"].startswith(f"{nobody.runbook}:")
        assert problem["expected"]
        assert problem["next"]


def test_0_for_a_freeze_that_is_kept_and_1_when_the_contract_moved_away(nobody: Terminal) -> None:
    assert nobody.run("freeze", "--check", expect=1).out.count("differs from") == 1
    frozen = nobody.run("freeze", "--json").json
    lock = Path(frozen["lock"])
    assert lock == nobody.runbook.with_suffix(".lock")
    assert lock.read_text(encoding="utf-8").startswith(frozen["digest"])
    nobody.runbook.write_text(TEXT.replace("max_wait: 1s", "max_wait: 5m"), encoding="utf-8")
    nobody.run("freeze", "--check")  # settings are not part of what is frozen
    before = lock.read_text(encoding="utf-8")
    nobody.runbook.write_text(TEXT.replace("varchar(32)", "varchar(33)"), encoding="utf-8")
    nobody.run("freeze", "--check", expect=1)
    assert lock.read_text(encoding="utf-8") == before, "--check writes nothing"
    assert sorted(p.name for p in lock.parent.iterdir()) == ["rollout.lock", "rollout.yaml"]


def test_65_for_a_freeze_of_what_lint_refuses_and_nothing_is_frozen(nobody: Terminal) -> None:
    nobody.runbook.write_text(TEXT.replace("type: varchar(32)}", "type: int, null: false}"), encoding="utf-8")
    nobody.run("freeze", expect=65)
    assert not nobody.runbook.with_suffix(".lock").exists()
