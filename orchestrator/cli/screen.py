"""Progress as people see it: one line that is drawn again on a terminal, a plain line each ten seconds elsewhere."""

from __future__ import annotations

import shutil
import time
from collections.abc import Sequence
from contextlib import suppress
from typing import TextIO

from orchestrator.model.outcome import Progress, Signal, SignalKind
from orchestrator.model.state import Record
from orchestrator.model.step import Step, step_key
from orchestrator.model.verdict import Verdict
from orchestrator.ports import Watcher

_REDRAW_S = 0.2
_PLAIN_S = 10.0
_BAR = 26


def watcher_for(stream: TextIO, wants_json: bool, *, silent: bool = False) -> Watcher:
    """A drawing one on a terminal, a plain one elsewhere; both write to ``stream``, never to standard output.
    ``silent``:
    none, because the stream belongs to a log."""
    if silent:
        return Plain(None)
    return Drawn(stream) if stream.isatty() and not wants_json else Plain(stream)


def progress_line(record: Record, step: Step, progress: Progress, signal: Signal) -> str:
    """``backfill  ~61.4%  123,020 / ~200,412 rows  9,410 rows/s  ETA ~8 s  batch 760 rows 81 ms  throttled 0%``

    ``~``: by an estimate."""
    parts, about = [record.phase, step_key(step)], "~" if progress.estimated else ""
    if progress.share is not None:
        parts += [f"{about}{progress.share:.1%}", f"{progress.done:,} / {about}{progress.total:,} {progress.unit}"]
    elif progress.done:
        parts.append(f"{progress.done:,} {progress.unit}")
    if progress.unit == "rows" and progress.rate_per_s:
        parts.append(f"{progress.rate_per_s:,.0f} rows/s")
    if progress.eta_s is not None:
        parts.append(f"ETA {about}{progress.eta_s:.0f} s")
    if progress.batch_rows:
        parts.append(f"batch {progress.batch_rows} rows {progress.batch_s * 1000:.0f} ms")
    if progress.throttled_s:
        waited = progress.throttled_s / progress.elapsed_s if progress.elapsed_s else 0
        parts.append(f"throttled {waited:.0%}{f' ({progress.throttled_by})' if progress.throttled_by else ''}")
    if progress.note:
        parts.append(progress.note)
    if signal.kind is not SignalKind.GO:
        parts.append(f"{signal.kind.value}: {signal.reason}")
    return "  ".join(parts)


class Drawn:
    """One line, drawn again in place."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream
        self._drawn_at = float("-inf")
        self._step = ""

    def progress(self, record: Record, step: Step, progress: Progress, signal: Signal) -> None:
        key = step_key(step)
        if key != self._step:
            self._step, self._drawn_at = key, float("-inf")
        if time.monotonic() - self._drawn_at < _REDRAW_S:
            return
        self._drawn_at = time.monotonic()
        bar = ""
        if progress.share is not None:
            full = int(_BAR * progress.share)
            bar = "█" * full + "░" * (_BAR - full) + "  "
        self._draw(bar + progress_line(record, step, progress, signal))

    def waiting(self, record: Record, verdicts: Sequence[Verdict], waited_s: float) -> None:
        reasons = "; ".join(v.reason for v in verdicts)
        self._draw(f"{record.phase}  waiting {waited_s:.0f} s: {reasons}")

    def _draw(self, text: str) -> None:
        width = shutil.get_terminal_size().columns
        # A terminal that went away is no reason to stop: its end arrives as a signal, and that is heard in its own way.
        with suppress(OSError, ValueError):
            self._stream.write("\r\x1b[2K" + text[: width - 1])
            self._stream.flush()


class Plain:
    """A line when a step begins to take time, then one each ten seconds."""

    def __init__(self, stream: TextIO | None) -> None:
        self._stream = stream
        self._told_at = time.monotonic()
        self._reason = ""

    def progress(self, record: Record, step: Step, progress: Progress, signal: Signal) -> None:
        if time.monotonic() - self._told_at >= _PLAIN_S:
            self._tell(progress_line(record, step, progress, signal))

    def waiting(self, record: Record, verdicts: Sequence[Verdict], waited_s: float) -> None:
        reason = "; ".join(v.check for v in verdicts)
        if reason != self._reason or time.monotonic() - self._told_at >= _PLAIN_S:
            self._reason = reason
            self._tell(f"{record.phase}  waiting {waited_s:.0f} s: {'; '.join(v.reason for v in verdicts)}")

    def _tell(self, text: str) -> None:
        self._told_at = time.monotonic()
        if self._stream is None:
            return
        # Nobody reads any more; the state has the progress.
        with suppress(OSError, ValueError):
            print(text, file=self._stream, flush=True)
