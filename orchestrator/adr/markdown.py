"""The few forms of Markdown that the record is made of."""

from __future__ import annotations

from collections.abc import Iterable, Sequence


def table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> list[str]:
    """A table with an empty line behind it; nothing when it has no rows."""
    lines = [_row(row) for row in rows]
    return [_row(head), "|" + "---|" * len(head), *lines, ""] if lines else []


def _row(cells: Sequence[str]) -> str:
    return "| " + " | ".join(c.replace("\n", " ").replace("|", "\\|") for c in cells) + " |"


def code(text: str) -> str:
    """The text as code, whatever it holds."""
    flat = " ".join(text.split())
    return f"`` {flat} ``" if "`" in flat else f"`{flat}`"


def codes(texts: Iterable[str], comma: str) -> str:
    return comma.join(code(t) for t in texts)


def bullets(texts: Iterable[str]) -> list[str]:
    """A list with an empty line behind it; nothing when it is empty."""
    lines = [f"- {t}" for t in texts if t]
    return [*lines, ""] if lines else []


def numbered(texts: Iterable[str]) -> list[str]:
    lines = [f"{n}. {t}" for n, t in enumerate(texts, 1)]
    return [*lines, ""] if lines else []


def fenced(language: str, text: str) -> list[str]:
    """A block of code; its fence is longer than any in it."""
    fence = "```"
    while fence in text:
        fence += "`"
    return [fence + language, text.rstrip("\n"), fence, ""]
