"""Positions in a key, without loss: a typed, readable text that goes into the state and comes back as the same
value."""

from __future__ import annotations

import json
from datetime import date, datetime, timedelta
from decimal import Decimal

KeyPart = int | str | bytes | Decimal | datetime | date | timedelta
Key = tuple[KeyPart, ...]


def encode_key(key: Key) -> str:
    """``[["int","18446744073709551615"],["hex","00ff"]]``: one pair of type and text for each part."""
    return json.dumps([_encode(part) for part in key], ensure_ascii=False, separators=(",", ":"))


def decode_key(text: str) -> Key:
    """The inverse of ``encode_key``. Raises ValueError on text that it did not write."""
    return tuple(_decode(kind, value) for kind, value in json.loads(text))


def show_key(key: Key) -> str:
    """The key for a person: parts joined by ``:``, bytes as lower-case hex."""
    return ":".join(part.hex() if isinstance(part, bytes) else str(part) for part in key)


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
