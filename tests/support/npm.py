"""Packages of npm that tests hold us to, each pinned by version and integrity, unpacked below ``.cache/npm`` only."""

from __future__ import annotations

import base64
import fcntl
import hashlib
import json
import os
import shutil
import subprocess
import tarfile
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parents[2]
PINS = ROOT / "tools" / "npm" / "packages.txt"
CACHE = Path(os.path.realpath(ROOT / ".cache")) / "npm"


def node() -> str:
    """The Node program; a test without one is skipped, saying so."""
    found = shutil.which("node")
    if found is None:
        pytest.skip("there is no node here: what the real programs of npm say is not compared")
    return found


@contextmanager
def asking(script: Path, name: str) -> Iterator[Callable[[dict[str, Any]], dict[str, Any]]]:
    """One Node process for many questions, a line of JSON each way. The script is given the package's folder."""
    command = [node(), str(script), str(package(name))]
    process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    def ask(question: dict[str, Any]) -> dict[str, Any]:
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdin.write(json.dumps(question) + "\n")
        process.stdin.flush()
        return dict(json.loads(process.stdout.readline()))

    try:
        yield ask
    finally:
        process.communicate(timeout=30)


def package(name: str) -> Path:
    """The folder of the unpacked package, fetched once. Skips when npm is missing; fails when the file is another."""
    version, integrity = _pinned(name)
    folder = CACHE / f"{name.replace('/', '+')}-{version}"
    CACHE.mkdir(parents=True, exist_ok=True)
    with (CACHE / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not folder.is_dir():
            _fetch(f"{name}@{version}", integrity, folder)
    return folder / "package"


def _pinned(name: str) -> tuple[str, str]:
    for line in PINS.read_text(encoding="utf-8").splitlines():
        words = line.split()
        if words[:1] == [name]:
            return words[1], words[2]
    raise LookupError(f"{name} is not in {PINS}")


def _fetch(wanted: str, integrity: str, folder: Path) -> None:
    npm = shutil.which("npm")
    if npm is None:
        pytest.skip("there is no npm here: what the real programs of npm say is not compared")
    with tempfile.TemporaryDirectory(dir=CACHE) as place:
        packed = subprocess.run(
            [npm, "pack", "--silent", "--pack-destination", place, wanted], capture_output=True, text=True, check=False
        )
        files = list(Path(place).glob("*.tgz"))
        if packed.returncode or len(files) != 1:
            pytest.skip(f"npm pack {wanted}: {packed.stderr.strip()[-300:]}")
        got = "sha512-" + base64.b64encode(hashlib.sha512(files[0].read_bytes()).digest()).decode()
        assert got == integrity, f"{wanted} is not the file that was pinned"
        opened = Path(place) / "opened"
        with tarfile.open(files[0]) as archive:
            archive.extractall(opened, [m for m in archive if not m.name.endswith(".map")], filter="data")
        opened.rename(folder)
