"""The files that we write on this machine: whole, with their own mode, and never through a link that somebody laid."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from orchestrator import whole_file
from orchestrator.cli.shared import put
from orchestrator.drivers.reads.flagd import FlagdFile
from orchestrator.errors import UsageError
from orchestrator.journal import last_line
from orchestrator.sandbox.places import runbooks_folder
from orchestrator.whole_file import write_whole
from tests.support.command import ROLLOUT


@pytest.fixture(autouse=True)
def open_to_all() -> Iterator[None]:
    """No mode is right by the umask alone."""
    before = os.umask(0)
    yield
    os.umask(before)


def mode(path: Path) -> int:
    return path.lstat().st_mode & 0o777


def victim(folder: Path) -> Path:
    path = folder / "victim"
    path.write_text("precious")
    path.chmod(0o644)
    return path


WRITERS = {
    "a plan": lambda path: put(path, "new", "-o", 0o600),
    "a flag": lambda path: FlagdFile(path, "orders").show(1, (True, 5)),
}


@pytest.mark.parametrize("writer", WRITERS)
def test_no_file_is_written_through_a_link_that_somebody_laid(tmp_path: Path, writer: str) -> None:
    """Neither in its place nor beside it, under a name that can be guessed."""
    path, precious = tmp_path / "file.json", victim(tmp_path)
    beside = path.with_name(f".{path.name}.{os.getpid()}")
    beside.symlink_to(precious)
    WRITERS[writer](path)
    assert (precious.read_text(), mode(precious)) == ("precious", 0o644)
    assert path.is_file()
    assert not path.is_symlink()
    assert {p.name for p in tmp_path.iterdir()} == {"victim", "file.json", beside.name}


def test_a_link_in_the_place_of_a_file_is_replaced(tmp_path: Path) -> None:
    path, precious = tmp_path / "plan", victim(tmp_path)
    path.symlink_to(precious)
    write_whole(path, "new", 0o600)
    assert (precious.read_text(), mode(precious)) == ("precious", 0o644)
    assert (path.read_text(), mode(path), path.is_symlink()) == ("new", 0o600, False)


@pytest.mark.parametrize("wanted", [0o600, 0o644])
def test_a_file_is_ours_alone_until_all_of_it_is_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, wanted: int
) -> None:
    seen = []
    opened = os.open

    def looked(path: object, flags: int, *more: int) -> int:
        file = opened(path, flags, *more)  # type: ignore[arg-type]  # as the module calls it
        if flags & os.O_CREAT:
            seen.append((os.fstat(file).st_mode & 0o777, flags & os.O_EXCL > 0, flags & os.O_NOFOLLOW > 0))
        return file

    monkeypatch.setattr(whole_file.os, "open", looked)
    write_whole(tmp_path / "plan", "größe", wanted)
    assert seen == [(0o600, True, True)]
    assert mode(tmp_path / "plan") == wanted
    assert (tmp_path / "plan").read_text(encoding="utf-8") == "größe"


def test_a_file_that_cannot_reach_the_disk_is_as_it_was(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "plan"
    write_whole(path, "old")

    def full(file: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(whole_file.os, "fsync", full)
    with pytest.raises(UsageError, match="No space left"):
        put(path, "new", "-o")
    assert path.read_text() == "old"
    assert list(tmp_path.iterdir()) == [path]


@pytest.mark.parametrize("arguments", [("freeze",), ("adr", "record.md")])
def test_what_is_committed_can_be_read_by_all_and_written_by_us(tmp_path: Path, arguments: tuple[str, ...]) -> None:
    runbook = tmp_path / "rollout.yaml"
    runbook.write_bytes((runbooks_folder() / "orders.yaml").read_bytes())
    ended = subprocess.run([ROLLOUT, *arguments], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert ended.returncode == 0, ended.stderr
    (made,) = {p for p in tmp_path.iterdir() if p != runbook}
    assert mode(made) == 0o644


def noted(path: Path) -> str:
    return last_line("text", path)


def test_a_journal_that_others_could_read_is_ours_alone_before_anything_is_said(tmp_path: Path) -> None:
    path = tmp_path / "journal.log"
    path.write_text("earlier\n")
    path.chmod(0o666)
    assert noted(path) == str(path)
    assert mode(path) == 0o600
    assert len(path.read_text().splitlines()) == 2


@pytest.mark.parametrize("laid", ["a link", "a link to nothing", "another name", "a pipe"])
def test_a_journal_is_not_written_into_what_somebody_laid_in_its_place(tmp_path: Path, laid: str) -> None:
    path, precious = tmp_path / "journal.log", victim(tmp_path)
    if laid == "a pipe":
        os.mkfifo(path)
    elif laid == "another name":
        path.hardlink_to(precious)
    else:
        path.symlink_to(precious if laid == "a link" else tmp_path / "made")
    assert noted(path).startswith(f"not written ({path}: ")
    assert (precious.read_text(), mode(precious)) == ("precious", 0o644)
    assert not (tmp_path / "made").exists()
