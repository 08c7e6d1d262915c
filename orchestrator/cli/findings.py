"""Findings as text for people, and as workflow commands that GitHub and Gitea show beside the line of a change."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from orchestrator.errors import UsageError

if TYPE_CHECKING:
    from orchestrator.contract.difference import Difference

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
