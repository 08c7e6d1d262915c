"""Unpacks Debian's MySQL server into a folder of ours, with apt's signatures but nothing of it in the system.

The packages of the unstable suite need a newer libc than a stable system has, so they and all they depend on are
downloaded with an apt state of our own and started through the loader that comes with them.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import shutil
import tempfile
from collections.abc import Callable
from pathlib import Path

import sh
from msgspec import Struct

from orchestrator.sandbox.places import SandboxError, locked

NEEDED_BYTES = 700 * 1024 * 1024
_SUITE = "sid"
_PACKAGES = ("mysql-server-core", "mysql-client-core")
_PROGRAMS = ("sbin/mysqld", "bin/mysql", "bin/mysqladmin", "bin/mysqlbinlog", "bin/mysqldump")
_MANIFEST = "manifest.json"
_KEYRINGS = ("debian-archive-keyring.pgp", "debian-archive-keyring.gpg")
_OTHERWISE = "install MySQL 8.0.28 or newer yourself and set ROLLOUT_MYSQLD to its mysqld"


class _Machine(Struct, frozen=True):
    """How a Debian architecture names its folders."""

    triplet: str
    loader: str


_MACHINES = {
    "amd64": _Machine("x86_64-linux-gnu", "ld-linux-x86-64.so.2"),
    "arm64": _Machine("aarch64-linux-gnu", "ld-linux-aarch64.so.1"),
}

_WRAPPER = """#!/bin/sh
root=$(cd -P "$(dirname "$0")/../root" && pwd) || exit 127
libraries=$root/usr/lib/{triplet}
exec "$libraries/{loader}" --library-path "$libraries" "$root/usr/{program}" "$@"{extra}
"""
# These must follow --no-defaults, which must be first, so they come last.
_SERVER_EXTRA = (
    ' "--basedir=$root/usr" "--lc-messages-dir=$root/usr/share/mysql" "--plugin-dir=$root/usr/lib/mysql/plugin"'
)


def unpack(prefix: Path, say: Callable[[str], None]) -> None:
    """Afterwards ``prefix/bin/mysqld`` runs and is byte for byte what was unpacked; at once when it is there already.

    Two callers do not unpack twice; one that is killed leaves only a folder that the next one removes.
    Raises SandboxError when it cannot be done; an existing prefix is never changed.
    """
    if prefix.exists():
        _verify(prefix)
        return
    with locked(prefix.with_name(prefix.name + ".lock")):
        if prefix.exists():
            return
        for old in prefix.parent.glob(prefix.name + ".new-*"):
            shutil.rmtree(old, ignore_errors=True)
        machine = _require_machine(prefix.parent)
        source = _require_source()
        say("no MySQL server here yet: downloading and unpacking one (65 MB, once)")
        stage = Path(tempfile.mkdtemp(prefix=prefix.name + ".new-", dir=prefix.parent))
        try:
            _download(stage / "apt", source)
            _lay_out(stage, machine)
            sh.Command(str(stage / "bin" / "mysqld"))("--version")
            _write_manifest(stage)
            stage.chmod(0o755)
            stage.rename(prefix)
        except (sh.ErrorReturnCode, OSError) as error:
            raise SandboxError(
                f"the packages could not be unpacked, or do not run here: {_last_line(error)}",
                f"room in {prefix.parent}, and packages that run on this machine",
                _OTHERWISE,
            ) from error
        finally:
            shutil.rmtree(stage, ignore_errors=True)


def _last_line(error: Exception) -> str:
    """The last line that a failed program or call said."""
    words = error.stderr.decode(errors="replace") if isinstance(error, sh.ErrorReturnCode) else str(error)
    return (words.strip().splitlines() or ["no message"])[-1]


def _require_machine(folder: Path) -> _Machine:
    """The machine's architecture, when apt, dpkg and enough room are there."""
    for program in ("apt-get", "dpkg"):
        if shutil.which(program) is None:
            raise SandboxError(f"there is no {program} here, so no server can be unpacked", "Debian's apt", _OTHERWISE)
    architecture = str(sh.Command("dpkg")("--print-architecture")).strip()
    machine = _MACHINES.get(architecture)
    if machine is None:
        raise SandboxError(f"this machine is {architecture}", " or ".join(_MACHINES), _OTHERWISE)
    free = shutil.disk_usage(folder).free
    if free < NEEDED_BYTES:
        raise SandboxError(
            f"{folder} has {free // 2**20} MiB free", f"{NEEDED_BYTES // 2**20} MiB", f"make room, or {_OTHERWISE}"
        )
    return machine


def _require_source() -> str:
    """apt's source text for the suite: the mirror that this machine is set up for, and Debian's own keys."""
    uris = str(sh.Command("apt-get")("indextargets", "--format", "$(REPO_URI)")).split()
    mirrors = [uri for uri in uris if re.search(r"/debian/?$", uri)]
    if not mirrors:
        raise SandboxError(
            "apt is set up here without a Debian mirror", "a source whose address ends in /debian", _OTHERWISE
        )
    keyring = next((k for name in _KEYRINGS if (k := Path("/usr/share/keyrings") / name).exists()), None)
    if keyring is None:
        raise SandboxError(
            "Debian's keys are not here, so a download could not be trusted",
            f"/usr/share/keyrings/{_KEYRINGS[0]}",
            f"install debian-archive-keyring, or {_OTHERWISE}",
        )
    return f"Types: deb\nURIs: {mirrors[0]}\nSuites: {_SUITE}\nComponents: main\nSigned-By: {keyring}\n"


def _download(work: Path, source: str) -> None:
    """Fetches the packages and all they need into ``work/cache/archives``; apt checks signatures and checksums."""
    for folder in ("lists/partial", "cache/archives/partial"):
        (work / folder).mkdir(parents=True)
    (work / "status").touch()
    (work / "suite.sources").write_text(source)
    settings = {
        "Dir::Etc::sourcelist": work / "suite.sources",
        "Dir::Etc::sourceparts": "/dev/null",
        "Dir::State::lists": work / "lists",
        "Dir::State::status": work / "status",
        "Dir::Cache": work / "cache",
        "Debug::NoLocking": 1,
        "APT::Sandbox::User": "root",
        "Acquire::Languages": "none",
    }
    options = [part for name, value in settings.items() for part in ("-o", f"{name}={value}")]
    apt = sh.Command("apt-get").bake(*options, "-qy", _env={**os.environ, "LC_ALL": "C"})
    try:
        apt("update", "--error-on=any")
        apt("install", "--no-install-recommends", "--download-only", *_PACKAGES)
    except sh.ErrorReturnCode as error:
        raise _explain(error.stderr.decode(errors="replace") + error.stdout.decode(errors="replace")) from error


def _explain(output: str) -> SandboxError:
    """What apt's words mean for a person."""
    complaints = [line for line in output.splitlines() if line.startswith(("E:", "W:", "Err:"))]
    # A mirror's address is the machine's business and is kept out of messages that end up in logs.
    seen = re.sub(r"\w+://\S+", "the mirror", complaints[0] if complaints else output.strip()[-200:])
    if "Hash Sum mismatch" in output or "is not signed" in output or "NO_PUBKEY" in output:
        return SandboxError(
            f"a download is not what its signature promises: {seen}", "matching checksums", "try again later"
        )
    if "enough free space" in output or "No space left" in output:
        return SandboxError(f"no room for the download: {seen}", f"{NEEDED_BYTES // 2**20} MiB free", "make room")
    if "Unable to locate package" in output or "unmet dependencies" in output:
        return SandboxError(f"the mirror has no usable MySQL now: {seen}", " and ".join(_PACKAGES), _OTHERWISE)
    return SandboxError(f"the mirror cannot be used: {seen}", f"a mirror with the {_SUITE} suite", _OTHERWISE)


def _lay_out(stage: Path, machine: _Machine) -> None:
    """Turns the downloaded packages into ``root`` and ``bin`` and drops what a server does not need."""
    whole = stage / "whole"
    whole.mkdir()
    for package in sorted((stage / "apt" / "cache" / "archives").glob("*.deb")):
        sh.Command("dpkg")("-x", str(package), str(whole))
    libraries = f"usr/lib/{machine.triplet}"
    shutil.rmtree(whole / libraries / "perl", ignore_errors=True)
    kept = (libraries, "usr/lib/mysql/plugin", "usr/share/mysql", *(f"usr/{p}" for p in _PROGRAMS))
    for part in kept:
        target = stage / "root" / part
        target.parent.mkdir(parents=True, exist_ok=True)
        (whole / part).rename(target)
    shutil.rmtree(stage / "apt")
    shutil.rmtree(whole)
    (stage / "bin").mkdir()
    for program in _PROGRAMS:
        wrapper = stage / "bin" / Path(program).name
        extra = _SERVER_EXTRA if program == "sbin/mysqld" else ""
        wrapper.write_text(
            _WRAPPER.format(loader=machine.loader, triplet=machine.triplet, program=program, extra=extra)
        )
        wrapper.chmod(0o755)


def _write_manifest(stage: Path) -> None:
    """Records size, time and SHA-256 of every file, so that a later start can tell whether they are still the same."""
    files = {}
    for path in sorted(p for p in stage.rglob("*") if p.is_file() and not p.is_symlink()):
        stat = path.stat()
        files[str(path.relative_to(stage))] = [stat.st_size, stat.st_mtime_ns, _sha256(path)]
    (stage / _MANIFEST).write_text(json.dumps({"packages": _PACKAGES, "files": files}, indent=1) + "\n")


def _verify(prefix: Path) -> None:
    """Every file is as unpacked. Cheap: only a file whose size or time differs is read (milliseconds)."""
    again = f"remove {prefix} and try again"
    try:
        files = json.loads((prefix / _MANIFEST).read_text())["files"]
    except (OSError, ValueError, KeyError) as error:
        raise SandboxError(f"{prefix} was not unpacked by us, or is damaged", "its manifest", again) from error
    for name, (size, mtime_ns, digest) in files.items():
        path = prefix / name
        try:
            stat = path.stat()
            same = stat.st_size == size and (stat.st_mtime_ns == mtime_ns or _sha256(path) == digest)
        except OSError:
            same = False
        if not same:
            raise SandboxError(f"{path} is not what was unpacked (checksum mismatch)", f"SHA-256 {digest}", again)


def _sha256(path: Path) -> str:
    """The SHA-256 of a file's bytes, in hex."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
