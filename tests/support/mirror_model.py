"""The rules of SPEC §2 for one pair, written in Python from the text and not from the SQL: what a mirror must do."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum
from typing import Any

from orchestrator.model.contract import Column, Copy, Default, Expression, Mapping, Match, Unmapped, ValueMap, Winner
from orchestrator.model.types import parse_type


class Lost(Enum):
    """Why a direction gives no value."""

    UNMAPPED = "unmapped"
    UNFIT = "unfit"


Way = Callable[[Any], Any]


@dataclass(frozen=True)
class PairCase:
    """One kind of pair: its columns, its mapping, and what both directions give, as the test reads values back.

    ``values`` are what the application writes; ``read`` is SQL over ``{}`` that shows a stored value as the model does.
    """

    name: str
    old_ddl: str
    new_ddl: str
    forward: Any
    backward: Any
    f: Way
    b: Way
    old_values: tuple[Any, ...]
    new_values: tuple[Any, ...]
    old_default: Any = None
    new_default: Any = None
    read_old: str = "{}"
    read_new: str = "{}"
    is_instant: bool = False

    @property
    def old(self) -> str:
        return f"{self.name}_o"

    @property
    def new(self) -> str:
        return f"{self.name}_n"

    def mapping(self, winner: Winner) -> Mapping:
        ways = [
            Expression(w.sql.replace("OLD", self.old).replace("NEW", self.new)) if isinstance(w, Expression) else w
            for w in (self.forward, self.backward)
        ]
        return Mapping(new=self.new, old=self.old, forward=ways[0], backward=ways[1], on_conflict=winner)

    def new_column(self) -> Column:
        type_, null, default = self.new_ddl, True, None
        if " DEFAULT " in type_:
            type_, text = type_.split(" DEFAULT ")
            default = Default(text.strip("'"))
        if type_.endswith(" NOT NULL"):
            type_, null = type_.removesuffix(" NOT NULL"), False
        charset = None
        if " CHARACTER SET " in type_:
            type_, charset = type_.split(" CHARACTER SET ")
        return Column(name=self.new, type=parse_type(type_), null=null, default=default, charset=charset)

    def holds(self, old: Any, new: Any) -> bool:
        value = self.f(old)
        return not isinstance(value, Lost) and bool(value == new)

    def goes_back(self, old: Any, new: Any) -> bool:
        value = self.b(new)
        return not isinstance(value, Lost) and bool(value == old)

    def corresponds(self, old: Any, new: Any) -> bool:
        return self.holds(old, new) or self.goes_back(old, new)

    def _forth(self, old: Any, new: Any) -> tuple[Any, Any]:
        value = self.f(old)
        return old, new if isinstance(value, Lost) else value

    def _back(self, old: Any, new: Any) -> tuple[Any, Any]:
        value = self.b(new)
        return old if isinstance(value, Lost) else value, new

    def filled(self, old: Any, new: Any) -> tuple[Any, Any]:
        """After a fill while the old column is the truth."""
        return self._forth(old, new)

    def inserted(self, old: Any, new: Any, winner: Winner) -> tuple[Any, Any]:
        return self._after(old, new, old != self.old_default, new != self.new_default, winner)

    def updated(self, before: tuple[Any, Any], after: tuple[Any, Any], winner: Winner) -> tuple[Any, Any]:
        return self._after(*after, before[0] != after[0], before[1] != after[1], winner)

    def _after(self, old: Any, new: Any, old_said: bool, new_said: bool, winner: Winner) -> tuple[Any, Any]:
        if self.corresponds(old, new):
            return old, new
        if old_said and new_said:
            return self._back(old, new) if winner is Winner.NEW else self._forth(old, new)
        if new_said:
            return self._back(old, new)
        if old_said or new is None or new == self.new_default:
            return self._forth(old, new)
        return old, new

    def unset(self, new: Any) -> bool:
        return new is None or new == self.new_default

    def mismatch(self, old: Any, new: Any, old_is_truth: bool) -> str | None:
        if self.holds(old, new) or (not old_is_truth and self.goes_back(old, new)):
            return None
        there, back = self.f(old), self.b(new)
        if old_is_truth or self.unset(new):
            if isinstance(there, Lost):
                return there.value
            return "missing" if self.unset(new) else "stale"
        return back.value if isinstance(back, Lost) else "conflict"

    def breaks_on_return(self, old: Any) -> bool:
        """Whether a known value does not come back: f(b(f(o))) is not f(o)."""
        there = self.f(old)
        if isinstance(there, Lost):
            return False
        back = self.b(there)
        return isinstance(back, Lost) or self.f(back) != there

    def keeps_on_return(self, new: Any) -> bool:
        """What the way back carries of the new value: all of it (True), or not."""
        back = self.b(new)
        if isinstance(back, Lost):
            return back is Lost.UNMAPPED and new is None
        return self.holds(back, new)


def value_map(values: dict[Any, Any], default: Any = Lost.UNMAPPED) -> Way:
    return lambda value: values.get(value, default)


def spec(values: dict[Any, Any], unmapped: Unmapped = Unmapped.REFUSE, match: Match = Match.EXACT) -> ValueMap:
    def text(value: Any) -> str | None:
        return None if value is None else str(value)

    return ValueMap(tuple((text(k), text(v)) for k, v in values.items()), unmapped, match)


COPY = Copy()
