"""What MySQL's operators and functions do, as far as mappings and ordinary statements use them (see ``expression``)."""

from __future__ import annotations

import re
import uuid
from collections.abc import Callable, Sequence
from datetime import date, datetime, timedelta
from decimal import ROUND_CEILING, ROUND_DOWN, ROUND_FLOOR, ROUND_HALF_UP, Decimal
from typing import Any

Value = Any


def number(value: Value) -> int | Decimal | float:
    """A value where MySQL wants a number. Other texts raise ValueError: what they mean depends on the mode."""
    match value:
        case bool():
            return int(value)
        case int() | Decimal() | float():
            return value
        case str():
            return int(value) if re.fullmatch(r"-?\d+", value) else Decimal(value)
        case _:
            raise ValueError(f"{value!r} is not a number")


def truth(value: Value) -> bool | None:
    return None if value is None else number(value) != 0


def compare(left: Value, sign: str, right: Value) -> int | None:
    """1, 0 or None (unknown). Texts are compared byte for byte; a number with a text as numbers."""
    if sign == "<=>":
        return int(left is None and right is None) if left is None or right is None else compare(left, "=", right)
    if left is None or right is None:
        return None
    if isinstance(left, str) != isinstance(right, str) and not isinstance(left, bytes) and not isinstance(right, bytes):
        if isinstance(left, date | timedelta) or isinstance(right, date | timedelta):
            raise ValueError("a date compared with a text is not known here")
        left, right = number(left), number(right)
    order = (left > right) - (left < right)
    answers = {"=": order == 0, "<>": order != 0, "!=": order != 0, "<": order < 0, ">": order > 0, "<=": order <= 0}
    return int(answers.get(sign, order >= 0))


def divide(left: Any, sign: str, right: Any) -> Value:
    """One arithmetic operation; a division by zero is NULL."""
    if sign == "+":
        return left + right
    if sign == "-":
        return left - right
    if sign == "*":
        return left * right
    if right == 0:
        return None
    if sign == "/":
        return left / right if isinstance(left, float) or isinstance(right, float) else Decimal(left) / Decimal(right)
    whole = (Decimal(left) / Decimal(right)).to_integral_value(ROUND_DOWN)
    return int(whole) if sign == "DIV" else left - right * whole


def text(value: Value) -> str:
    """A value where MySQL wants a text."""
    match value:
        case str():
            return value
        case bytes():
            return value.decode()
        case datetime():
            return value.strftime("%Y-%m-%d %H:%M:%S")
        case _:
            return str(value)


def cast(value: Value, kind: str, arguments: Sequence[int]) -> Value:
    """CAST(value AS kind(arguments)), for values that fit the kind."""
    if value is None:
        return None
    match kind:
        case "SIGNED" | "UNSIGNED":
            return int(Decimal(number(value)).to_integral_value(ROUND_HALF_UP))
        case "DECIMAL":
            scale = arguments[1] if len(arguments) > 1 else 0
            return Decimal(number(value)).quantize(Decimal(1).scaleb(-scale), ROUND_HALF_UP)
        case "CHAR":
            return text(value)[: arguments[0]] if arguments else text(value)
        case "BINARY":
            return value if isinstance(value, bytes) else text(value).encode()
        case "DATE":
            return value.date() if isinstance(value, datetime) else value
        case "DATETIME":
            return _datetime(value, arguments[0] if arguments else 0)
        case _:
            raise ValueError(f"CAST to {kind} is not known here")


def _datetime(value: Value, digits: int) -> datetime:
    if not isinstance(value, datetime):
        raise ValueError(f"CAST of {value!r} to DATETIME is not known here")
    step = 10 ** (6 - digits)
    whole = value.replace(microsecond=0)
    return whole + timedelta(microseconds=(value.microsecond + step // 2) // step * step)


def _strict(function: Callable[..., Value]) -> Callable[..., Value]:
    """NULL in, NULL out."""
    return lambda *args: None if any(a is None for a in args) else function(*args)


def _round(value: Value, digits: int = 0, how: str = ROUND_HALF_UP) -> Value:
    rounded = Decimal(number(value)).quantize(Decimal(1).scaleb(-digits), how)
    return int(rounded) if digits <= 0 else rounded


def _whole(how: str) -> Callable[[Value], Value]:
    return lambda v: int(Decimal(number(v)).to_integral_value(how))


def _best(pick: Callable[..., Value]) -> Callable[..., Value]:
    return lambda *args: pick(number(a) if isinstance(a, int | Decimal | float) else a for a in args)


def _substring(value: Value, start: int, length: int | None = None) -> str:
    whole = text(value)
    if start == 0:
        return ""
    begin = start - 1 if start > 0 else len(whole) + start
    return "" if begin < 0 else whole[begin:] if length is None else whole[begin : begin + max(0, length)]


def _uuid_to_bin(value: Value, swap: int = 0) -> bytes:
    raw = uuid.UUID(text(value)).bytes
    return raw[6:8] + raw[4:6] + raw[:4] + raw[8:] if swap else raw


def _bin_to_uuid(value: bytes, swap: int = 0) -> str:
    return str(uuid.UUID(bytes=value[4:8] + value[2:4] + value[:2] + value[8:] if swap else value))


def _first(*args: Value) -> Value:
    return next((a for a in args if a is not None), None)


def _hex(value: Value) -> str:
    return (
        f"{value:X}"
        if isinstance(value, int)
        else (value if isinstance(value, bytes) else text(value).encode()).hex().upper()
    )


def _is_equal(left: Value, right: Value) -> bool:
    return compare(left, "=", right) == 1


FUNCTIONS: dict[str, Callable[..., Value]] = {
    "COALESCE": _first,
    "IFNULL": _first,
    "NULLIF": lambda a, b: None if _is_equal(a, b) else a,
    "IF": lambda condition, yes, no: yes if truth(condition) else no,
    "LEAST": _strict(_best(min)),
    "GREATEST": _strict(_best(max)),
    "CEIL": _strict(_whole(ROUND_CEILING)),
    "CEILING": _strict(_whole(ROUND_CEILING)),
    "FLOOR": _strict(_whole(ROUND_FLOOR)),
    "ROUND": _strict(_round),
    "TRUNCATE": _strict(lambda v, digits: _round(v, digits, ROUND_DOWN)),
    "ABS": _strict(lambda v: abs(number(v))),
    "SIGN": _strict(lambda v: (number(v) > 0) - (number(v) < 0)),
    "MOD": _strict(lambda a, b: divide(number(a), "%", number(b))),
    "CONCAT": _strict(lambda *args: "".join(text(a) for a in args)),
    "CONCAT_WS": lambda mark, *args: None if mark is None else text(mark).join(text(a) for a in args if a is not None),
    "LOWER": _strict(lambda v: text(v).lower()),
    "UPPER": _strict(lambda v: text(v).upper()),
    "TRIM": _strict(lambda v: text(v).strip(" ")),
    "LTRIM": _strict(lambda v: text(v).lstrip(" ")),
    "RTRIM": _strict(lambda v: text(v).rstrip(" ")),
    "LEFT": _strict(lambda v, n: text(v)[: max(0, n)]),
    "RIGHT": _strict(lambda v, n: text(v)[-n:] if n > 0 else ""),
    "SUBSTRING": _strict(_substring),
    "SUBSTR": _strict(_substring),
    "REPLACE": _strict(lambda v, what, by: text(v).replace(what, by)),
    "LPAD": _strict(lambda v, n, pad: text(v)[:n] if len(text(v)) >= n else text(v).rjust(n, pad)),
    "CHAR_LENGTH": _strict(lambda v: len(text(v))),
    "LENGTH": _strict(lambda v: len(v if isinstance(v, bytes) else text(v).encode())),
    "HEX": _strict(_hex),
    "UNHEX": _strict(lambda v: bytes.fromhex(text(v))),
    "UUID_TO_BIN": _strict(_uuid_to_bin),
    "BIN_TO_UUID": _strict(_bin_to_uuid),
}
