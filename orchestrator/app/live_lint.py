"""Lint with a server: the problems of the plan as findings, and objects of the server that name the table (B50)."""

from __future__ import annotations

from orchestrator.app.drift import session_for
from orchestrator.app.wiring import App
from orchestrator.model.runbook import Runbook
from orchestrator.mysql.look.dependents import read_dependents
from orchestrator.runbook.lint import Found, find
from orchestrator.runbook.rules import Rule, Severity
from orchestrator.runbook.tree import read_document
from orchestrator.settings import ServerSettings


def look_beyond_the_file(app: App, runbook: Runbook, settings: ServerSettings) -> tuple[Found, ...]:
    """What the live table and its values add to the findings of the file, at the line of the table. Raises
    RolloutError."""
    line = read_document(runbook.text, runbook.path).line(("table", "name")) if runbook.text else 0
    known = {f.problem.seen for f in find(runbook)}
    problems = [p for p in app.planner.plan(None).problems if p.seen not in known]
    found = [Found(Rule(p.rule, p.expected, p.expected, p.next), runbook.path, line, p.seen) for p in problems]
    with session_for(settings, f"looking for what names {runbook.table}") as session:
        dependents = read_dependents(session, runbook.table)
    return (*found, *(Found(_DEPENDENT, runbook.path, line, f"{d} names {runbook.table.name}") for d in dependents))


_DEPENDENT = Rule(
    "table-named-elsewhere",
    "views, routines, events and triggers that name the table are known",
    "a view made as SELECT * keeps its old list of columns, and fails with 1356 when one of them goes",
    "list them in the runbook's why:, and change them before a later contract drops a column",
    severity=Severity.WARNING,
)
