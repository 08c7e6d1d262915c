"""Which rows the applications write: keys that exist, keys that nobody has used, and who may delete what."""

from __future__ import annotations

import hashlib
import threading
from collections import deque
from collections.abc import Mapping, Sequence
from datetime import date, datetime, timedelta
from random import Random
from typing import Any

from orchestrator.model.contract import Column
from orchestrator.model.facts import Shape
from orchestrator.model.keys import Key, KeyPart
from orchestrator.model.types import Family
from orchestrator.sandbox.values import encodable

_HOT_ROWS = 24
_MORTAL_ONE_IN = 5


class Rows:
    """Shared by all applications of one table; thread-safe.

    Of the rows that exist, some are *hot* (few, written by everybody all the time), most are *kept* (never deleted),
    and the *mortal* ones are deleted one day, each once.
    """

    def __init__(self, shape: Shape, keys: Sequence[Key], seed: int) -> None:
        self._lock = threading.Lock()
        self._hot = list(keys[:: max(1, len(keys) // _HOT_ROWS)][:_HOT_ROWS])
        hot = set(self._hot)
        rest = [k for k in keys if k not in hot]
        self._mortal = deque(rest[::_MORTAL_ONE_IN])
        gone = set(self._mortal)
        self._kept = [k for k in rest if k not in gone] or self._hot
        self._template = list(keys) or [()]
        self._maker = KeyMaker(shape, seed)
        self._count = self._maker.beginning(keys)

    def choose(self, word: str, rng: Random) -> Key | None:
        """A key for that row placeholder; None when there is none left of its kind."""
        with self._lock:
            match word:
                case "fresh" | "mine":
                    return self._fresh(rng)
                case "hot":
                    return rng.choice(self._hot)
                case "kept":
                    return rng.choice(self._kept)
                case "mortal":
                    return self._mortal.popleft() if self._mortal else None
                case "row":
                    return self._any(rng)
                case _:
                    raise ValueError(f"{word} is not a kind of row")

    def born(self, key: Key) -> None:
        """A row that was created and acknowledged: others may write it, and it is deleted one day."""
        with self._lock:
            self._mortal.append(key)

    def _any(self, rng: Random) -> Key:
        at = rng.random()
        if at < 0.2:
            return rng.choice(self._hot)
        if at < 0.4 and self._mortal:
            return self._mortal[rng.randrange(len(self._mortal))]
        return rng.choice(self._kept)

    def _fresh(self, rng: Random) -> Key:
        self._count += 1
        return self._maker.fresh(self._count, rng.choice(self._template))


class KeyMaker:
    """Keys of a table's kind: those of seeded rows, and those that nobody has used yet."""

    def __init__(self, shape: Shape, seed: int) -> None:
        self.columns = tuple(_column(shape, name) for name in shape.key)
        self.vary = _varied(self.columns, {c.lower() for f in shape.foreign_keys for c in f.columns})
        self._seed = seed

    def seeded(self, at: int, referred: Mapping[str, Sequence[Any]]) -> Key:
        """The key of the seeded row of that number. Parts that refer to another table take values that exist there."""
        rng = Random(f"{self._seed}:key:{at}")
        parts: list[Any] = []
        for place, column in enumerate(self.columns):
            if place == self.vary:
                parts.append(_seeded(column, at, self._seed))
            elif column.name.lower() in referred:
                parts.append(rng.choice(referred[column.name.lower()]))
            elif column.type.family in (Family.INTEGER, Family.DECIMAL):
                parts.append(rng.randint(1, 9))
            else:
                parts.append(_seeded(column, rng.randint(1, 9), self._seed))
        return tuple(parts)

    def fresh(self, count: int, template: Key) -> Key:
        """A key that differs from all others in one part; the others are those of ``template``."""
        parts: list[KeyPart] = list(template) or list(self.seeded(count, {}))
        parts[self.vary] = _made(self.columns[self.vary], count, self._seed)
        return tuple(parts)

    def beginning(self, keys: Sequence[Key]) -> int:
        """The number before the first fresh one."""
        if self.columns[self.vary].type.family in (Family.INTEGER, Family.DECIMAL):
            return max((int(str(k[self.vary])) for k in keys), default=0)
        return 0


def _column(shape: Shape, name: str) -> Column:
    column = shape.column(name)
    if column is None:
        raise ValueError(f"the key's column {name} is not in the table")
    return column


def _varied(columns: Sequence[Column], bound: set[str]) -> int:
    """The part of the key that new keys differ in: the last one that no foreign key binds and that has room."""
    roomy = (Family.TEXT, Family.BINARY, Family.INTEGER, Family.TEMPORAL, Family.DECIMAL)
    free = [
        i
        for i, c in enumerate(columns)
        if c.name.lower() not in bound and c.type.family in roomy and c.type.base != "tinyint"
    ]
    if not free:
        raise ValueError("no part of the key can be varied: traffic cannot create rows in this table")
    return free[-1]


def _seeded(column: Column, at: int, seed: int) -> KeyPart:
    """Integers with gaps, texts with odd characters, bytes in no order, one instant a second."""
    match column.type.family:
        case Family.INTEGER | Family.DECIMAL:
            return 3 * at + 1 if column.type.base in ("int", "bigint", "decimal") else at + 1
        case Family.BINARY:
            return hashlib.blake2b(f"{seed}:{at}".encode(), digest_size=min(column.type.length or 16, 64)).digest()
        case Family.TEMPORAL:
            day = datetime(2026, 1, 1)
            return day.date() + timedelta(days=at) if column.type.base == "date" else day + timedelta(seconds=at)
        case _:
            odd = ("", "-x y", "-Ünïcode", "-日本", "-🚀")[at % 5]
            width = column.type.length or 40
            key = f"k{at:07x}"
            return key + odd if len(key + odd) <= width and encodable(odd, column.charset) else key[-width:]


def _made(column: Column, count: int, seed: int) -> KeyPart:
    """The part of that number; never one that a seeded row has."""
    match column.type.family:
        case Family.INTEGER | Family.DECIMAL:
            return count
        case Family.BINARY:
            return hashlib.blake2b(
                f"fresh:{seed}:{count}".encode(), digest_size=min(column.type.length or 16, 64)
            ).digest()
        case Family.TEMPORAL:
            instant = datetime(2030, 1, 1) + timedelta(seconds=count)
            return instant if column.type.base != "date" else date(2030, 1, 1) + timedelta(days=count)
        case _:
            return f"t{count:07x}"[-(column.type.length or 40) :]
