"""Finds a MySQL server to run on this machine, and unpacks one when there is none; says in one sentence why not.

Order: ``ROLLOUT_MYSQLD``, ``mysqld`` on PATH when it is MySQL 8.0.28 or newer, the cached prefix, a new unpack.
``python -m orchestrator.sandbox.mysqld`` prints the path.
"""

from __future__ import annotations

import os
import re
import shutil
import sys
from collections.abc import Callable, Mapping
from pathlib import Path

import sh
from msgspec import Struct

from orchestrator.errors import RolloutError
from orchestrator.sandbox import unpack
from orchestrator.sandbox.places import SandboxError, cache_folder

OLDEST = (8, 0, 28)
EXPECTED = "MySQL 8.0.28 or newer"
_VERSION = re.compile(r"\bVer (\d+)\.(\d+)\.(\d+)")
_VERSION_TIMEOUT_S = 30

Version = tuple[int, int, int]
Say = Callable[[str], None]


class Mysqld(Struct, frozen=True):
    """A server program that was asked for its version and is fit for use."""

    path: Path
    version: Version

    @property
    def version_text(self) -> str:
        """The version as people write it, e.g. ``9.7.4``."""
        return ".".join(map(str, self.version))


class Unfit(Struct, frozen=True):
    """A program that is there and cannot be used; ``seen`` is a phrase for a person."""

    path: Path
    seen: str


def judge_version(path: Path, text: str) -> Mysqld | Unfit:
    """Judges what ``mysqld --version`` printed: MariaDB, unreadable and too old versions are unfit."""
    if "mariadb" in text.lower():
        return Unfit(path, f"{path} is MariaDB ({text.strip()})")
    match = _VERSION.search(text)
    if match is None:
        return Unfit(path, f"{path} does not say a MySQL version ({text.strip()[:120]!r})")
    version = (int(match[1]), int(match[2]), int(match[3]))
    if version < OLDEST:
        return Unfit(path, f"{path} is MySQL {'.'.join(map(str, version))}")
    return Mysqld(path, version)


def ask_version(path: Path) -> Mysqld | Unfit:
    """Runs ``path --version`` and judges the answer; a program that does not run is unfit, never an exception."""
    try:
        text = str(sh.Command(str(path))("--version", _timeout=_VERSION_TIMEOUT_S))
    except sh.CommandNotFound:
        return Unfit(path, f"{path} is not a program that can be run")
    except sh.TimeoutException:
        return Unfit(path, f"{path} --version gave no answer in {_VERSION_TIMEOUT_S} s")
    except sh.ErrorReturnCode as error:
        words = error.stderr.decode(errors="replace").strip().splitlines()
        return Unfit(path, f"{path} --version fails with {error.exit_code}: {words[-1] if words else 'no message'}")
    except (sh.ForkException, OSError) as error:
        return Unfit(path, f"{path} cannot be run: {str(error).strip().splitlines()[-1]}")
    return judge_version(path, text)


def find_mysqld(
    env: Mapping[str, str] | None = None,
    cache: Path | None = None,
    unpacker: Callable[[Path, Say], None] = unpack.unpack,
    say: Say = lambda _: None,
) -> Mysqld:
    """A MySQL server that runs here. Unpacks one into ``cache`` when nothing else is there (65 MB, 10 to 20 s).

    ``ROLLOUT_MYSQLD`` is an order, not a hint: when it is unfit nothing else is tried.
    Raises SandboxError; nothing is left half unpacked.
    """
    env = os.environ if env is None else env
    ordered = env.get("ROLLOUT_MYSQLD")
    if ordered:
        found = ask_version(Path(ordered).expanduser().absolute())
        if isinstance(found, Unfit):
            raise SandboxError(
                f"ROLLOUT_MYSQLD: {found.seen}", EXPECTED, "point ROLLOUT_MYSQLD at a MySQL server, or unset it"
            )
        return found
    on_path = shutil.which("mysqld", path=env.get("PATH", os.defpath))
    passed_over = None
    if on_path is not None:
        found = ask_version(Path(on_path).absolute())
        if isinstance(found, Mysqld):
            return found
        passed_over = found
    return _from_prefix((cache or cache_folder()) / "mysql", passed_over, unpacker, say)


def _from_prefix(prefix: Path, passed_over: Unfit | None, unpacker: Callable[[Path, Say], None], say: Say) -> Mysqld:
    """The server of the cached prefix, unpacked first when it is not there."""
    try:
        unpacker(prefix, say)
    except SandboxError as error:
        if passed_over is None:
            raise
        seen = f"the mysqld on PATH does not serve ({passed_over.seen}), and none could be unpacked: {error.seen}"
        raise SandboxError(seen, EXPECTED, error.next) from error
    found = ask_version(prefix / "bin" / "mysqld")
    if isinstance(found, Unfit):
        raise SandboxError(found.seen, EXPECTED, f"remove {prefix} and try again, or set ROLLOUT_MYSQLD")
    return found


def main() -> int:
    """Prints the path of the server on stdout; an error goes to stderr in three lines, with its exit code."""
    try:
        found = find_mysqld(say=lambda words: print(words, file=sys.stderr))
    except RolloutError as error:
        sys.stderr.write(f"{error.code}: {error.seen}\n  expected: {error.expected}\n  next: {error.next}\n")
        return int(error.exit_code)
    sys.stdout.write(f"{found.path}\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
