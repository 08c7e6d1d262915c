"""The writes of a ledger, done once more in Python over what the table held in the beginning.

A write whose COMMIT was not answered leaves two possible rows; from then on both are followed.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from msgspec import Struct

from orchestrator.model.contract import ForeignKey
from orchestrator.model.facts import Shape
from orchestrator.model.keys import Key
from orchestrator.sandbox.mapping import UNKNOWN, Image, TableModel, default_value
from orchestrator.sandbox.statements import Kind, Statement, environment, with_values

# A row as it may be: its columns in lower case, or None when it does not exist. ``last:COLUMN`` says which column of
# that pair was written last.
Possible = list[Image | None]


class Write(Struct, frozen=True):
    """One write statement on one row. ``row``: which of an INSERT's rows it is; ``existed``: an upsert updates it."""

    number: int
    key: Key
    statement: Statement
    args: Mapping[str, Any]
    row: int = 0
    existed: bool = False
    certain: bool = True


class Turn(Struct, frozen=True):
    """A moment from which the new columns follow from the old ones again. ``dropped``: they were dropped in between."""

    number: int
    dropped: bool


class Replay:
    """Follows writes in the order of their numbers. ``beginning`` holds the old columns of every row, in model order.

    ``alone_from``: from that number on the mirror may be gone, so that no write promises its partner.
    """

    def __init__(
        self, model: TableModel, beginning: Mapping[Key, tuple[Any, ...]], nulled: Sequence[str], alone_from: float
    ) -> None:
        self._model = model
        self._beginning = beginning
        self._names = tuple(model.old_columns)
        self._nulled = nulled
        self._alone_from = alone_from
        self._rows: dict[Key, Possible] = {}
        self._children = self._first_children()
        self._blank: Image = {name: default_value(column) for name, column in model.columns.items()}

    def run(self, writes: Sequence[Write], turns: Sequence[Turn]) -> dict[Key, Possible]:
        """For each row that was written: the rows that it may be by now."""
        waiting = sorted(turns, key=lambda t: t.number)
        for write in sorted(writes, key=lambda w: w.number):
            while waiting and waiting[0].number < write.number:
                self._turn(waiting.pop(0))
            before = self._rows.get(write.key) or [self.first(write.key)]
            after = [self._applied(image, write) for image in before]
            self._rows[write.key] = after if write.certain else _distinct(before + after)
            self._cascade(write, after)
        for turn in waiting:
            self._turn(turn)
        return self._rows

    def _turn(self, turn: Turn) -> None:
        for image in (i for possible in self._rows.values() for i in possible if i is not None):
            if turn.dropped:
                _unset(self._model, image)
            for pair in self._model.pairs:
                pair.fill(image)
                image.pop(f"last:{pair.names[0]}", None)

    def first(self, key: Key) -> Image | None:
        """The row as it was when the traffic began, its new columns as the backfill fills them."""
        values = self._beginning.get(key)
        return None if values is None else filled(self._model, values)

    def _applied(self, image: Image | None, write: Write) -> Image | None:
        statement = write.statement
        env = environment(write.args)
        if statement.kind is Kind.DELETE:
            return None
        if statement.kind is Kind.INSERT and not write.existed:
            return self._inserted(self._given(write), write.number)
        if image is None:
            return None
        if statement.kind is Kind.INSERT:
            env = with_values(env, self._given(write))
        after = dict(image)
        for name, expr in statement.assigned:
            after[name] = self._model.kept(name, expr(env | after))
        return self._settled(image, after, {n for n, _ in statement.assigned}, write.number)

    def _given(self, write: Write) -> dict[str, Any]:
        """What an INSERT's row gives each column. A value may read a column that stands before it, or a default."""
        seen, given = environment(write.args) | self._blank, dict[str, Any]()
        for name, expr in write.statement.inserted[write.row].items():
            seen[name] = given[name] = expr(seen)
        return given

    def _inserted(self, given: Mapping[str, Any], number: int) -> Image:
        blank = self._blank
        after = blank | {name: self._model.kept(name, value) for name, value in given.items()}
        settled = self._settled(blank, after, set(given), number)
        for name in self._model.derived:
            if settled[name] == blank[name]:
                settled[name] = UNKNOWN
        if number > self._alone_from:
            settled |= {name: UNKNOWN for pair in self._model.pairs for name in pair.names if name not in given}
        return settled

    def _settled(self, before: Image, after: Image, written: set[str], number: int) -> Image:
        """What the mirror makes of a statement; columns that the server sets by itself become unknown."""
        for pair in self._model.pairs:
            old, new = pair.names
            pair.follow(before, after)
            if (old in written or new in written) and (before[old] != after[old] or before[new] != after[new]):
                after[f"last:{old}"] = new if new in written else old
            if number > self._alone_from:
                after |= {name: UNKNOWN for name in pair.names if name not in written and new in written}
        for name, column in self._model.columns.items():
            if column.on_update and name not in written:
                after[name] = UNKNOWN
        return after

    def _first_children(self) -> dict[tuple[str, Any], set[Key]]:
        children: dict[tuple[str, Any], set[Key]] = {}
        for at, name in enumerate(self._names):
            if name in self._nulled:
                for key, values in self._beginning.items():
                    if values[at] is not None:
                        children.setdefault((name, values[at]), set()).add(key)
        return children

    def _cascade(self, write: Write, after: Possible) -> None:
        """ON DELETE SET NULL of a foreign key from the table to itself."""
        for name in self._nulled:
            if write.statement.kind is Kind.DELETE:
                for child in self._children.pop((name, write.key[0]), ()):
                    possible = self._rows.get(child) or [self.first(child)]
                    cut = [i | {name: None} if i and i[name] == write.key[0] else i for i in possible]
                    self._rows[child] = cut if write.certain else _distinct(possible + cut)
            for image in after:
                if image is not None and image[name] is not None:
                    self._children.setdefault((name, image[name]), set()).add(write.key)


def filled(model: TableModel, values: Sequence[Any]) -> Image:
    """A row from its old columns, in model order: pairs as the backfill fills them, other new columns unset."""
    image: Image = dict(zip(model.old_columns, values, strict=True))
    _unset(model, image)
    for pair in model.pairs:
        pair.fill(image)
    return image


def _unset(model: TableModel, image: Image) -> None:
    """New columns as ALTER TABLE leaves them; what a derived one becomes is not followed."""
    for name, column in model.new_columns.items():
        image[name] = UNKNOWN if name in model.derived else default_value(column)


def nulled_columns(shape: Shape, added: Sequence[ForeignKey]) -> tuple[str, ...]:
    """Columns that refer to the table's own key and become NULL when that row is deleted."""
    key = tuple(k.lower() for k in shape.key)
    return tuple(
        f.columns[0].lower()
        for f in (*shape.foreign_keys, *added)
        if f.references == shape.table
        and f.on_delete.upper() == "SET NULL"
        and tuple(c.lower() for c in f.referenced_columns) == key
        and len(key) == 1
    )


def _distinct(possible: Possible) -> Possible:
    found: Possible = []
    for image in possible:
        if image not in found:
            found.append(image)
    return found
