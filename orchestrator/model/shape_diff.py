"""What a contract still misses in a live table, what is there already, and what is there but otherwise. Pure."""

from __future__ import annotations

from collections.abc import Sequence

from msgspec import Struct
from msgspec.structs import replace

from orchestrator.model.chooser import needs_a_second_step
from orchestrator.model.contract import Check, Column, Contract, ForeignKey, Index, IndexPart, Rename
from orchestrator.model.facts import Shape
from orchestrator.model.spelling import spelled, spelled_default


class Different(Struct, frozen=True):
    """A thing that exists under the wanted name and is otherwise than wanted; each reason is one short sentence."""

    name: str
    reasons: tuple[str, ...]

    def __str__(self) -> str:
        return f"{self.name}: {'; '.join(self.reasons)}"


class ShapeDiff(Struct, frozen=True):
    """Names are the contract's. ``*_missing`` are not there; ``*_equal`` are as wanted; ``*_different`` are otherwise.

    A change (widening) is missing while the column still has another type, whatever that type is. ``defaults_missing``:
    columns that are there as wanted but for their default expression, which is set after them. ``indexes_hidden``:
    built as wanted, and still to be shown.
    """

    columns_missing: tuple[Column, ...]
    columns_equal: tuple[Column, ...]
    columns_different: tuple[Different, ...]
    defaults_missing: tuple[Column, ...]
    changes_missing: tuple[Different, ...]
    changes_equal: tuple[Column, ...]
    indexes_missing: tuple[Index, ...]
    indexes_equal: tuple[Index, ...]
    indexes_hidden: tuple[Index, ...]
    indexes_different: tuple[Different, ...]
    foreign_keys_missing: tuple[ForeignKey, ...]
    foreign_keys_equal: tuple[ForeignKey, ...]
    foreign_keys_different: tuple[Different, ...]
    checks_missing: tuple[Check, ...]
    checks_equal: tuple[Check, ...]
    checks_different: tuple[Different, ...]
    renames_missing: tuple[Rename, ...]
    renames_equal: tuple[Rename, ...]
    renames_different: tuple[Different, ...]

    @property
    def complete(self) -> bool:
        """The live table holds all that the contract adds, exactly."""
        columns = self.columns_missing or self.changes_missing or self.defaults_missing or self.renames_missing
        indexes = self.indexes_missing or self.indexes_hidden
        return not (columns or indexes or self.foreign_keys_missing or self.checks_missing or self.different)

    @property
    def different(self) -> tuple[Different, ...]:
        """What no step of ours mends: it is there under our name and is somebody else's."""
        columns = self.columns_different + self.renames_different
        return columns + self.indexes_different + self.foreign_keys_different + self.checks_different

    @property
    def already_there(self) -> str:
        """What needs no step because the table has it as wanted, for a person; "" when nothing is."""
        kinds = (
            ("columns", [c.name for c in self.columns_equal]),
            ("renames", [r.new for r in self.renames_equal]),
            ("changes", [c.name for c in self.changes_equal]),
            ("indexes", [i.name for i in self.indexes_equal]),
            ("foreign keys", [f.name for f in self.foreign_keys_equal]),
            ("checks", [c.name for c in self.checks_equal]),
        )
        found = ", ".join(f"{kind} {' '.join(names)}" for kind, names in kinds if names)
        return f"already there as wanted, not added again: {found}" if found else ""


def compare_shape(contract: Contract, shape: Shape) -> ShapeDiff:
    """Sort all that the contract adds by what the live table has of it. Names compare as MySQL does, without case."""
    columns = [(c, _live_reasons(c, shape)) for c in contract.columns]
    changes = [(c, _live_reasons(c, shape)) for c in contract.changes]
    indexes = [(i, _live_index_reasons(i, shape)) for i in contract.indexes]
    keys = [(f, _live_key_reasons(f, shape)) for f in contract.foreign_keys]
    checks = [(c, check_reasons(c, shape)) for c in contract.checks]
    renames = [(r, _rename_reasons(r, shape)) for r in contract.renames_in_place]
    hidden = tuple(i for i, _ in indexes if is_hidden(i, shape))
    bare = tuple(c for c, r in columns if r and _lacks_its_default(c, shape))
    return ShapeDiff(
        columns_missing=tuple(c for c, r in columns if r is None),
        columns_equal=tuple(c for c, r in columns if r == ()),
        columns_different=tuple(Different(c.name, r) for c, r in columns if r and c not in bare),
        defaults_missing=bare,
        changes_missing=tuple(
            Different(c.name, ("there is no such column",) if r is None else r) for c, r in changes if r != ()
        ),
        changes_equal=tuple(c for c, r in changes if r == ()),
        indexes_missing=tuple(i for i, r in indexes if r is None),
        indexes_equal=tuple(i for i, r in indexes if r == ()),
        indexes_hidden=hidden,
        indexes_different=tuple(Different(i.name, r) for i, r in indexes if r and i not in hidden),
        foreign_keys_missing=tuple(f for f, r in keys if r is None),
        foreign_keys_equal=tuple(f for f, r in keys if r == ()),
        foreign_keys_different=tuple(Different(f.name, r) for f, r in keys if r),
        checks_missing=tuple(c for c, r in checks if r is None),
        checks_equal=tuple(c for c, r in checks if r == ()),
        checks_different=tuple(Different(c.name, r) for c, r in checks if r),
        renames_missing=tuple(r for r, reasons in renames if reasons is None),
        renames_equal=tuple(r for r, reasons in renames if reasons == ()),
        renames_different=tuple(Different(f"{r.old} → {r.new}", reasons) for r, reasons in renames if reasons),
    )


def _lacks_its_default(wanted: Column, shape: Shape) -> bool:
    return needs_a_second_step(wanted) and _live_reasons(replace(wanted, default=None), shape) == ()


def _rename_reasons(wanted: Rename, shape: Shape) -> tuple[str, ...] | None:
    """Why the rename is neither done nor to be done; () when it is done, None when it is to be done."""
    old, new = shape.column(wanted.old) is not None, shape.column(wanted.new) is not None
    if old != new:
        return None if old else ()
    return ("both columns are there",) if old else ("neither column is there",)


def is_hidden(wanted: Index, shape: Shape) -> bool:
    """Whether an index that is shown last was built as wanted and is not shown yet."""
    return wanted.shown_last and _live_index_reasons(replace(wanted, visible=False), shape) == ()


def check_reasons(wanted: Check, shape: Shape) -> tuple[str, ...] | None:
    """In what the live CHECK of that name is otherwise than wanted; None when there is none."""
    live = next((clause for name, clause in shape.checks if name.lower() == wanted.name.lower()), None)
    return None if live is None else _reasons([("condition", spelled(wanted.sql), spelled(live))])


def _live_reasons(wanted: Column, shape: Shape) -> tuple[str, ...] | None:
    live = shape.column(wanted.name)
    return None if live is None else column_reasons(wanted, live, shape)


def _live_index_reasons(wanted: Index, shape: Shape) -> tuple[str, ...] | None:
    live = shape.index(wanted.name)
    return None if live is None else index_reasons(wanted, live, shape)


def _live_key_reasons(wanted: ForeignKey, shape: Shape) -> tuple[str, ...] | None:
    live = shape.foreign_key(wanted.name)
    return None if live is None else key_reasons(wanted, live)


def column_reasons(wanted: Column, live: Column, shape: Shape) -> tuple[str, ...]:
    """In what the live column is otherwise than wanted; empty when it is as wanted.

    A character set and collation that ``wanted`` leaves out are the table's.
    """
    pairs: list[tuple[str, object, object]] = [
        ("type", str(wanted.type), str(live.type)),
        ("NULL", _yes(wanted.null), _yes(live.null)),
        ("default", spelled_default(wanted.default, wanted.type), spelled_default(live.default, live.type)),
        ("ON UPDATE", _yes(wanted.on_update), _yes(live.on_update)),
        ("generated as", spelled(wanted.generated), spelled(live.generated)),
        ("stored", _yes(wanted.stored), _yes(live.stored)),
        ("invisible", _yes(wanted.invisible), _yes(live.invisible)),
        ("AUTO_INCREMENT", _yes(wanted.auto_increment), _yes(live.auto_increment)),
    ]
    if live.charset is not None:
        pairs += _character_pairs(wanted, live, shape)
    return _reasons(pairs)


def column_changes(was: Column, live: Column, shape: Shape) -> tuple[str, ...]:
    """In what the values that the live column can hold are others than they were: type, NULL, character set, collation,
    and how it is generated. A default, a comment, a place or invisibility is none of that.

    A character set and collation that ``was`` leaves out are the table's.
    """
    pairs: list[tuple[str, object, object]] = [
        ("type", str(was.type), str(live.type)),
        ("NULL", _yes(was.null), _yes(live.null)),
        ("generated as", spelled(was.generated), spelled(live.generated)),
    ]
    if live.charset is not None:
        pairs += _character_pairs(was, live, shape)
    return _reasons(pairs, "was")


def _character_pairs(wanted: Column, live: Column, shape: Shape) -> list[tuple[str, object, object]]:
    if wanted.collation is None and wanted.charset is None:
        return [("collation", shape.collation, live.collation)]
    pairs: list[tuple[str, object, object]] = []
    if wanted.charset is not None:
        pairs.append(("character set", _charset(wanted.charset), live.charset))
    if wanted.collation is not None:
        pairs.append(("collation", wanted.collation.lower(), live.collation))
    return pairs


def _charset(name: str) -> str:
    return "utf8mb3" if name.lower() == "utf8" else name.lower()


def index_reasons(wanted: Index, live: Index, shape: Shape) -> tuple[str, ...]:
    """In what the live index is otherwise than wanted; a prefix as long as its column is none."""
    return _reasons(
        [
            ("parts", _parts(wanted, shape), _parts(live, shape)),
            ("unique", _yes(wanted.unique), _yes(live.unique)),
            ("visible", _yes(wanted.visible), _yes(live.visible)),
            ("kind", wanted.kind.upper(), live.kind.upper()),
        ]
    )


def key_reasons(wanted: ForeignKey, live: ForeignKey) -> tuple[str, ...]:
    """In what the live foreign key is otherwise than wanted; InnoDB's NO ACTION is RESTRICT."""
    return _reasons(
        [
            ("columns", _lower(wanted.columns), _lower(live.columns)),
            ("references", str(wanted.references), str(live.references)),
            ("referenced columns", _lower(wanted.referenced_columns), _lower(live.referenced_columns)),
            ("ON DELETE", _rule(wanted.on_delete), _rule(live.on_delete)),
            ("ON UPDATE", _rule(wanted.on_update), _rule(live.on_update)),
        ]
    )


def _reasons(pairs: Sequence[tuple[str, object, object]], said: str = "wanted") -> tuple[str, ...]:
    return tuple(f"{what} is {live}, {said} {wanted}" for what, wanted, live in pairs if wanted != live)


def _yes(flag: bool) -> str:
    return "yes" if flag else "no"


def _lower(names: Sequence[str]) -> str:
    return "(" + ", ".join(n.lower() for n in names) + ")"


def _rule(rule: str) -> str:
    return "RESTRICT" if rule.upper() == "NO ACTION" else rule.upper()


def _parts(index: Index, shape: Shape) -> str:
    return "(" + ", ".join(_part(p, shape) for p in index.parts) + ")"


def _part(part: IndexPart, shape: Shape) -> str:
    if part.expression is not None:
        shown = f"({spelled(part.expression)})"
    else:
        column = shape.column(part.column)
        whole = column is not None and part.prefix is not None and part.prefix == column.type.length
        shown = part.column.lower() + (f"({part.prefix})" if part.prefix and not whole else "")
    return shown + (" desc" if part.descending else "")
