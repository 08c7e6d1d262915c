"""All that can be known from the file: the expand-only rules and the mapping laws, with waivers taken into account."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import UTC, date, datetime

from msgspec import Struct

from orchestrator.errors import RunbookError
from orchestrator.model.runbook import Runbook, Waiver
from orchestrator.model.verdict import Problem, ProblemKind
from orchestrator.runbook import lint_mapping, lint_renames, lint_shape, lint_words
from orchestrator.runbook.begin import is_marked
from orchestrator.runbook.rules import RULES, Breach, Rule, Severity
from orchestrator.runbook.tree import Document, read_document


class Found(Struct, frozen=True):
    """One rule that is broken at one place. ``line`` is 0 for a runbook without its text. ``waiver``: what waives it
    now, None when nothing does."""

    rule: Rule
    file: str
    line: int
    seen: str
    waiver: Waiver | None = None

    @property
    def refuses(self) -> bool:
        return self.rule.severity is Severity.ERROR and self.waiver is None

    @property
    def problem(self) -> Problem:
        """The same for whoever refuses the runbook; ``seen`` begins with ``path:line``."""
        seen = f"{self.file}:{self.line}: {self.seen}" if self.line else self.seen
        return Problem(ProblemKind.RUNBOOK, self.rule.id, seen, f"{self.rule.law}: {self.rule.why}", self.rule.mend)


def lint(runbook: Runbook, today: date | None = None) -> Sequence[Problem]:
    """What refuses the runbook: errors that are not waived, in the order of the file.

    Pure when ``today`` is given; it is the present day (UTC) when left out, and only ends waivers.
    """
    return tuple(f.problem for f in find(runbook, today) if f.refuses)


def find(runbook: Runbook, today: date | None = None) -> tuple[Found, ...]:
    """Everything that a rule says of the runbook, in the order of the file: errors, warnings, and what is waived."""
    day = today or datetime.now(UTC).date()
    document = _document(runbook)
    found = [(_line(document, b), b) for b in _breaches(runbook)]
    return tuple(_found(runbook, line, breach, day) for line, breach in sorted(found, key=lambda f: f[0]))


def _breaches(runbook: Runbook) -> Iterator[Breach]:
    contract = runbook.contract
    yield from lint_shape.columns(contract)
    yield from lint_shape.indexes(contract)
    yield from lint_shape.foreign_keys(contract)
    yield from lint_shape.partners(contract)
    yield from lint_renames.renames(runbook)
    yield from lint_mapping.mappings(contract)
    yield from lint_words.invariants(contract)
    yield from lint_words.statements(contract)
    if "drift" not in runbook.phases.gates:
        yield Breach("gate-drift", ("phases", "read_switch", "gates"), "read-switch does not have the gate drift")
    for number, line in enumerate(runbook.text.splitlines(), 1):
        if is_marked(line):
            yield Breach("mark-left", (), line.strip()[:90], number)
    if contract.before is None:
        yield Breach("before-unsaid", ("table",), f"what stood in {contract.table.name} before is not written")
    for i, waiver in enumerate(runbook.waivers):
        if not waiver.until:
            yield Breach("waiver-without-end", ("waivers", i), f"the waiver of {waiver.rule} has no last day")


def _found(runbook: Runbook, line: int, breach: Breach, day: date) -> Found:
    rule, seen, waives = RULES[breach.rule], breach.seen, None
    if waiver := runbook.waived(rule.id):
        if not rule.waivable:
            seen += " (this rule cannot be waived)"
        elif waiver.until and date.fromisoformat(waiver.until) < day:
            seen += f" (the waiver ended on {waiver.until})"
        else:
            waives = waiver
    return Found(rule, runbook.path, line, seen, waives)


def _document(runbook: Runbook) -> Document | None:
    """The lines of the file; None for a runbook that was made without one."""
    try:
        return read_document(runbook.text, runbook.path) if runbook.text else None
    except RunbookError:
        return None


def _line(document: Document | None, breach: Breach) -> int:
    if breach.line:
        return breach.line
    return document.line(breach.path) if document is not None else 0
