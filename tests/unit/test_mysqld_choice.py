"""Which server is taken, and what a person is told when none can be: with scripts that print versions as servers do."""

from __future__ import annotations

import json
import os
import shutil
from collections import namedtuple
from pathlib import Path

import pytest

from orchestrator.errors import Exit
from orchestrator.sandbox import mysqld, unpack
from orchestrator.sandbox.mysqld import Mysqld, Unfit, ask_version, find_mysqld, judge_version
from orchestrator.sandbox.places import SandboxError

MYSQL = "mysqld  Ver {} for Linux on x86_64 (MySQL Community Server - GPL)"
PERCONA = "mysqld  Ver 8.0.35-27 for Linux on x86_64 (Percona Server (GPL), Release 27)"
MARIADB = "mysqld  Ver 10.11.14-MariaDB-0+deb12u2 for debian-linux-gnu on x86_64 (Debian 12)"


def program(path: Path, prints: str, exit_code: int = 0) -> Path:
    """A script that stands for a server program."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"#!/bin/sh\necho '{prints}'\nexit {exit_code}\n")
    path.chmod(0o755)
    return path


class Unpacker:
    """Stands for the unpacking: makes a server of the given version, or fails, and counts its calls."""

    def __init__(self, version: str = "9.7.4", error: SandboxError | None = None) -> None:
        self.calls = 0
        self.version = version
        self.error = error

    def __call__(self, prefix: Path, say: mysqld.Say) -> None:
        self.calls += 1
        if self.error is not None:
            raise self.error
        program(prefix / "bin" / "mysqld", MYSQL.format(self.version))


@pytest.mark.parametrize(
    ("text", "version"),
    [
        (MYSQL.format("8.0.28"), (8, 0, 28)),
        (MYSQL.format("8.4.0"), (8, 4, 0)),
        (MYSQL.format("9.7.4-2"), (9, 7, 4)),
        (MYSQL.format("10.0.1"), (10, 0, 1)),
        (PERCONA, (8, 0, 35)),
    ],
)
def test_mysql_from_8_0_28_is_fit(text: str, version: mysqld.Version) -> None:
    assert judge_version(Path("mysqld"), text) == Mysqld(Path("mysqld"), version)


@pytest.mark.parametrize(
    ("text", "seen"),
    [
        (MARIADB, "MariaDB"),
        (MYSQL.format("8.0.27"), "8.0.27"),
        (MYSQL.format("5.7.44"), "5.7.44"),
        ("hello", "hello"),
        ("", "does not say"),
    ],
)
def test_mariadb_old_and_unreadable_versions_are_unfit(text: str, seen: str) -> None:
    found = judge_version(Path("mysqld"), text)
    assert isinstance(found, Unfit)
    assert seen in found.seen


def test_a_program_that_does_not_run_is_unfit(tmp_path: Path) -> None:
    plain = tmp_path / "plain"
    plain.write_text("no program")
    for path in (tmp_path / "missing", plain, tmp_path, program(tmp_path / "fails", "x", exit_code=3)):
        assert isinstance(ask_version(path), Unfit), path


def test_the_ordered_server_comes_first(tmp_path: Path) -> None:
    ordered = program(tmp_path / "mine", MYSQL.format("8.0.40"))
    program(tmp_path / "bin" / "mysqld", MYSQL.format("9.0.0"))
    unpacker = Unpacker()
    env = {"ROLLOUT_MYSQLD": str(ordered), "PATH": str(tmp_path / "bin")}
    assert find_mysqld(env, tmp_path / "cache", unpacker).path == ordered
    assert unpacker.calls == 0


@pytest.mark.parametrize("prints", [MARIADB, MYSQL.format("8.0.27"), "hello"])
def test_an_ordered_server_that_is_unfit_is_an_error_and_nothing_else_is_tried(tmp_path: Path, prints: str) -> None:
    ordered = program(tmp_path / "mine", prints)
    program(tmp_path / "bin" / "mysqld", MYSQL.format("9.0.0"))
    unpacker = Unpacker()
    with pytest.raises(SandboxError) as caught:
        find_mysqld({"ROLLOUT_MYSQLD": str(ordered), "PATH": str(tmp_path / "bin")}, tmp_path / "cache", unpacker)
    assert caught.value.seen.startswith("ROLLOUT_MYSQLD: ")
    assert caught.value.exit_code is Exit.CONFIGURATION
    assert unpacker.calls == 0


def test_a_fit_server_on_path_is_taken(tmp_path: Path) -> None:
    on_path = program(tmp_path / "bin" / "mysqld", MYSQL.format("8.0.28"))
    unpacker = Unpacker()
    assert find_mysqld({"PATH": str(tmp_path / "bin")}, tmp_path / "cache", unpacker).path == on_path
    assert unpacker.calls == 0


@pytest.mark.parametrize("prints", [MARIADB, MYSQL.format("8.0.27"), None])
def test_without_a_fit_server_on_path_the_prefix_is_used(tmp_path: Path, prints: str | None) -> None:
    if prints is not None:
        program(tmp_path / "bin" / "mysqld", prints)
    unpacker = Unpacker()
    found = find_mysqld({"PATH": f"{tmp_path / 'bin'}:{os.defpath}"}, tmp_path / "cache", unpacker)
    assert found == Mysqld(tmp_path / "cache" / "mysql" / "bin" / "mysqld", (9, 7, 4))
    assert unpacker.calls == 1


def test_mariadb_only_and_no_way_to_unpack_says_both(tmp_path: Path) -> None:
    program(tmp_path / "bin" / "mysqld", MARIADB)
    failing = Unpacker(error=SandboxError("there is no apt-get here", "apt", "set ROLLOUT_MYSQLD"))
    with pytest.raises(SandboxError) as caught:
        find_mysqld({"PATH": str(tmp_path / "bin")}, tmp_path / "cache", failing)
    assert "MariaDB" in caught.value.seen
    assert "no apt-get" in caught.value.seen
    assert caught.value.next == "set ROLLOUT_MYSQLD"


def test_main_prints_the_path_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    ordered = program(tmp_path / "mine", MYSQL.format("8.0.40"))
    monkeypatch.setenv("ROLLOUT_MYSQLD", str(ordered))
    assert mysqld.main() == 0
    assert capsys.readouterr().out == f"{ordered}\n"


def test_main_says_what_is_wrong_in_three_lines(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("ROLLOUT_MYSQLD", str(program(tmp_path / "mine", MARIADB)))
    assert mysqld.main() == 78
    captured = capsys.readouterr()
    assert captured.out == ""
    assert [line.split(":")[0].strip() for line in captured.err.splitlines()] == ["sandbox", "expected", "next"]


# Unpacking: what stops it, told with stand-ins for apt and dpkg on a PATH of the test's own.


@pytest.fixture
def tools(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A PATH with nothing on it but what the test puts there (and the shell's own)."""
    folder = tmp_path / "tools"
    program(folder / "dpkg", "amd64")
    program(folder / "apt-get", "scheme-of-a-test/debian/")
    monkeypatch.setenv("PATH", str(folder))
    return folder


def refused(prefix: Path) -> SandboxError:
    """The error that unpacking into ``prefix`` ends with; nothing may be left of the try."""
    with pytest.raises(SandboxError) as caught:
        unpack.unpack(prefix, lambda _: None)
    assert not prefix.exists()
    assert not list(prefix.parent.glob("*.new-*"))
    return caught.value


@pytest.mark.parametrize("missing", ["apt-get", "dpkg"])
def test_no_apt_here(tools: Path, tmp_path: Path, missing: str) -> None:
    (tools / missing).unlink()
    error = refused(tmp_path / "cache" / "mysql")
    assert f"no {missing} here" in error.seen
    assert "ROLLOUT_MYSQLD" in error.next


def test_wrong_architecture(tools: Path, tmp_path: Path) -> None:
    program(tools / "dpkg", "riscv64")
    error = refused(tmp_path / "cache" / "mysql")
    assert (error.seen, error.expected) == ("this machine is riscv64", "amd64 or arm64")


def test_no_room(tools: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    usage = namedtuple("usage", "total used free")(10**12, 10**12 - 2**20, 2**20)
    monkeypatch.setattr(shutil, "disk_usage", lambda _: usage)
    error = refused(tmp_path / "cache" / "mysql")
    assert error.seen.endswith("has 1 MiB free")
    assert error.expected == "700 MiB"


def test_no_mirror(tools: Path, tmp_path: Path) -> None:
    program(tools / "apt-get", "scheme-of-a-test/ubuntu/")
    assert "without a Debian mirror" in refused(tmp_path / "cache" / "mysql").seen


@pytest.mark.parametrize(
    ("said", "seen"),
    [
        ("E: Failed to fetch x  Hash Sum mismatch", "not what its signature promises"),
        ("E: You do not have enough free space in /x", "no room"),
        ("E: Unable to locate package mysql-server-core", "no usable MySQL"),
        ("E: Failed to fetch scheme://mirror.invalid/debian  404", "the mirror cannot be used"),
    ],
)
def test_what_apt_says_is_explained(
    tools: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, said: str, seen: str
) -> None:
    keyring = tmp_path / "keys.gpg"
    keyring.touch()
    monkeypatch.setattr(unpack, "_KEYRINGS", (str(keyring),))
    script = f"case \"$*\" in *indextargets*) echo scheme-of-a-test/debian;; *) echo '{said}' >&2; exit 100;; esac"
    (tools / "apt-get").write_text(f"#!/bin/sh\n{script}\n")
    error = refused(tmp_path / "cache" / "mysql")
    assert seen in error.seen
    assert "mirror.invalid" not in error.seen


# A prefix that is there already: believed only when it is what was unpacked.


@pytest.fixture
def prefix(tmp_path: Path) -> Path:
    """A small prefix with its manifest."""
    folder = tmp_path / "mysql"
    program(folder / "bin" / "mysqld", MYSQL.format("9.7.4"))
    unpack._write_manifest(folder)
    return folder


def said_about(prefix: Path) -> list[str]:
    """What unpacking says, which is nothing when it leaves the prefix as it is."""
    said: list[str] = []
    unpack.unpack(prefix, said.append)
    return said


def test_a_whole_prefix_is_left_alone(prefix: Path) -> None:
    assert said_about(prefix) == []


def test_a_touched_file_with_the_same_bytes_is_believed(prefix: Path) -> None:
    os.utime(prefix / "bin" / "mysqld", (1, 1))
    assert said_about(prefix) == []


def test_changed_missing_and_unlisted_prefixes_are_errors(prefix: Path) -> None:
    server = prefix / "bin" / "mysqld"
    bytes_before = server.read_bytes()
    server.write_bytes(bytes_before.replace(b"9.7.4", b"6.6.6"))
    with pytest.raises(SandboxError, match="checksum mismatch"):
        unpack.unpack(prefix, lambda _: None)
    server.unlink()
    with pytest.raises(SandboxError, match="checksum mismatch"):
        unpack.unpack(prefix, lambda _: None)
    (prefix / "manifest.json").write_text(json.dumps({"other": 1}))
    with pytest.raises(SandboxError, match="not unpacked by us"):
        unpack.unpack(prefix, lambda _: None)


def test_what_a_killed_unpacking_left_is_removed(tools: Path, tmp_path: Path) -> None:
    left = tmp_path / "cache" / "mysql.new-killed"
    left.mkdir(parents=True)
    program(tools / "dpkg", "riscv64")
    refused(tmp_path / "cache" / "mysql")
    assert not left.exists()
