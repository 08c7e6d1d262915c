"""The flag definition file of flagd (OpenFeature): readers by ``fractional`` targeting, new writes as a plain flag.

The file is ours alone: it names its rollout, its epoch and a version that counts. It is written beside and renamed, so
that a reader sees the old document or the new one, never half of one; writers of one machine take turns.
"""

from __future__ import annotations

import fcntl
import json
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from orchestrator.drivers.reads.board import BoardFailed, Shown
from orchestrator.whole_file import write_whole

_SCHEMA = "https://flagd.dev/schema/v0/flags.json"
_MOST_BYTES = 1 << 20
_TURN_POLL_S = 0.02


def flag_names(rollout: str) -> tuple[str, str]:
    """Keys of the two flags: whether new columns may be written, and whether an entity is read by them."""
    return f"{rollout}-new-writes", f"{rollout}-reads-new"


def document(rollout: str, stamp: tuple[int, int], shown: Shown) -> dict[str, Any]:
    """The whole file. ``stamp``: epoch and version. An application gives the row's key as ``targetingKey``; the same
    key stays on the same side while the percent rises, because flagd cuts one line of buckets at the percent."""
    new_writes, percent = shown
    writes, reads = flag_names(rollout)
    split: dict[str, Any] = {}
    if 0 < percent < 100:
        seed = {"cat": [{"var": "$flagd.flagKey"}, {"var": "targetingKey"}]}
        split = {"targeting": {"fractional": [seed, ["on", percent], ["off", 100 - percent]]}}
    return {
        "$schema": _SCHEMA,
        "metadata": {"rollout": rollout, "epoch": stamp[0], "version": stamp[1], "readPercent": percent},
        "flags": {writes: _flag(on=new_writes), reads: _flag(on=percent >= 100) | split},
    }


def _flag(*, on: bool) -> dict[str, Any]:
    return {"state": "ENABLED", "variants": {"on": True, "off": False}, "defaultVariant": "on" if on else "off"}


class FlagdFile:
    """Implements Board. ``turn_s``: how long another writer of this machine is waited for: one that was stopped, or
    that waits for its disk, must not keep the flag row from being lowered."""

    def __init__(self, path: Path, rollout: str, *, turn_s: float = 5.0) -> None:
        self._path = path
        self._rollout = rollout
        self._turn_s = turn_s

    @property
    def name(self) -> str:
        return f"the flagd file {self._path}"

    def show(self, epoch: int, shown: Shown) -> str:
        with self._alone():
            lowers = shown == (False, 0)
            stands = self._read(whole=not lowers)
            before, version = (stands["metadata"]["epoch"], stands["metadata"]["version"]) if stands else (0, 0)
            if not lowers:
                _refuse_older(epoch, before)
            self._write(document(self._rollout, (max(epoch, before), version + 1), shown))
        return ""

    def seen(self) -> Shown:
        stands = self._read()
        if stands is None:
            return False, 0
        writes, _ = flag_names(self._rollout)
        return stands["flags"][writes]["defaultVariant"] == "on", stands["metadata"]["readPercent"]

    def describe(self, shown: Shown) -> str:
        return f"-- {self._path} is written anew: new writes {'on' if shown[0] else 'off'}, readers {shown[1]} %"

    def by_hand(self, shown: Shown) -> str:
        return f"rollout abort writes it; or write defaultVariant {'on' if shown[0] else 'off'} for both flags"

    def clear(self, epoch: int) -> None:
        if self._read() is None:
            return
        with self._alone():
            stands = self._read()
            if stands is None:
                return
            if _shown_in(stands) != (False, 0):
                _refuse_older(epoch, stands["metadata"]["epoch"])
            try:
                self._path.unlink()
            except OSError as error:
                raise BoardFailed(f"it cannot be removed: {_told(error)}") from error

    def _read(self, *, whole: bool = True) -> dict[str, Any] | None:
        """The document as we wrote it; None when there is none. Anything else is somebody's, and is not touched; with
        ``whole`` off, one of ours that somebody changed is read, because it is about to be lowered."""
        try:
            with self._path.open("rb") as file:
                found = json.loads(file.read(_MOST_BYTES))
        except FileNotFoundError:
            return None
        except (OSError, ValueError, RecursionError) as error:
            raise BoardFailed(f"it cannot be read: {_told(error)}") from error
        try:
            about = found["metadata"]
            ours = document(about["rollout"], (about["epoch"], about["version"]), _shown_in(found))
        except (KeyError, TypeError, AttributeError) as error:
            raise BoardFailed("it is not a file that rollout wrote") from error
        if about["rollout"] != self._rollout:
            raise BoardFailed(f"it belongs to the rollout {about['rollout']}")
        if whole and ours != found:
            raise BoardFailed("somebody else changed it")
        return dict(found)

    def _write(self, document: dict[str, Any]) -> None:
        try:
            write_whole(self._path, json.dumps(document, indent=2))
        except OSError as error:
            raise BoardFailed(f"it cannot be written: {_told(error)}") from error

    @contextmanager
    def _alone(self) -> Iterator[None]:
        """One writer at a time on this machine; the folder is locked, so that no lock file is left."""
        try:
            folder = os.open(self._path.parent, os.O_RDONLY | os.O_DIRECTORY)
        except OSError as error:
            raise BoardFailed(f"its folder cannot be used: {_told(error)}") from error
        try:
            self._take_turn(folder)
            yield
        finally:
            os.close(folder)

    def _take_turn(self, folder: int) -> None:
        """Never without it: whoever stands still may rename its own file into place when it wakes."""
        until = time.monotonic() + self._turn_s
        while True:
            try:
                fcntl.flock(folder, fcntl.LOCK_EX | fcntl.LOCK_NB)
                return
            except BlockingIOError as error:
                if time.monotonic() > until:
                    held = f"another process has held the lock of {self._path.parent} for {self._turn_s:.0f} s"
                    raise BoardFailed(held) from error
            except OSError as error:
                raise BoardFailed(f"its folder cannot be locked: {_told(error)}") from error
            time.sleep(_TURN_POLL_S)


def _refuse_older(epoch: int, before: int) -> None:
    if epoch < before:
        raise BoardFailed(f"it was written under epoch {before}, we act under {epoch}")


def _shown_in(found: dict[str, Any]) -> Shown:
    about = found["metadata"]
    writes, _ = flag_names(about["rollout"])
    return found["flags"][writes]["defaultVariant"] == "on", about["readPercent"]


def _told(error: Exception) -> str:
    return (error.strerror or str(error)) if isinstance(error, OSError) else str(error)[:120]
