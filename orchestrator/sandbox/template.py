"""An initialised data folder with the sandbox's accounts, made once for each server version and copied from then on."""

from __future__ import annotations

import hashlib
import os
import shutil
import tempfile
from pathlib import Path

import sh
from msgspec import Struct

from orchestrator.mysql.sql import applications as sql
from orchestrator.sandbox.mysqld import Mysqld
from orchestrator.sandbox.places import SandboxError, locked

_INITIALISE_TIMEOUT_S = 180
REDO_BYTES = 64 * 1024 * 1024


class Account(Struct, frozen=True):
    """An account of the sandbox. Its password is no secret: the servers listen on the loopback only."""

    user: str
    password: str
    grants: str


ROOT = Account("root", "", "ALL ON *.*")
OPERATOR = Account("rollout", "rollout", "ALL ON *.*")
APPLICATION = Account("app", "app", "SELECT, INSERT, UPDATE, DELETE, CREATE TEMPORARY TABLES, LOCK TABLES ON *.*")
REPLICATION = Account("repl", "repl", "REPLICATION SLAVE ON *.*")


def accounts_sql() -> str:
    """One statement a line, as ``--init-file`` wants it; every account is there for TCP and for the socket."""
    lines = []
    for account in (ROOT, OPERATOR, APPLICATION, REPLICATION):
        for host in ("127.0.0.1", "localhost"):
            made = sql.create_account(account.user, host, account.password, account.grants, grants_on=account is ROOT)
            lines += [f"{statement};" for statement in made]
    return "\n".join(lines) + "\n"


def template(mysqld: Mysqld, cache: Path) -> Path:
    """The template data folder for this server; initialised first (3 s) when it is not there. Never start it itself."""
    accounts = accounts_sql()
    mark = hashlib.sha256(accounts.encode()).hexdigest()[:8]
    folder = cache / f"template-{mysqld.version_text}-{mark}"
    if folder.is_dir():
        return folder
    with locked(cache / "template.lock"):
        if not folder.is_dir():
            _initialise(mysqld, folder, accounts)
    return folder


def copy_template(source: Path, datadir: Path) -> None:
    """``datadir`` is a whole copy with no identity yet (the server gives itself a UUID), or is not there."""
    stage = datadir.with_name(datadir.name + ".new")
    shutil.rmtree(stage, ignore_errors=True)
    try:
        shutil.copytree(source, stage)
        (stage / "auto.cnf").unlink(missing_ok=True)
        stage.rename(datadir)
    except OSError as error:
        shutil.rmtree(stage, ignore_errors=True)
        # copytree lists every file that failed; a full disk makes that a long list of one reason.
        seen = f"the data folder {datadir} could not be made: {str(error)[:200]}"
        raise SandboxError(seen, "a folder with 300 MiB free that we may write to", "name another folder") from error


def run_as() -> tuple[str, ...]:
    """mysqld refuses to run as root unless it is told to."""
    return ("--user=root",) if os.geteuid() == 0 else ()


def _initialise(mysqld: Mysqld, folder: Path, accounts: str) -> None:
    """Makes the template beside its place and moves it there when it is whole."""
    stage = Path(tempfile.mkdtemp(prefix="template.new-", dir=folder.parent))
    try:
        init_file = stage / "accounts.sql"
        init_file.write_text(accounts)
        sh.Command(str(mysqld.path))(
            "--no-defaults",
            "--initialize-insecure",
            *run_as(),
            f"--datadir={stage / 'data'}",
            f"--init-file={init_file}",
            f"--loose-innodb-redo-log-capacity={REDO_BYTES}",
            "--skip-log-bin",
            "--secure-file-priv=NULL",
            _timeout=_INITIALISE_TIMEOUT_S,
        )
        (stage / "data").rename(folder)
    except sh.ErrorReturnCode as error:
        lines = [line for line in error.stderr.decode(errors="replace").splitlines() if "[ERROR]" in line]
        seen = lines[0] if lines else f"exit {error.exit_code}"
        raise SandboxError(
            f"{mysqld.path} could not initialise a data folder: {seen}",
            "a server that may write there",
            "mend that, or set ROLLOUT_MYSQLD to another server",
        ) from error
    finally:
        shutil.rmtree(stage, ignore_errors=True)
