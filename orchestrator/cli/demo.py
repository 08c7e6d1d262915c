"""The whole AiJob rollout on a throwaway pair, by the real command, while two applications write all the time.

Each command that is shown is run as it is shown, in a process of its own; this process is the two applications and the
ledger that knows what every acknowledged write must have left behind.
"""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Literal, TextIO

from msgspec import Struct, field

from orchestrator.app.watch import Watch, open_watch
from orchestrator.cli.ground import RUNBOOK, prepare, settings_for, wait_caught_up
from orchestrator.drivers.reads.flagd import flag_names
from orchestrator.errors import PhaseFailed
from orchestrator.model.facts import Shape
from orchestrator.model.runbook import Runbook
from orchestrator.mysql.application_session import ApplicationSession
from orchestrator.mysql.session import Session
from orchestrator.mysql.sql import applications as sql
from orchestrator.runbook.shorten import write_short_copy
from orchestrator.sandbox.flagd_reader import FlagdReader, require_provider
from orchestrator.sandbox.pair import Pair, start_pair
from orchestrator.sandbox.places import cache_folder, runbooks_folder
from orchestrator.sandbox.template import OPERATOR
from orchestrator.sandbox.traffic import Traffic

_WAIT_S = 3.0
_BASELINE_S = 20.0
_BROKEN_AT = 25
Reads = Literal["flag_table", "flagd"]


class _Seen(Struct):
    """What was watched while it ran."""

    phases: list[dict[str, Any]] = field(default_factory=list)
    rolled_back: int = 0
    max_lag_ms: float = 0.0


class Demo:
    """One run. ``out`` gets the story; the figures come back as the keys that ``rollout demo --json`` promises."""

    file = RUNBOOK
    about = "the AiJob table"

    def __init__(self, rows: int, seed: int, out: TextIO, reads: Reads = "flag_table") -> None:
        self._rows = rows
        self._reads = reads
        self._seed = seed
        self._out = out
        self._began = time.monotonic()
        self._seen = _Seen()
        self._done = threading.Event()

    def run(self) -> dict[str, Any]:
        if self._reads == "flagd":
            require_provider()
        for number in (signal.SIGTERM, signal.SIGHUP):
            # Leave through the same door as Ctrl-C: what was started is ended.
            signal.signal(number, lambda *_: sys.exit(128 + signal.SIGTERM))
        folder = Path(tempfile.mkdtemp(prefix="demo-", dir=_made(cache_folder())))
        pair: Pair | None = None
        try:
            self._say(f"A primary and a replica, {self.about} with {self._rows:,} rows, two applications.")
            pair = start_pair(folder / "pair")
            flagd = folder / "flags.json" if self._reads == "flagd" else None
            runbook = write_short_copy(runbooks_folder() / self.file, folder / self.file, _WAIT_S, flagd)
            shape = prepare(pair, runbook, self._rows, self._seed)
            return self._under_traffic(pair, runbook, shape)
        finally:
            self._done.set()
            if pair is not None:
                pair.remove()
            shutil.rmtree(folder, ignore_errors=True)

    def summary(self, words: dict[str, Any]) -> str:
        """The figures for people."""
        good = not (words["lost_writes"] or words["drift"] or words["app_errors"])
        return (
            f"{'Nothing was lost' if good else 'SOMETHING IS WRONG'}: {words['app_writes']:,} writes acknowledged, "
            f"lost_writes {words['lost_writes']}, drift {words['drift']}, app_errors {words['app_errors']} "
            f"(and {words['injected_errors']} that we injected)\n"
            f"longest wait of an application: {words['max_stall_ms']:.0f} ms with us, "
            f"{words['baseline_stall_ms']:.0f} ms without; worst lag {words['max_lag_ms']:.0f} ms; "
            f"rolled back by itself {words['rolled_back']} ×; {words['seconds']:.0f} s in all"
        )

    def _under_traffic(self, pair: Pair, runbook: Runbook, shape: Shape) -> dict[str, Any]:
        traffic = Traffic(settings_for(pair.primary), runbook, shape, seed=self._seed)
        watch = open_watch(runbook, settings_for(pair.primary))
        flag = self._flag(runbook)
        lag = threading.Thread(target=self._watch_lag, args=(watch,), daemon=True)
        try:
            traffic.start_old()
            traffic.start_new(flag)
            window = traffic.window()
            self._say(
                f"Both applications write. First {_BASELINE_S:.0f} s without us, to know how long they wait anyway."
            )
            time.sleep(_BASELINE_S)
            baseline_ms = window.max_wait_ms
            lag.start()
            window.reset()
            drift = self._walk(pair, runbook, traffic)
            stall_ms = window.max_wait_ms
            traffic.stop()
            lost = self._compare(pair, traffic)
            stats = traffic.stats()
        finally:
            self._done.set()
            traffic.stop()
            if lag.is_alive():
                lag.join(10.0)
            watch.close()
            if flag is not None:
                flag.close()
        return {
            "rows": self._rows,
            "app_writes": stats.writes,
            "app_errors": stats.errors,
            "lost_writes": lost,
            "drift": drift,
            "max_stall_ms": round(stall_ms, 1),
            "baseline_stall_ms": round(baseline_ms, 1),
            "max_lag_ms": round(self._seen.max_lag_ms, 1),
            "seconds": round(time.monotonic() - self._began, 1),
            "phases": self._seen.phases,
            "rolled_back": self._seen.rolled_back,
            "injected_errors": stats.injected_errors,
            "error_texts": list(stats.error_texts),
        }

    def _flag(self, runbook: Runbook) -> FlagdReader | None:
        """What the new application asks, where that is not the flag row."""
        if self._reads != "flagd":
            return None
        self._say("The new application asks OpenFeature's own flagd provider; no row of ours.")
        settings = runbook.phases
        return FlagdReader(Path(settings.reader.argument), flag_names(runbook.id), settings.poll_s)

    def _walk(self, pair: Pair, runbook: Runbook, traffic: Traffic) -> int:
        """Forward with one failing gate, all the way back, forward again, finish. Returns the drift at the end."""

        def rollout(*arguments: str, expect: int = 0) -> str:
            return self._rollout(pair, runbook, arguments, expect)

        self._say("What would happen, without writing anything:")
        rollout("plan")
        for phase in ("ddl", "backfill", "shadow-write"):
            rollout("next", "--phase", phase, "-y")
        self._say(f"At {_BROKEN_AT} % the new application gets a bug: its own errors rise, a gate must notice.")
        with self._broken_at(pair, runbook, traffic):
            rollout("next", "--phase", "read-switch", "-y", expect=76)
        self._say("It went back by itself. The bug is mended; the ramp again, to the end.")
        self._wait_calm()
        rollout("next", "--phase", "read-switch", "-y")
        rollout("next", "--phase", "verify", "-y")
        self._say("Now all the way back: the old application is served with every write that the new one made.")
        meter = json.loads(self._rollout(pair, runbook, ("status", "--meter", "--json"), 0, quiet=True))["meter"]
        # Writers go on until the flags are down, so a few more rows of a class may come before the mirror goes.
        accept = [f"--accept-loss={c['class']}={c['rows'] + 1000}" for c in meter["classes"]]
        rollout("rollback", "-y", *accept)
        traffic.ledger.old_is_truth()
        self._say("And forward once more.")
        for phase in ("backfill", "shadow-write", "read-switch", "verify"):
            rollout("next", "--phase", phase, "-y")
        return self._finished(rollout, traffic)

    def _finished(self, rollout: Callable[..., str], traffic: Traffic) -> int:
        """The old application goes, then the mirror. Returns the drift before that."""
        self._say("The old application is stopped, the new one is released without the flag.")
        traffic.stop_old()
        traffic.release_without_flag()
        drift = int(json.loads(rollout("verify", "--json"))["mismatches"])
        # Who still asks a flagd file is not seen on the server: somebody has to vouch.
        vouched = ("--old-application-gone", "--flag-retired") if self._reads == "flagd" else ()
        rollout("finish", "-y", *vouched)
        rollout("history")
        return drift

    def _rollout(
        self, pair: Pair, runbook: Runbook, arguments: tuple[str, ...], expect: int, *, quiet: bool = False
    ) -> str:
        """Run the real command against the pair; its standard output. Raises PhaseFailed on another exit code."""
        server = pair.primary
        environment = os.environ | {
            "ROLLOUT_HOST": server.host,
            "ROLLOUT_PORT": str(server.port),
            "ROLLOUT_USER": OPERATOR.user,
            "ROLLOUT_PASSWORD": OPERATOR.password,
            "ROLLOUT_RUNBOOK": runbook.path,
        }
        shown = "rollout " + " ".join(arguments)
        if not quiet:
            self._say(f"$ {shown}")
        began = time.monotonic()
        ended = subprocess.run(
            [sys.executable, "-m", "orchestrator", *arguments],
            env=environment,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            check=False,
        )
        took_s = time.monotonic() - began
        if not quiet:
            self._quote(ended.stderr if expect else ended.stdout)
        if arguments[0] in ("next", "rollback", "finish"):
            name = arguments[2] if arguments[0] == "next" else arguments[0]
            state = "rolled-back" if ended.returncode == 76 and name == "read-switch" else _state(ended.returncode)
            self._seen.rolled_back += state == "rolled-back"
            self._seen.phases.append({"name": name, "state": state, "seconds": round(took_s, 1)})
        if ended.returncode != expect:
            raise PhaseFailed(
                f"{shown} ended with {ended.returncode}: {(ended.stderr or ended.stdout).strip()[-2000:]}",
                f"exit code {expect}",
                "this is a fault of the demonstration or of this machine; run it again with another --seed",
            )
        return ended.stdout

    @contextlib.contextmanager
    def _broken_at(self, pair: Pair, runbook: Runbook, traffic: Traffic) -> Iterator[None]:
        """Break the new application's reads when the flag shows the percent; mend them at the end."""
        over = threading.Event()

        question = sql.read_percent(settings_for(pair.primary).state_schema)

        def watch() -> None:
            with contextlib.closing(ApplicationSession(settings_for(pair.primary), "demo", "app")) as session:
                while not over.wait(0.2):
                    rows = session.query(question, (runbook.id,))
                    if rows and int(rows[0][0]) >= _BROKEN_AT:
                        traffic.break_reads(True)
                        return

        thread = threading.Thread(target=watch, daemon=True)
        thread.start()
        try:
            yield
        finally:
            over.set()
            thread.join(10.0)
            traffic.break_reads(False)

    def _wait_calm(self) -> None:
        """The gate looks at the last 5 s of the application's own counters."""
        time.sleep(6.0)

    def _compare(self, pair: Pair, traffic: Traffic) -> int:
        """Every acknowledged write against both servers, value by value."""
        with contextlib.closing(Session(settings_for(pair.primary), role="ledger")) as primary:
            wait_caught_up(pair, primary)
            differences = [("primary", d) for d in traffic.ledger.compare(primary)]
        with contextlib.closing(Session(settings_for(pair.replica), role="ledger")) as replica:
            differences += [("replica", d) for d in traffic.ledger.compare(replica)]
        for where, difference in differences[:10]:
            self._say(f"LOST on the {where}: {difference}")
        return len(differences)

    def _watch_lag(self, watch: Watch) -> None:
        while not self._done.wait(0.5):
            lag_s = watch.status().lag_s
            if lag_s is not None:
                self._seen.max_lag_ms = max(self._seen.max_lag_ms, lag_s * 1000)

    def _say(self, text: str) -> None:
        at = time.monotonic() - self._began
        lead = "" if text.startswith("$") else "── "
        print(f"\n[{at:5.1f} s] {lead}{text}", file=self._out, flush=True)

    def _quote(self, text: str) -> None:
        for line in text.strip().splitlines():
            print(f"   {line}", file=self._out, flush=True)


def _state(code: int) -> str:
    return {0: "done", 75: "held", 76: "failed"}.get(code, f"exit {code}")


def _made(folder: Path) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    return folder
