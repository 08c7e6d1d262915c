"""What is wrong in a file, each with its line; all that one look found is told together."""

from __future__ import annotations

from collections.abc import Sequence

from msgspec import Struct

from orchestrator.errors import RunbookError

_SHOWN = 20


class Wrong(ValueError):
    """A value that cannot be meant. Raised while a value is read; whoever reads it adds the line."""

    def __init__(self, seen: str, expected: str, next: str) -> None:
        super().__init__(seen)
        self.seen = seen
        self.expected = expected
        self.next = next


class Finding(Struct, frozen=True):
    """One thing that is wrong. ``line`` counts from 1; 0 when the file as a whole is meant."""

    line: int
    seen: str
    expected: str
    next: str

    def located(self, path: str) -> str:
        return f"{path}:{self.line}: {self.seen}" if self.line else f"{path}: {self.seen}"


class FileFindings(RunbookError):
    """The file (runbook, lock, DDL, Prisma schema) cannot be used. ``findings``: all that was found, by line; never
    empty."""

    def __init__(self, path: str, findings: Sequence[Finding]) -> None:
        self.path = path
        self.findings = tuple(sorted(set(findings), key=lambda f: (f.line, f.seen)))
        first, *rest = self.findings
        shown = [f"  {f.located(path)} (expected: {f.expected})" for f in rest[:_SHOWN]]
        if len(rest) > _SHOWN:
            shown.append(f"  and {len(rest) - _SHOWN} more")
        super().__init__("\n".join([first.located(path), *shown]), first.expected, first.next)
