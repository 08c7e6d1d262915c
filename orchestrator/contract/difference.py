"""One difference between a contract and a target, and which kinds of them fail."""

from __future__ import annotations

from enum import Enum

from msgspec import Struct


class Kind(Enum):
    """What is otherwise. ``NAME``, ``ORDER`` and ``NEW_TABLE`` are told and do not fail: nothing is added to the
    contract's table, or lost or changed in it, by them."""

    TARGET_LACKS = "target-lacks"
    CONTRACT_LACKS = "contract-lacks"
    DIFFERS = "differs"
    NAME = "name"
    ORDER = "order"
    NEW_TABLE = "new-table"

    @property
    def fails(self) -> bool:
        return self not in (Kind.NAME, Kind.ORDER, Kind.NEW_TABLE)


class Difference(Struct, frozen=True):
    """One difference, in one sentence. ``line`` is the target's, 0 when it has none."""

    kind: Kind
    thing: str
    name: str
    told: str
    line: int = 0
