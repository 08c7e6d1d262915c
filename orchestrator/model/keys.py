"""Positions in a key, without loss: a typed, readable text that goes into the state and comes back as the same
value."""

from __future__ import annotations

import json
from datetime import date, datetime, timedelta
from decimal import Decimal, localcontext

KeyPart = int | str | bytes | Decimal | datetime | date | timedelta
Key = tuple[KeyPart, ...]


def encode_key(key: Key) -> str:
    """``[["int","18446744073709551615"],["hex","00ff"]]``: one pair of type and text for each part."""
    return json.dumps([_encode(part) for part in key], ensure_ascii=False, separators=(",", ":"))


def decode_key(text: str) -> Key:
    """The inverse of ``encode_key``. Raises ValueError on text that it did not write."""
    try:
        key = tuple(_decode(kind, value) for kind, value in json.loads(text))
    except (TypeError, ArithmeticError) as error:
        raise ValueError(f"{text!r} is no key") from error
    if not key:
        raise ValueError(f"{text!r} is no key")
    return key


def show_key(key: Key) -> str:
    """The key for a person: parts joined by ``:``, bytes as lower-case hex."""
    return ":".join(part.hex() if isinstance(part, bytes) else str(part) for part in key)


def spread(first: Key, last: Key, places: int) -> tuple[Key, ...]:
    """Up to ``places`` keys between two, even in the first part in which they differ; none where that has no middle.

    They need not exist. How rows are spread is not known here: places are even in the values, not in the rows.
    """
    at = next((n for n, (a, b) in enumerate(zip(first, last, strict=True)) if a != b), None)
    if at is None:
        return ()
    parts = (_between(first[at], last[at], n, places + 1) for n in range(1, places + 1))
    found = [(*first[:at], part, *first[at + 1 :]) for part in parts if part is not None]
    return tuple(dict.fromkeys(found))


def _between(a: KeyPart, b: KeyPart, n: int, of: int) -> KeyPart | None:
    match a, b:
        case int(), int():
            return a + (b - a) * n // of
        case Decimal(), Decimal():
            with localcontext() as exact:
                exact.prec = 65
                return a + (b - a) * n / of
        case datetime(), datetime():
            return a + (b - a) * n // of
        case date(), date():
            return a + (b - a) * n // of
        case timedelta(), timedelta():
            return a + (b - a) * n // of
        case bytes(), bytes():
            width = max(len(a), len(b))
            low, high = (int.from_bytes(v.ljust(width, b"\0")) for v in (a, b))
            return (low + (high - low) * n // of).to_bytes(width)
        case str(), str():
            return _text_between(a, b, n, of)
        case _:
            return None


def _text_between(a: str, b: str, n: int, of: int) -> str:
    """The common beginning and one sign more, of ASCII: every character set has it, and no index is lost."""
    same = next((i for i, (x, y) in enumerate(zip(a, b, strict=False)) if x != y), min(len(a), len(b)))
    low, high = (min(max(ord(v[same]) if len(v) > same else 0, 0x20), 0x7E) for v in (a, b))
    return a[:same] + chr(low + (high - low) * n // of)


def _encode(part: KeyPart) -> list[str]:
    match part:
        case bool():
            raise ValueError(f"{part!r} is not a key value")
        case int():
            return ["int", str(part)]
        case str():
            return ["text", part]
        case bytes():
            return ["hex", part.hex()]
        case Decimal():
            return ["decimal", str(part)]
        case datetime():
            return ["datetime", part.isoformat(sep=" ", timespec="microseconds")]
        case date():
            return ["date", part.isoformat()]
        case timedelta():
            return ["time", str(part // timedelta(microseconds=1))]
    raise ValueError(f"{part!r} is not a key value")


def _decode(kind: str, value: str) -> KeyPart:
    match kind:
        case "int":
            return int(value)
        case "text":
            return value
        case "hex":
            return bytes.fromhex(value)
        case "decimal":
            return Decimal(value)
        case "datetime":
            return datetime.fromisoformat(value)
        case "date":
            return date.fromisoformat(value)
        case "time":
            return timedelta(microseconds=int(value))
        case _:
            raise ValueError(f"{kind!r} is not a kind of key value")
