"""The text of every statement that changes the shape of a table. Pure.

Each names the ALGORITHM and LOCK that the chooser gave its step, because without one the server falls back to a copy
in silence.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from msgspec.structs import replace

from orchestrator.model.contract import Column, Default, ForeignKey, Index, IndexPart, TableName
from orchestrator.model.copying import unquotable
from orchestrator.model.step import (
    AddCheck,
    AddColumns,
    AddForeignKey,
    AddIndex,
    ChangeColumn,
    DropCheck,
    DropColumns,
    DropForeignKey,
    DropIndex,
    ExclusiveDdlStep,
    GhostAlter,
    RenameColumn,
    SetDefault,
    ShowIndex,
)
from orchestrator.model.types import ColumnType, Family
from orchestrator.model.way import Way
from orchestrator.mysql.quote import literal, name, names, table

_NUMERIC = frozenset({Family.INTEGER, Family.DECIMAL, Family.FLOAT, Family.YEAR})
_CHARACTER = frozenset({Family.TEXT, Family.ENUM, Family.SET})
_NUMBER = re.compile(r"-?\d+(\.\d+)?([eE][+-]?\d+)?")
_BITS = re.compile(r"b'[01]+'|\d+", re.IGNORECASE)
_HEX = re.compile(r"0x([0-9a-f]{2})+", re.IGNORECASE)
_ALTER_TABLE = re.compile(r"\balter\s+(/\*.*?\*/\s*)?table\b", re.IGNORECASE | re.DOTALL)
# What gh-ost looks for in what is left of the clauses without its strings.
_STRING = re.compile(r"'[^']*'")
_OTHER_CLAUSE = re.compile(r"\b(change|drop|rename)\s|\bauto_increment\s*=", re.IGNORECASE)
_NOW = re.compile(r"(current_timestamp|now|localtime|localtimestamp)\s*(\(\s*\d?\s*\))?", re.IGNORECASE)


def alter(step: ExclusiveDdlStep, tag: str) -> str:
    """The one ALTER of the step; ``tag`` is the comment by which it is found again on the server.

    Raises ValueError when the step would copy the table: that is never done here.
    """
    return f"ALTER {tag} TABLE {table(step.table)} {', '.join(_clauses(step))}, {_named(step.way)}"


def alter_anyhow(steps: Sequence[ExclusiveDdlStep], of: TableName, tag: str) -> str:
    """All clauses in one ALTER without an algorithm: only for an empty scratch copy of what gh-ost shall change."""
    return f"ALTER {tag} TABLE {table(of)} {', '.join(c for step in steps for c in _clauses(step))}"


def _clauses(step: ExclusiveDdlStep) -> list[str]:
    match step:
        case AddColumns():
            return [f"ADD COLUMN {column_definition(c)}" for c in step.columns]
        case SetDefault(column=column):
            written = default_text(column.default, column.type) if column.default is not None else "NULL"
            return [f"ALTER COLUMN {name(column.name)} SET DEFAULT {written}"]
        case RenameColumn():
            return [f"RENAME COLUMN {name(step.old)} TO {name(step.new)}"]
        case ChangeColumn():
            after = replace(step.after, comment=step.after.comment or step.before.comment)
            return [f"MODIFY COLUMN {column_definition(after)}"]
        case AddIndex():
            return [f"ADD {index_definition(step.index)}"]
        case ShowIndex():
            return [f"ALTER INDEX {name(step.index.name)} VISIBLE"]
        case AddForeignKey():
            return [f"ADD {foreign_key_definition(step.foreign_key)}"]
        case AddCheck(check=check):
            return [f"ADD CONSTRAINT {name(check.name)} CHECK ({check.sql}) NOT ENFORCED"]
        case DropCheck():
            return [f"DROP CHECK {name(step.check.name)}"]
        case DropForeignKey():
            return [f"DROP FOREIGN KEY {name(step.foreign_key.name)}"]
        case DropIndex():
            return [f"DROP INDEX {name(step.index.name)}"]
        case DropColumns():
            return [f"DROP COLUMN {name(c.name)}" for c in step.columns]


def copy_clauses(step: GhostAlter) -> str:
    """What stands behind ALTER TABLE when a tool makes the change on a copy: all of it at once, no algorithm.

    Raises ValueError for what such a tool would read as something else: it takes its text apart by itself, sends it
    with several statements allowed, and knows a table's name only from words.
    """
    clauses = [f"ADD COLUMN {column_definition(c)}" for c in step.columns]
    for before, after in step.changes:
        whole = replace(after, comment=after.comment or before.comment)
        clauses.append(f"MODIFY COLUMN {column_definition(whole)}")
    clauses += [f"ADD {index_definition(i)}" for i in step.indexes]
    written = ", ".join(clauses) or "ENGINE=InnoDB"
    names = (*(c.name for c in step.columns), *(c.after for c in step.columns), *(i.name for i in step.indexes))
    if unsaid := unquotable(names):
        raise ValueError(f"a name with a quote or a control character: {unsaid}")
    if _OTHER_CLAUSE.search(_STRING.sub("", written)):
        raise ValueError("the word CHANGE, DROP, RENAME or AUTO_INCREMENT in a name, which would be read as a clause")
    if ";" in written:
        raise ValueError("a semicolon (in a default, a label or a comment), which would be read as a second statement")
    if _ALTER_TABLE.search(written):
        raise ValueError("the words ALTER TABLE (in a default, a label or a comment), which would be read as a command")
    if "\\" in written:
        raise ValueError(
            "a backslash (in a default, a label or a comment), whose meaning hangs on the server's sql_mode"
        )
    return written


def pins(step: ExclusiveDdlStep) -> tuple[tuple[str, str | int], ...]:
    """Session variables that the step's ALTER needs, set in its own session only."""
    # With the checks on, the server adds a foreign key by copying the table under a write lock.
    return (("foreign_key_checks", 0),) if isinstance(step, AddForeignKey) else ()


def _named(way: Way) -> str:
    if way.copies:
        raise ValueError(f"a table is never copied by an ALTER of ours ({way.reason})")
    return f"ALGORITHM={way.algorithm}" + (f", LOCK={way.lock}" if way.lock else "")


def column_definition(column: Column) -> str:
    """The whole definition: what is left out of a MODIFY is dropped in silence, so nothing that the value has is."""
    words = [name(column.name), column_type(column.type)]
    if column.type.family in _CHARACTER and column.charset:
        words.append(f"CHARACTER SET {_word(column.charset)}")
    if column.type.family in _CHARACTER and column.collation:
        words.append(f"COLLATE {_word(column.collation)}")
    if column.generated is not None:
        words.append(f"GENERATED ALWAYS AS ({column.generated}) {'STORED' if column.stored else 'VIRTUAL'}")
    words.append("NULL" if column.null else "NOT NULL")
    if column.default is not None and column.generated is None:
        words.append(f"DEFAULT {default_text(column.default, column.type)}")
    if column.on_update:
        words.append(f"ON UPDATE CURRENT_TIMESTAMP{_fraction(column.type)}")
    if column.auto_increment:
        words.append("AUTO_INCREMENT")
    if column.invisible:
        words.append("INVISIBLE")
    if column.comment:
        words.append(f"COMMENT {literal(column.comment)}")
    if column.after:
        words.append(f"AFTER {name(column.after)}")
    return " ".join(words)


def column_type(of: ColumnType) -> str:
    """The type as a statement spells it: labels are quoted for a statement, not as information_schema shows them."""
    if of.labels:
        return f"{of.base}({', '.join(literal(label) for label in of.labels)})"
    return str(of)


def default_text(default: Default, of: ColumnType) -> str:
    """A default as the type's grammar wants it: numbers bare, bits and bytes in their own form, the rest quoted."""
    written = default.text
    if default.is_expression:
        return written if _NOW.fullmatch(written.strip()) else f"({written})"
    if of.family in _NUMERIC and _NUMBER.fullmatch(written):
        return written
    if of.family is Family.BIT and _BITS.fullmatch(written):
        return written
    if of.family is Family.BINARY and _HEX.fullmatch(written):
        return written
    return literal(written)


def _fraction(of: ColumnType) -> str:
    return f"({of.length})" if of.length else ""


def _word(word: str) -> str:
    """A character set or collation. Raises ValueError on anything but letters, digits and underscores."""
    if not re.fullmatch(r"\w+", word, re.ASCII):
        raise ValueError(f"{word!r} is not the name of a character set or collation")
    return word


def index_definition(index: Index) -> str:
    kind = "" if index.kind.upper() in ("BTREE", "HASH", "") else f"{_word(index.kind.upper())} "
    unique = "UNIQUE " if index.unique else ""
    hidden = "" if index.visible and not index.shown_last else " INVISIBLE"
    return f"{unique}{kind}INDEX {name(index.name)} ({', '.join(_part(p) for p in index.parts)}){hidden}"


def _part(part: IndexPart) -> str:
    if part.expression is not None:
        written = f"({part.expression})"
    else:
        written = name(part.column) + (f"({part.prefix})" if part.prefix is not None else "")
    return written + (" DESC" if part.descending else "")


_RULES = ("RESTRICT", "CASCADE", "SET NULL", "NO ACTION")


def foreign_key_definition(key: ForeignKey) -> str:
    return (
        f"CONSTRAINT {name(key.name)} FOREIGN KEY ({names(key.columns)})"
        f" REFERENCES {table(key.references)} ({names(key.referenced_columns)})"
        f" ON DELETE {_rule(key.on_delete)} ON UPDATE {_rule(key.on_update)}"
    )


def _rule(rule: str) -> str:
    """Raises ValueError on a rule that InnoDB does not have."""
    if rule.upper() not in _RULES:
        raise ValueError(f"{rule!r} is not a rule of a foreign key")
    return rule.upper()


def count_orphans(of: TableName, key: ForeignKey, tag: str) -> str:
    """How many children name a parent that is not there. A key with any part NULL names none, as in the constraint."""
    return f"SELECT {tag} COUNT(*) {_orphans(of, key)}"


def sample_orphans(of: TableName, key: ForeignKey, walking_key: tuple[str, ...], tag: str) -> str:
    """Up to five of them: the parts of ``walking_key``, then the parts of the foreign key."""
    shown = ", ".join(f"c.{name(c)}" for c in (*walking_key, *key.columns))
    return f"SELECT {tag} {shown} {_orphans(of, key)} LIMIT 5"


def _orphans(of: TableName, key: ForeignKey) -> str:
    given = " AND ".join(f"c.{name(c)} IS NOT NULL" for c in key.columns)
    pairs = zip(key.columns, key.referenced_columns, strict=True)
    same = " AND ".join(f"p.{name(parent)} = c.{name(child)}" for child, parent in pairs)
    return f"FROM {table(of)} c WHERE {given} AND NOT EXISTS (SELECT 1 FROM {table(key.references)} p WHERE {same})"
