"""One throwaway mysqld: started in a session of its own, found again by its data folder, ended by its own pid only."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import time
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

from msgspec import Struct

from orchestrator.sandbox.places import SandboxError

HOST = "127.0.0.1"
READY_S = 90.0
_POLL_S = 0.02
_PROTOCOL = 10


class Server(Struct):
    """A server of a pair. ``pid`` is the last one that we know of and may be gone; ``alive`` asks the machine."""

    name: str
    host: str
    port: int
    socket: Path
    datadir: Path
    pid: int
    argv: tuple[str, ...]
    _process: subprocess.Popen[bytes] | None = None

    @property
    def log(self) -> Path:
        """The server's error log."""
        return self.datadir.with_name(f"{self.name}.log")

    @property
    def pid_file(self) -> Path:
        """Where the pid is written, by us at the start and by the server when it is up."""
        return self.datadir.with_name(f"{self.name}.pid")

    def start(self, init_file: Path | None = None) -> None:
        """Starts the process and returns at once; nothing happens when it runs already. See ``wait_ready``."""
        if self.alive():
            return
        # After a crash the lock beside the socket names a pid that may belong to somebody else by now.
        self.socket.with_name(f"{self.socket.name}.lock").unlink(missing_ok=True)
        extra = () if init_file is None else (f"--init-file={init_file}",)
        with self.log.open("ab") as log:
            # A session of its own: Ctrl-C in the operator's terminal must not reach the server.
            process = subprocess.Popen(
                [*self.argv, *extra], stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True
            )
        self._process = process
        self.pid = process.pid
        self.pid_file.write_text(f"{process.pid}\n")

    def alive(self) -> bool:
        """Whether a server of this data folder runs; ``pid`` is its pid then, also when another process started it.

        A pid that by now is another program's does not count.
        """
        if self._process is not None:
            if self._process.poll() is None:
                return True
            self._process, self.pid = None, 0
        if self._is_ours(self.pid):
            return True
        started = read_pid(self.pid_file)
        if not self._is_ours(started):
            return False
        self._process, self.pid = None, started
        return True

    def wait_ready(self, deadline_s: float = READY_S) -> None:
        """Returns when the server greets; raises SandboxError when it ends or takes longer than ``deadline_s``."""
        end = time.monotonic() + deadline_s
        while not self._greets():
            if not self.alive():
                raise SandboxError(
                    f"the {self.name} ended while it started: {self.last_words()}",
                    "a running server",
                    f"see {self.log}",
                )
            if time.monotonic() > end:
                raise SandboxError(
                    f"the {self.name} did not answer within {deadline_s:.0f} s", "a running server", f"see {self.log}"
                )
            time.sleep(_POLL_S)

    def kill9(self) -> None:
        """SIGKILL, and waits until the process is gone: a crash. Nothing happens when it does not run."""
        if self.alive():
            os.kill(self.pid, signal.SIGKILL)
            self._wait_gone(30.0)
        self.pid_file.unlink(missing_ok=True)

    def stop(self, grace_s: float = 3.0) -> None:
        """SIGTERM, then SIGKILL after ``grace_s``; the process is gone afterwards.

        A primary takes up to 10 s to end by itself (it waits for its dump thread); its data is safe either way.
        """
        if grace_s > 0 and self.alive():
            os.kill(self.pid, signal.SIGTERM)
            self._wait_gone(grace_s)
        self.kill9()

    def restart(self, deadline_s: float = READY_S) -> None:
        """Runs and greets afterwards, with a new pid, on the same data and port; a running one is stopped first."""
        self.stop()
        self.start()
        self.wait_ready(deadline_s)

    def last_words(self) -> str:
        """The first error that the log shows since the last start (what follows it is its echo), for a person."""
        try:
            text = self.log.read_text(errors="replace")
        except OSError:
            return "it left no log"
        lines = text.rpartition("MySQL Server - start.")[2].splitlines()
        errors = [line for line in lines if "[ERROR]" in line]
        return (errors[:1] or lines[-1:] or ["it left an empty log"])[0].strip()

    def _greets(self) -> bool:
        """Whether the server sends a greeting on its socket, which it does only when start and init file are over."""
        try:
            with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as link:
                link.settimeout(2.0)
                link.connect(str(self.socket))
                greeting = link.recv(5)
        except OSError:
            return False
        return len(greeting) == 5 and greeting[4] == _PROTOCOL

    def _is_ours(self, pid: int) -> bool:
        return pid > 0 and f"--datadir={self.datadir}" in _command_line(pid)

    def _wait_gone(self, deadline_s: float) -> None:
        """Waits until the process has let go of its files, which is later than its losing its command line."""
        if self._process is not None:
            with suppress(subprocess.TimeoutExpired):
                self._process.wait(deadline_s)
            return
        end = time.monotonic() + deadline_s
        while _holds_files(self.pid) and time.monotonic() < end:
            time.sleep(_POLL_S)


def read_pid(path: Path) -> int:
    """The pid in a pid file; 0 when there is none."""
    try:
        return int(path.read_text())
    except (OSError, ValueError):
        return 0


def _command_line(pid: int) -> Sequence[str]:
    """The arguments of a process; empty when it is gone or waits to be reaped."""
    for _ in range(50):
        try:
            arguments = Path(f"/proc/{pid}/cmdline").read_bytes()
        except OSError:
            return ()
        # Between two programs of one process (the wrapper's exec) there are none for a moment.
        if arguments or not _holds_files(pid):
            return arguments.decode(errors="replace").split("\0")
        time.sleep(0.005)
    return ()


def _holds_files(pid: int) -> bool:
    """False when the process is gone or only waits to be reaped by its parent."""
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
        # The first thread is a zombie already while the others still end, and they hold the files.
        threads = sum(1 for _ in Path(f"/proc/{pid}/task").iterdir())
    except OSError:
        return False
    return state not in ("Z", "X") or threads > 1
