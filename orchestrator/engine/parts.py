"""Everything that acts, handed to the engine by ``app``; the engine itself knows no concrete class."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from msgspec import Struct

from orchestrator.engine.judging import Judge
from orchestrator.model.runbook import Runbook
from orchestrator.model.state import Ask
from orchestrator.model.verdict import Problem, Verdict
from orchestrator.ports import Clock, Driver, Flags, Listener, Observer, Phase, Store, Watcher


class Parts(Struct, frozen=True):
    """``findings``: what the runbook's text alone shows to be wrong. ``difference``: how its contract differs from that
    of another runbook's text, in words. ``forward`` are the five stages in order.
    ``interrupted`` tells what a signal to this process asks for. ``tried``: each gate of the runbook, sampled once, for
    who plans. ``proven``: what the last proof of compatibility says, in a line. ``reason``: why the command was typed;
    it is in every event of it."""

    runbook: Runbook
    findings: Callable[[], Sequence[Problem]]
    difference: Callable[[str], str]
    store: Store
    observer: Observer
    flags: Flags
    drivers: Mapping[str, Driver[Any]]
    judge: Judge
    forward: tuple[Phase, ...]
    rollback: Phase
    finish: Callable[[bool], Phase]
    repair: Phase
    listeners: tuple[Listener, ...]
    watcher: Watcher
    clock: Clock
    who: str
    interrupted: Callable[[], Ask | None]
    tried: Callable[[], Sequence[Verdict]] = tuple
    proven: Callable[[], str] = str
    reason: str = ""
