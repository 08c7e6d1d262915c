"""What is said of a table that is not there: a name that differs in case only is offered, by everybody alike. Pure."""

from __future__ import annotations

from collections.abc import Iterable


def like(name: str, names: Iterable[str]) -> tuple[str, ...]:
    """Those of ``names`` that differ from ``name`` in case only."""
    return tuple(n for n in names if n != name and n.lower() == name.lower())


def there_is_no(table: object, near: Iterable[object]) -> str:
    """``near``: what is there under almost that name; the first is offered."""
    return f"there is no table {table}" + next((f", did you mean {n}?" for n in near), "")


def correct(near: Iterable[object]) -> str:
    """What to do about it."""
    return next((f"write {n} as table: of the runbook" for n in near), "check table: in the runbook")
