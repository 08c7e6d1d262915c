"""How the server makes one ALTER: the algorithm and lock that are named in it, and what that uses up."""

from __future__ import annotations

from typing import Literal

from orchestrator.model.value import Value

Algorithm = Literal["INSTANT", "INPLACE", "COPY"]
Lock = Literal["", "NONE", "SHARED"]


class Way(Value, frozen=True):
    """``lock`` "" names none: the server refuses LOCK beside INSTANT (1221). ``row_version``: one of the table's few is
    used. ``rebuilds``: the whole table is written again, in place. ``reason``: why not a cheaper one."""

    algorithm: Algorithm
    lock: Lock = ""
    reason: str = ""
    row_version: bool = False
    rebuilds: bool = False

    @property
    def copies(self) -> bool:
        return self.algorithm == "COPY"

    @property
    def stops_writes(self) -> bool:
        """Whether every write of the application waits for as long as the statement works."""
        return self.lock == "SHARED"

    @property
    def is_cheap(self) -> bool:
        """Whether it neither rebuilds nor copies the table."""
        return not (self.copies or self.rebuilds)

    def __str__(self) -> str:
        return self.algorithm + (f" LOCK={self.lock}" if self.lock else "")


INSTANT = Way("INSTANT")
INSTANT_VERSION = Way("INSTANT", row_version=True)
INPLACE = Way("INPLACE", "NONE")
