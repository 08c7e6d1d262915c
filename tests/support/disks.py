"""Small disks of their own, and how they get full. Where nobody may mount one, the test says so and is left out."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

from orchestrator.sandbox.server import Server


@contextmanager
def small_disk(place: Path, size_bytes: int) -> Iterator[Path]:
    """A disk of that size, in memory, at ``place``; gone afterwards, whoever still has files open there."""
    place.mkdir(exist_ok=True)
    mount = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", f"size={size_bytes}", "tmpfs", str(place)], capture_output=True, check=False
    )
    if mount.returncode:
        pytest.skip(f"no disk may be mounted here: {mount.stderr.decode().strip()}")
    try:
        yield place
    finally:
        subprocess.run(["umount", "-l", str(place)], check=False)


@contextmanager
def full(disk: Path, but_bytes: int = 0) -> Iterator[None]:
    """Not a byte is left, or ``but_bytes``."""
    filler = disk / "filler"
    with filler.open("wb", buffering=0) as file:
        with suppress(OSError):
            while file.write(b"\0" * 4096):
                pass
        file.truncate(max(0, file.tell() - but_bytes))
    try:
        yield
    finally:
        filler.unlink()


def binary_log_in(server: Server, folder: Path) -> None:
    """A server that is stopped writes its binary log there when it starts again."""
    for log in [*server.datadir.glob("binlog.*")]:
        shutil.move(log, folder / log.name)
    index = folder / "binlog.index"
    index.write_text("".join(f"{folder}/{Path(line).name}\n" for line in index.read_text().splitlines()))
    server.argv = (*server.argv, f"--log-bin={folder}/binlog")


@contextmanager
def data_on(server: Server, size_bytes: int) -> Iterator[Path]:
    """A server that is stopped has all its data on a disk of that size. Stop it before the end, or what is left of it
    goes with the disk."""
    before = server.datadir.with_name(f"{server.name}.was")
    server.datadir.rename(before)
    with small_disk(server.datadir, size_bytes) as disk:
        shutil.copytree(before, disk, dirs_exist_ok=True)
        shutil.rmtree(before)
        yield disk
