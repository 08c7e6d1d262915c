"""Lint with a server: the problems of the plan as findings, and objects of the server that name the table (B50)."""

from __future__ import annotations

from orchestrator.app.drift import session_for
from orchestrator.app.wiring import App
from orchestrator.model.facts import Need
from orchestrator.model.outcome import GO, Progress, Result, Signal
from orchestrator.model.runbook import Runbook
from orchestrator.model.step import TryDdl
from orchestrator.mysql.look.dependents import read_dependents
from orchestrator.runbook.lint import Found, find
from orchestrator.runbook.rules import Rule, Severity
from orchestrator.runbook.tree import read_document
from orchestrator.settings import ServerSettings


def look_beyond_the_file(app: App, runbook: Runbook, settings: ServerSettings, scratch: bool) -> tuple[Found, ...]:
    """What the live table and its values add to the findings of the file, at the line of the table; with ``scratch``
    also what the server says of the statements on a copy of the family, and of cascades on rows in it.

    Raises RolloutError.
    """
    line = read_document(runbook.text, runbook.path).line(("table", "name")) if runbook.text else 0
    known = {f.problem.seen for f in find(runbook)}
    problems = [p for p in app.planner.plan(None).problems if p.seen not in known]
    found = [Found(Rule(p.rule, p.expected, p.expected, p.next), runbook.path, line, p.seen) for p in problems]
    with session_for(settings, f"looking for what names {runbook.table}") as session:
        dependents = read_dependents(session, runbook.table)
    if scratch and not any(p.rule in _NO_TABLE for p in problems):
        found += [Found(r, runbook.path, line, seen) for r, seen in _tried(app)]
    return (*found, *(Found(_DEPENDENT, runbook.path, line, f"{d} names {runbook.table.name}") for d in dependents))


def _tried(app: App) -> list[tuple[Rule, str]]:
    """What the trial of ddl refuses: a finding for each statement that fails, with its number and its shape."""
    facts = app.observer.look(frozenset({Need.SHAPE, Need.VALUES, Need.SERVER}))
    steps = app.parts.forward[0].steps(app.parts.runbook, facts, app.planner.present())
    found = []
    for step in steps:
        if isinstance(step, TryDdl):
            outcome = app.parts.drivers["try-ddl"].apply(step, _Unwatched())
            rule = Rule("refused-on-scratch", outcome.expected, outcome.expected, outcome.next)
            told = [f"{what}: {number} {text}" for what, number, text in outcome.evidence] or [outcome.note]
            found += [(rule, seen) for seen in told if outcome.result is Result.FAILED]
    return found


class _Unwatched:
    """A beat for work in a scratch schema: no lease is held for it, and nothing of the application waits for it."""

    epoch = 0

    def __call__(self, progress: Progress) -> Signal:
        return GO


# Without a table that can be walked there is nothing to copy.
_NO_TABLE = frozenset({"table-missing", "not-a-table", "not-innodb"})
_DEPENDENT = Rule(
    "table-named-elsewhere",
    "views, routines, events and triggers that name the table are known",
    "a view made as SELECT * keeps its old list of columns, and fails with 1356 when one of them goes",
    "list them in the runbook's why:, and change them before a later contract drops a column",
    severity=Severity.WARNING,
)
