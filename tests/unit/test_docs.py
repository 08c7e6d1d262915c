"""The documentation says what is: its links lead somewhere, and its tables are those of the code."""

from __future__ import annotations

import importlib
import re
from collections.abc import Iterable, Iterator
from itertools import product
from pathlib import Path
from typing import Any

import pytest

from orchestrator.cli.main import app
from orchestrator.errors import Exit
from orchestrator.model.state import EventKind, State
from orchestrator.telemetry.metrics import RolloutCollector

ROOT = Path(__file__).parents[2]
PAGES = sorted([*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")])
_LINK = re.compile(r"\]\(([^)#\s]+)(?:#[^)]*)?\)")


def read(name: str) -> str:
    return (ROOT / name).read_text(encoding="utf-8")


@pytest.mark.parametrize("page", PAGES, ids=lambda p: str(p.relative_to(ROOT)))
def test_every_link_leads_somewhere(page: Path) -> None:
    links = [link for link in _LINK.findall(page.read_text(encoding="utf-8")) if "://" not in link]
    assert [link for link in links if not (page.parent / link).exists()] == []


@pytest.mark.parametrize("page", ["docs/laws.md", "docs/reliability.md", "SECURITY.md"])
def test_every_law_is_held_by_tests_that_exist(page: str) -> None:
    named = set(re.findall(r"`(test_\w+)`", read(page)))
    tests = "\n".join(p.read_text(encoding="utf-8") for p in (ROOT / "tests").rglob("test_*.py"))
    assert named
    assert {name for name in named if f"def {name}(" not in tests} == set()


def _variants(test: Any, of: object) -> Iterator[set[str]]:
    """The names of the marks that each variant of it carries."""
    own = getattr(of, "pytestmark", [])
    marks = [*(own if isinstance(own, list) else [own]), *getattr(test, "pytestmark", [])]
    plain = {mark.name for mark in marks}
    drawn: list[Iterable[Any]] = [mark.args[1] for mark in marks if mark.name == "parametrize"]
    of_each = [[{m.name for m in getattr(value, "marks", ())} for value in values] for values in drawn]
    for more in product(*of_each):
        yield plain.union(*more)


def _is_run(path: Path, name: str) -> bool:
    module = importlib.import_module(".".join(path.relative_to(ROOT).with_suffix("").parts))
    return any("slow" not in marks or "faults" in marks for marks in _variants(getattr(module, name), module))


def test_every_test_of_the_table_of_faults_is_run_before_a_change_lands() -> None:
    """By `make test`, or by `make faults`, in at least one variant. The laws' tests to read first are too."""
    page = read("docs/reliability.md")
    tables = page.split("\n## Laws\n")[1].split("\n## What was run\n")[0]
    named = set(re.findall(r"`(test_\w+)`", tables))
    found = {
        (path, name)
        for path in (ROOT / "tests").rglob("test_*.py")
        for name in named.intersection(re.findall(r"^def (test_\w+)\(", path.read_text(encoding="utf-8"), re.M))
    }
    assert len(found) >= len(named) > 50
    assert sorted(name for path, name in found if not _is_run(path, name)) == []
    for runs in ("make test", "make faults"):
        assert f"must {runs}\n" in read(".ci/run")


def test_the_readme_has_every_exit_code() -> None:
    table = read("README.md").split("## Exit codes")[1].split("\n## ")[0]
    assert {int(code) for code in re.findall(r"^\| (\d+) \|", table, re.MULTILINE)} == {int(code) for code in Exit}


def _registered() -> Iterator[str]:
    for command in app.registered_commands:
        assert command.callback is not None
        yield command.name or command.callback.__name__
    yield from (str(group.name) for group in app.registered_groups)


def test_every_command_that_the_pages_show_exists() -> None:
    shown = {
        verb
        for page in PAGES
        for block in re.findall(r"`(?:\$ )?rollout ([a-z]+)|^(?:\$ )?rollout ([a-z]+)", page.read_text("utf-8"), re.M)
        for verb in block
        if verb
    }
    assert shown - set(_registered()) == set()


def test_every_command_is_in_the_changes() -> None:
    missing = {name for name in _registered() if name not in read("CHANGELOG.md")}
    assert missing == set()


def test_every_metric_is_described_and_nothing_else() -> None:
    described = set(re.findall(r"^\| `(rollout_\w+)`", read("docs/metrics.md"), re.MULTILINE))
    assert described == {metric.name for metric in RolloutCollector(lambda: ()).collect()}


def test_every_state_and_kind_of_event_is_named() -> None:
    page = read("docs/metrics.md")
    assert {word.value for word in (*State, *EventKind) if word.value not in page} == set()
