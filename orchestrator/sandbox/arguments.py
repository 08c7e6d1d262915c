"""Values for the placeholders of an operation, drawn anew for each run and the same for the same seed."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime, timedelta
from random import Random
from typing import Any

from orchestrator.model.keys import Key
from orchestrator.sandbox.mapping import TableModel
from orchestrator.sandbox.rows import Rows
from orchestrator.sandbox.statements import Statement, is_row
from orchestrator.sandbox.values import draw_json, draw_text

Arguments = dict[str, Any]
_BEGINNING = datetime(2026, 1, 1)


class NothingLeft(Exception):
    """No row of that kind is left for now; the application does something else. Internal."""


class Source:
    """Draws arguments for one worker. ``referred`` holds existing values for columns that refer to other tables."""

    def __init__(
        self,
        model: TableModel,
        rows: Rows,
        rng: Random,
        values: Mapping[str, Mapping[str, Any]],
        referred: Mapping[str, Sequence[Any]],
    ) -> None:
        self._model = model
        self._rows = rows
        self._rng = rng
        self._values = values
        self._referred = referred
        self._serial = 0
        self._mark = f"{rng.getrandbits(40):010x}"
        # Seeded rows have small numbers; each worker has a stretch of its own above them.
        self._first_serial = 10_000_000 + rng.getrandbits(10) * 200_000

    def draw(self, statements: Sequence[Statement]) -> tuple[Arguments, dict[str, Key]]:
        """Arguments for all placeholders, and the key behind each row placeholder. Raises NothingLeft."""
        args: Arguments = {}
        keys: dict[str, Key] = {}
        for name in dict.fromkeys(n for s in statements for n in s.placeholders):
            word, _, part = name.partition(".")
            if is_row(name):
                if word.startswith("claimed"):
                    continue
                key = keys[word] if word in keys else self._key(word, keys)
                keys[word] = key
                args[name] = key[self._model.key.index(part)] if part else key[0]
            elif part:
                args[name] = self._column(part)
            else:
                args[name] = self._named(name)
        return args, keys

    def _key(self, word: str, keys: Mapping[str, Key]) -> Key:
        for _ in range(20):
            key = self._rows.choose(word.rstrip("0123456789"), self._rng)
            if key is None:
                raise NothingLeft
            if key not in keys.values():
                return key
        raise NothingLeft

    def _column(self, name: str) -> Any:
        if name in self._referred:
            values = self._referred[name]
            return self._rng.choice(values) if values else None
        if name in self._model.unique:
            self._serial += 1
            return self._model.unique_value(name, self._first_serial + self._serial)
        return self._model.draw(self._rng, name)

    def _named(self, name: str) -> Any:
        rule = self._values.get(name) or self._values.get(name.rstrip("0123456789"))
        if rule is None:
            raise ValueError(f"nothing says what :{name} is")
        ((kind, argument),) = rule.items()
        return self._RULES[kind](self, argument)

    def _instant(self, digits: int) -> datetime:
        day = _BEGINNING + timedelta(seconds=self._rng.randint(0, 15_000_000))
        return day.replace(microsecond=self._rng.randint(0, 10**digits - 1) * 10 ** (6 - digits)) if digits else day

    def _unique(self, prefix: str) -> str:
        self._serial += 1
        return f"{prefix}{self._mark}{self._serial:06d}"

    def _pick(self, column: str) -> Any:
        values = self._referred.get(column)
        if not values:
            raise NothingLeft
        return self._rng.choice(values)

    _RULES: Mapping[str, Callable[[Source, Any], Any]] = {
        "one_of": lambda self, a: self._rng.choice(a),
        "integer": lambda self, a: self._rng.randint(a[0], a[1]),
        "text": lambda self, a: draw_text(self._rng, a),
        "json": lambda self, a: draw_json(self._rng) if a else json.dumps(None),
        "instant": lambda self, a: self._instant(a),
        "unique": lambda self, a: self._unique(a),
        "pick": lambda self, a: self._pick(a.lower()),
        "column": lambda self, a: self._column(a.lower()),
    }
