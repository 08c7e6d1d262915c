"""Where the files of one run lie: a folder of our own, readable by nobody else, which a restart finds again.

Socket paths may hold about a hundred bytes, so the folder's name is short; the flag file's name says schema, table and
rollout, so that no two runs can share one and a person sees whose it is.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import shutil
import signal
import stat
import tempfile
import time
from pathlib import Path

from msgspec import Struct

from orchestrator.errors import ConfigurationError
from orchestrator.model.contract import TableName

_LONGEST_SOCKET_BYTES = 100
_GONE_WITHIN_S = 5.0
USER, PASSWORD = "ROLLOUT_GH_OST_USER", "ROLLOUT_GH_OST_PASSWORD"
# gh-ost takes both from the environment, so that no character of either can be read as something else.
_CONF = f"[client]\nuser=${{{USER}}}\npassword=${{{PASSWORD}}}\n"


class Place(Struct, frozen=True):
    folder: Path
    flag_name: str

    @property
    def conf(self) -> Path:
        return self.folder / "conf"

    @property
    def socket(self) -> Path:
        return self.folder / "sock"

    @property
    def flag(self) -> Path:
        """While it lies there the cut-over is postponed. Made before the start, and gone only with the folder."""
        return self.folder / self.flag_name

    @property
    def out(self) -> Path:
        return self.folder / "out"

    @property
    def err(self) -> Path:
        return self.folder / "err"

    @property
    def _note(self) -> Path:
        return self.folder / "run.json"

    def make(self) -> None:
        """An empty folder with the conf and the flag. Raises ConfigurationError when it cannot be ours alone."""
        try:
            self.folder.parent.mkdir(mode=0o700, exist_ok=True)
            for folder in (self.folder.parent, self.folder):
                folder.mkdir(mode=0o700, exist_ok=True)
                found = folder.lstat()
                if not stat.S_ISDIR(found.st_mode) or found.st_uid != os.geteuid() or found.st_mode & 0o077:
                    raise PermissionError(f"{folder} belongs to somebody else, or others may look into it")
            self.flag.touch(mode=0o600)
            self._note.write_text("{}")
            conf = os.open(self.conf, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
            with os.fdopen(conf, "w") as file:
                file.write(_CONF)
        except OSError as error:
            raise ConfigurationError(
                f"the files of gh-ost cannot be laid down: {error}",
                "a folder for temporary files in which we may make one of our own",
                "mend that, or name another with TMPDIR",
            ) from error

    def forget_conf(self) -> None:
        """gh-ost reads it once, at its start."""
        self.conf.unlink(missing_ok=True)

    def note_process(self, pid: int) -> None:
        self._note.write_text(json.dumps({"pid": pid}))

    @property
    def said(self) -> str:
        """Whose files lie here; "" when there are none."""
        if not self._note.exists():
            return ""
        pid, held = self._noted(), "socket and files" if self.socket.exists() else "files"
        return f"{held} of a process that never began" if pid is None else f"{held} of the process {pid}"

    def settle(self) -> None:
        """The process that was noted is ended when it is still that one."""
        if (pid := self._noted()) is not None and self._is_ours(pid):
            end_group(pid)

    def clear(self) -> None:
        """As ``settle``, and the folder is gone."""
        self.settle()
        shutil.rmtree(self.folder, ignore_errors=True)
        try:
            self.folder.parent.rmdir()
        except OSError:
            return  # another rollout's run lies there, or nothing ever did

    def _noted(self) -> int | None:
        try:
            return int(json.loads(self._note.read_text())["pid"])
        except (OSError, ValueError, KeyError):
            return None

    def _is_ours(self, pid: int) -> bool:
        """Process ids are used again: only one that was called with a path of this folder is meant."""
        try:
            return os.fsencode(str(self.folder)) in Path(f"/proc/{pid}/cmdline").read_bytes()
        except OSError:
            return False


def place(rollout: str, server: str, table: TableName) -> Place:
    """The place of a rollout's run on one table of one server (``server``: its host and port)."""
    mark = hashlib.sha256("\0".join((rollout, server, str(table))).encode()).hexdigest()[:12]
    name = f"rollout-gh-ost-{os.geteuid()}"
    parent = Path(tempfile.gettempdir()) / name
    if len(os.fsencode(parent)) + 1 + len(mark) + len("/sock") > _LONGEST_SOCKET_BYTES:
        parent = Path("/tmp") / name
    words = (re.sub(r"[^A-Za-z0-9_-]", "_", w)[:60] for w in (table.schema, table.name, rollout))
    return Place(parent / mark, ".".join(("postpone-cut-over", *words)))


def end_group(pid: int) -> None:
    """The whole process group is gone, whatever it does; each run leads a group of its own."""
    until = time.monotonic() + _GONE_WITHIN_S
    while time.monotonic() < until:
        try:
            os.killpg(pid, signal.SIGKILL)
        except ProcessLookupError:
            return
        except PermissionError:
            return  # only zombies of another parent are left of it
        if all(_is_zombie(p) for p in _members(pid)):
            return
        time.sleep(0.01)


def _members(group: int) -> list[str]:
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdecimal():
            fields = _stat(entry.name)
            if len(fields) > 2 and fields[2] == str(group):
                found.append(entry.name)
    return found


def _is_zombie(pid: str) -> bool:
    return _stat(pid)[:1] in ([], ["Z"])


def _stat(pid: str) -> list[str]:
    """The fields of /proc/PID/stat behind the name: state, parent, group, …; empty when it is gone."""
    try:
        return Path(f"/proc/{pid}/stat").read_text(errors="replace").rpartition(")")[2].split()
    except OSError:
        return []
