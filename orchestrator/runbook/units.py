"""Durations and shares as a person writes them: always with their unit, so that nobody has to guess it."""

from __future__ import annotations

import re
from decimal import Decimal
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from orchestrator.model.findings import Wrong
from orchestrator.model.window import Window

_UNITS_S = {"ms": Decimal("0.001"), "s": Decimal(1), "m": Decimal(60), "h": Decimal(3600), "d": Decimal(86_400)}
DURATION_PATTERN = r"^[0-9]{1,9}(\.[0-9]{1,3})?(ms|s|m|h|d)$"
SHARE_PATTERN = r"^[0-9]{1,6}(\.[0-9]{1,3})?%$"
WINDOW_PATTERN = r"^([01][0-9]|2[0-3]):([0-5][0-9])-([01][0-9]|2[0-3]):([0-5][0-9]) (\S+)$"
_MEASURE = re.compile(r"^([0-9]{1,9}(?:\.[0-9]{1,3})?) ?([^\s0-9.]*)$")
_LONGEST_S = Decimal(366 * 86_400)


def parse_duration(value: object) -> float:
    """Seconds. Raises Wrong for a bare number, an unknown unit, and anything that is not a duration up to a year."""
    if isinstance(value, bool) or not isinstance(value, int | float | Decimal | str):
        raise Wrong(f"{_shown(value)} is not a duration", "a duration such as 5s", _USE_UNITS)
    if not isinstance(value, str):
        raise Wrong(f"a bare number {value} where a duration is wanted", f"a unit, such as {value}s", _USE_UNITS)
    match = _MEASURE.match(value)
    if match is None:
        raise Wrong(f"{_shown(value)} is not a duration", "a duration such as 5s or 200ms", _USE_UNITS)
    if not match[2]:
        raise Wrong(f"a bare number {value} where a duration is wanted", f"a unit, such as {value}s", _USE_UNITS)
    if match[2] not in _UNITS_S:
        raise Wrong(f"{value!r} has the unknown unit {match[2]!r}", "one of ms, s, m, h, d", _USE_UNITS)
    seconds = Decimal(match[1]) * _UNITS_S[match[2]]
    if seconds > _LONGEST_S:
        raise Wrong(f"{value!r} is longer than a year", "a duration up to 366d", "shorten it")
    return float(seconds)


def parse_window(value: object) -> Window:
    """``01:00-05:00 Europe/Berlin``. Raises Wrong for anything else, an unknown place, and a window without length."""
    example = "hours and a time zone, such as 01:00-05:00 Europe/Berlin"
    if isinstance(value, Window):
        return value
    match = re.match(WINDOW_PATTERN, value) if isinstance(value, str) else None
    if match is None:
        raise Wrong(f"{_shown(value)} is not a window", example, "write the time zone's name behind the hours")
    opens, closes = int(match[1]) * 60 + int(match[2]), int(match[3]) * 60 + int(match[4])
    if opens == closes:
        raise Wrong(f"{_shown(value)} opens and closes at once", example, "leave window out for all day")
    try:
        ZoneInfo(match[5])
    except (ZoneInfoNotFoundError, ValueError) as error:
        raise Wrong(f"there is no time zone {match[5]!r} here", example, "write it as in the tz database") from error
    return Window(opens, closes, match[5])


def parse_share(value: object) -> float:
    """``10%`` is 0.1. Raises Wrong for a number without the sign."""
    if isinstance(value, str) and re.match(SHARE_PATTERN, value):
        return float(Decimal(value[:-1]) / 100)
    raise Wrong(f"{_shown(value)} is not a share", "a percentage such as 10%", "write the number with its % sign")


def show_duration(seconds: float) -> str:
    """The shortest spelling that reads back as the same number of seconds."""
    exact = Decimal(str(seconds))
    for unit in ("d", "h", "m", "s"):
        if exact >= _UNITS_S[unit] and exact % _UNITS_S[unit] == 0:
            return f"{int(exact / _UNITS_S[unit])}{unit}"
    return f"{(exact / _UNITS_S['ms']).normalize():f}ms"


_USE_UNITS = "write the unit: ms, s, m, h or d"


def _shown(value: object) -> str:
    if isinstance(value, dict):
        return "a mapping"
    if isinstance(value, list):
        return "a list"
    text = repr(value)
    return text if len(text) <= 60 else text[:57] + "..."
