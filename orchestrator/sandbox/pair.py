"""A throwaway primary and replica in one folder: GTIDs, row events, durable as in production, small in memory."""

from __future__ import annotations

import json
import shutil
import socket
import tempfile
from pathlib import Path

from msgspec import Struct

from orchestrator.sandbox.mysqld import Mysqld, find_mysqld
from orchestrator.sandbox.places import SandboxError, cache_folder
from orchestrator.sandbox.server import HOST, Server, read_pid
from orchestrator.sandbox.template import REDO_BYTES, REPLICATION, copy_template, run_as, template

STATE_FILE = "sandbox.json"
_FORMAT = 1
# sockaddr_un holds 108 bytes with the closing zero; mysqld adds ".lock" to the name for a file of its own.
_SOCKET_BYTES = 100
_PORT_TRIES = 5


class Pair(Struct):
    """Two servers that we started. ``socket_folder`` is set when the folder's own path is too long for a socket."""

    primary: Server
    replica: Server
    folder: Path
    socket_folder: Path | None = None

    def alive(self) -> bool:
        """Whether any of the two runs."""
        return self.primary.alive() or self.replica.alive()

    def stop(self, grace_s: float = 3.0) -> None:
        """Both are gone afterwards, replica first; the data stays. Only processes of this pair are ended.

        ``grace_s`` is what each gets to end by itself before SIGKILL; 0 kills at once (committed data is safe).
        """
        self.replica.stop(grace_s)
        self.primary.stop(grace_s)
        if self.socket_folder is not None:
            shutil.rmtree(self.socket_folder, ignore_errors=True)

    def remove(self) -> None:
        """Stops both at once and removes all that ``start_pair`` made; a folder with files of others in it stays."""
        self.stop(grace_s=0)
        for server in (self.replica, self.primary):
            shutil.rmtree(server.datadir, ignore_errors=True)
            for left in self.folder.glob(f"{server.name}.*"):
                left.unlink(missing_ok=True)
        (self.folder / STATE_FILE).unlink(missing_ok=True)
        if not any(self.folder.iterdir()):
            self.folder.rmdir()


def start_pair(folder: Path, port: int | None = None, mysqld: Mysqld | None = None) -> Pair:
    """A running primary on ``port`` and a replica on ``port + 1`` (free ones when None), replicating, in 3 to 5 s.

    A folder whose servers were stopped is started again with its data and ports. Accounts: ``template.OPERATOR``,
    ``APPLICATION``, ``ROOT`` (no password). Raises SandboxError, and then nothing runs that did not run before.
    """
    folder = folder.resolve()
    if (folder / STATE_FILE).exists():
        return _start_again(load(folder))
    mysqld = mysqld or find_mysqld()
    source = template(mysqld, cache_folder())
    folder.mkdir(parents=True, exist_ok=True)
    tries = 1 if port is not None else _PORT_TRIES
    for last in (n == tries - 1 for n in range(tries)):
        pair = _lay_out(folder, free_ports() if port is None else port, mysqld, source)
        try:
            _first_start(pair)
        except BaseException as error:
            # Somebody took the port between our look and the start: that is worth another port, nothing else is.
            taken = isinstance(error, SandboxError) and "Bind on TCP/IP port" in error.seen
            pair.remove()
            if last or not taken:
                raise
        else:
            return pair
    raise AssertionError("unreachable: the last try returns or raises")


def load(folder: Path) -> Pair:
    """The pair of ``folder``, whoever started it, running or not. Raises SandboxError when none was."""
    folder = folder.resolve()
    again = "rollout sandbox up"
    try:
        state = json.loads((folder / STATE_FILE).read_text())
    except FileNotFoundError as error:
        raise SandboxError(f"there is no sandbox in {folder}", STATE_FILE, again) from error
    except (OSError, ValueError) as error:
        raise SandboxError(f"{folder / STATE_FILE} cannot be read: {error}", "a sandbox's state", again) from error
    if state.get("format") != _FORMAT:
        raise SandboxError(f"{folder} has a sandbox of form {state.get('format')}", f"form {_FORMAT}", again)
    servers = []
    for name in ("primary", "replica"):
        known = state[name]
        pid = read_pid(folder / f"{name}.pid")
        argv = tuple(known["argv"])
        servers.append(Server(name, HOST, known["port"], Path(known["socket"]), folder / name, pid, argv))
    extra = state["socket_folder"]
    return Pair(servers[0], servers[1], folder, None if extra is None else Path(extra))


def free_ports() -> int:
    """A port P such that P and P + 1 were free on the loopback a moment ago."""
    for _ in range(200):
        with socket.socket() as first, socket.socket() as second:
            first.bind((HOST, 0))
            port = int(first.getsockname()[1])
            try:
                second.bind((HOST, port + 1))
            except (OSError, OverflowError):
                continue
            return port
    raise SandboxError("no two free ports in a row on the loopback", "two ports", "name one with --port")


def _lay_out(folder: Path, port: int, mysqld: Mysqld, source: Path) -> Pair:
    """Data folders and the state file; nothing runs yet."""
    sockets, extra = folder, None
    if len(str(folder / "primary.sock").encode()) > _SOCKET_BYTES:
        sockets = extra = Path(tempfile.mkdtemp(prefix="rollout-", dir="/tmp"))  # $TMPDIR may be as long
    servers = []
    for offset, name in enumerate(("primary", "replica")):
        datadir = folder / name
        if not datadir.exists():
            copy_template(source, datadir)
        server = Server(name, HOST, port + offset, sockets / f"{name}.sock", datadir, 0, ())
        server.argv = (str(mysqld.path), *_options(server))
        servers.append(server)
    state = {"format": _FORMAT, "mysqld": str(mysqld.path), "version": mysqld.version_text, "folder": str(folder)}
    state |= {s.name: {"port": s.port, "socket": str(s.socket), "argv": s.argv} for s in servers}
    state["socket_folder"] = None if extra is None else str(extra)
    stage = folder / f"{STATE_FILE}.new"
    stage.write_text(json.dumps(state, indent=1) + "\n")
    stage.rename(folder / STATE_FILE)
    return Pair(servers[0], servers[1], folder, extra)


def _options(server: Server) -> tuple[str, ...]:
    """The server's settings: production's durability and instruments, a test's memory."""
    options = (
        "--no-defaults",
        *run_as(),
        f"--datadir={server.datadir}",
        f"--socket={server.socket}",
        f"--port={server.port}",
        f"--server-id={server.port}",
        f"--pid-file={server.pid_file}",
        f"--log-error={server.log}",
        f"--bind-address={HOST}",
        f"--report-host={HOST}",
        f"--report-port={server.port}",
        "--mysqlx=OFF",
        "--secure-file-priv=NULL",
        "--gtid-mode=ON",
        "--enforce-gtid-consistency=ON",
        "--log-bin=binlog",
        "--relay-log=relay",
        "--binlog-format=ROW",
        "--binlog-row-image=FULL",
        "--sync-binlog=1",
        "--innodb-flush-log-at-trx-commit=1",
        "--performance-schema=ON",
        "--innodb-buffer-pool-size=256M",
        f"--loose-innodb-redo-log-capacity={REDO_BYTES}",
    )
    if server.name == "replica":
        options += (
            "--replica-parallel-workers=4",
            "--replica-preserve-commit-order=ON",
            "--super-read-only=ON",
        )
    return options


def _first_start(pair: Pair) -> None:
    """Starts both at once; the replica is told its source by a file that only we can read, and that is then removed."""
    link = pair.folder / "replica.link.sql"
    link.touch(mode=0o600)
    link.write_text(
        f"CHANGE REPLICATION SOURCE TO SOURCE_HOST='{HOST}', SOURCE_PORT={pair.primary.port}, "
        f"SOURCE_USER='{REPLICATION.user}', SOURCE_PASSWORD='{REPLICATION.password}', SOURCE_AUTO_POSITION=1, "
        "SOURCE_CONNECT_RETRY=1, SOURCE_RETRY_COUNT=86400, GET_SOURCE_PUBLIC_KEY=1;\nSTART REPLICA;\n"
    )
    pair.primary.start()
    pair.replica.start(init_file=link)
    pair.primary.wait_ready()
    pair.replica.wait_ready()
    link.unlink()


def _start_again(pair: Pair) -> Pair:
    """Starts what does not run of a pair that was there before."""
    if pair.primary.alive() and pair.replica.alive():
        raise SandboxError(
            f"a sandbox runs in {pair.folder} already", "a free folder", "rollout sandbox down, or use it"
        )
    if pair.socket_folder is not None:
        pair.socket_folder.mkdir(mode=0o700, exist_ok=True)
    try:
        for server in (pair.primary, pair.replica):
            server.start()
        for server in (pair.primary, pair.replica):
            server.wait_ready()
    except BaseException:
        pair.stop()
        raise
    return pair
