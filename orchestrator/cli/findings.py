"""Findings as text for people, and as workflow commands that GitHub and Gitea show beside the line of a change."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from orchestrator.errors import UsageError

if TYPE_CHECKING:
    from orchestrator.contract.difference import Difference
    from orchestrator.model.findings import FileFindings
    from orchestrator.runbook.lint import Found

FORMATS = ("text", "json", "github")


def known_format(format: str) -> str:
    """The format. Raises UsageError."""
    if format not in FORMATS:
        raise UsageError(f"there is no format {format!r}", f"one of {', '.join(FORMATS)}", "correct --format")
    return format


def difference_words(found: Difference) -> dict[str, object]:
    return {
        "kind": found.kind.value,
        "fails": found.kind.fails,
        "thing": found.thing,
        "name": found.name,
        "told": found.told,
        "line": found.line,
    }


def difference_lines(found: Sequence[Difference], where: str, format: str) -> list[str]:
    """One line for each difference."""
    if known_format(format) == "github":
        return [
            annotation("error" if d.kind.fails else "warning", where, d.line, f"drift {d.kind.value}", _told(d))
            for d in found
        ]
    at = [f"{where}:{d.line}" if d.line else where for d in found]
    return [
        f"{a}: {d.kind.value}{'' if d.kind.fails else ' (warning)'}: {_told(d)}" for a, d in zip(at, found, strict=True)
    ]


def _told(found: Difference) -> str:
    return f"{found.thing} {found.name}: {found.told}"


def annotation(level: str, file: str, line: int, title: str, message: str) -> str:
    """``::error file=…,line=…,title=…::…``, with everything escaped that would end it early."""
    place = f"file={_property(file)}" + (f",line={line}" if line else "")
    return f"::{level} {place},title={_property(title)}::{_data(message)}"


def _data(text: str) -> str:
    return text.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")


def _property(text: str) -> str:
    return _data(text).replace(":", "%3A").replace(",", "%2C")


def lint_words(found: Found) -> dict[str, object]:
    """One finding for machines; ``rule``, ``seen``, ``expected`` and ``next`` as every problem has them."""
    problem = found.problem
    words: dict[str, object] = {
        "rule": found.rule.id,
        "severity": found.rule.severity.value,
        "file": found.file,
        "line": found.line,
        "seen": problem.seen,
        "why": found.rule.why,
        "expected": problem.expected,
        "next": problem.next,
    }
    if found.waiver is not None:
        words["waiver"] = {"reason": found.waiver.reason, "until": found.waiver.until}
    return words


def lint_lines(found: Sequence[Found], format: str) -> list[str]:
    """What is found, and for people what is waived."""
    if format == "github":
        return [
            annotation(f.rule.severity.value, f.file, f.line, f.rule.id, f"{f.seen}. {f.rule.why}. Mend: {f.rule.mend}")
            for f in found
            if f.waiver is None
        ]
    lines = []
    for f in found:
        if f.waiver is not None:
            until = f" until {f.waiver.until}" if f.waiver.until else ""
            lines.append(f"{f.rule.id} (waived{until}): {f.problem.seen}\n reason  {f.waiver.reason}")
            continue
        warning = " (warning)" if not f.refuses else ""
        lines.append(
            f"{f.rule.id}{warning}: {f.problem.seen}\n wanted  {f.problem.expected}\n do      {f.problem.next}"
        )
    return lines


def error_lines(error: FileFindings) -> list[str]:
    """A file that cannot be read at all, beside its lines."""
    return [
        annotation("error", error.path, f.line, "cannot be read", f"{f.seen} (expected: {f.expected}). Mend: {f.next}")
        for f in error.findings
    ]
