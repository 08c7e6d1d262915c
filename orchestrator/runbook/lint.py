"""All that can be known from the file: the expand-only rules and the mapping laws, with waivers taken into account."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import UTC, date, datetime

from orchestrator.errors import RunbookError
from orchestrator.model.runbook import Runbook
from orchestrator.model.verdict import Problem, ProblemKind
from orchestrator.runbook import lint_mapping, lint_shape, lint_words
from orchestrator.runbook.rules import RULES, Breach
from orchestrator.runbook.tree import Document, read_document


def lint(runbook: Runbook, today: date | None = None) -> Sequence[Problem]:
    """What is wrong with the runbook and not waived, in the order of the file.

    Pure when ``today`` is given; it is the present day (UTC) when left out, and only ends waivers.
    Each problem names its rule; ``seen`` begins with ``path:line`` when the runbook has its text.
    """
    day = today or datetime.now(UTC).date()
    document = _document(runbook)
    found = [(_line(document, b), b) for b in _breaches(runbook)]
    problems = (_problem(runbook, line, breach, day) for line, breach in sorted(found, key=lambda f: f[0]))
    return tuple(p for p in problems if p is not None)


def _breaches(runbook: Runbook) -> Iterator[Breach]:
    contract = runbook.contract
    yield from lint_shape.columns(contract)
    yield from lint_shape.indexes(contract)
    yield from lint_shape.foreign_keys(contract)
    yield from lint_shape.partners(contract)
    yield from lint_mapping.mappings(contract)
    yield from lint_words.invariants(contract)
    yield from lint_words.statements(contract)
    if "drift" not in runbook.phases.gates:
        yield Breach("gate-drift", ("phases", "read_switch", "gates"), "read-switch does not have the gate drift")


def _problem(runbook: Runbook, line: int, breach: Breach, day: date) -> Problem | None:
    rule = RULES[breach.rule]
    seen = f"{runbook.path}:{line}: {breach.seen}" if line else breach.seen
    if waiver := runbook.waived(rule.id):
        if not rule.waivable:
            seen += " (this rule cannot be waived)"
        elif waiver.until and date.fromisoformat(waiver.until) < day:
            seen += f" (the waiver ended on {waiver.until})"
        else:
            return None
    return Problem(ProblemKind.RUNBOOK, rule.id, seen, f"{rule.law}: {rule.why}", rule.mend)


def _document(runbook: Runbook) -> Document | None:
    """The lines of the file; None for a runbook that was made without one."""
    try:
        return read_document(runbook.text, runbook.path) if runbook.text else None
    except RunbookError:
        return None


def _line(document: Document | None, breach: Breach) -> int:
    return document.line(breach.path) if document is not None else 0
