"""Parts of a runbook as text, from what was seen of a table: each line reads back as what it was made from."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator
from decimal import Decimal

from orchestrator.model.contract import Before, Column, Default, ForeignKey, Index, IndexPart, TableName
from orchestrator.model.types import Family
from orchestrator.runbook.words import misread_word

_PLAIN = re.compile(r"[A-Za-z][A-Za-z0-9_.()-]*(?: [A-Za-z0-9_.()-]+)*")
# What JSON leaves as it is, and a reader of YAML refuses or takes for the end of a line.
_ESCAPED = re.compile("[\x7f-\x9f\u2028\u2029\ufeff\ufffe\uffff]")
# libyaml reads a key of this length at most, unless a question mark leads it.
_LONGEST_KEY = 1_000
_NUMBERS = frozenset({Family.INTEGER, Family.DECIMAL, Family.FLOAT, Family.YEAR, Family.BIT})
_BARE_NUMBER = re.compile(r"^-?(0|[1-9][0-9]{0,18})$")


def scalar(text: str) -> str:
    """The text as one YAML word, quoted where anybody could read it otherwise."""
    return text if _PLAIN.fullmatch(text) and not misread_word(text) else quoted(text)


def quoted(text: str) -> str:
    """The text between double quotes, on one line."""
    return _ESCAPED.sub(lambda sign: f"\\u{ord(sign[0]):04x}", json.dumps(text, ensure_ascii=False))


def flow(pairs: Iterable[tuple[str, str]]) -> str:
    """``{key: value, …}``; values are YAML already."""
    return "{" + ", ".join(f"{key}: {value}" for key, value in pairs) + "}"


def document(value: object) -> str:
    """What ``tree.read_document`` read, as text that reads back as the same; comments and spellings are gone."""
    return "\n".join(_block(value, "")) + "\n"


def _block(value: object, indent: str) -> Iterator[str]:
    match value:
        case dict() if value:
            for key, item in value.items():
                word = scalar(key)
                if len(word) > _LONGEST_KEY:
                    yield f"{indent}? {word}"
                    word = ""
                yield from _entry(f"{indent}{word}:", item, indent + "  ")
        case list() if value:
            for item in value:
                yield from _entry(f"{indent}-", item, indent + "  ")
        case _:
            yield f"{indent}{_word(value)}"


def _entry(head: str, item: object, indent: str) -> Iterator[str]:
    if isinstance(item, dict | list) and item:
        yield head
        yield from _block(item, indent)
    else:
        yield f"{head} {_word(item)}"


def _word(value: object) -> str:
    match value:
        case None:
            return "~"
        case bool():
            return "true" if value else "false"
        case str():
            return scalar(value)
        case Decimal():
            return f"{value:f}"
        case _:
            return str(value)  # whole numbers, and {} and []


def column_line(column: Column, table_collation: str) -> str:
    """One entry of columns; a collation is written where it is not the table's."""
    return flow(_column(column, table_collation))


def _column(column: Column, table_collation: str) -> Iterator[tuple[str, str]]:
    yield "name", scalar(column.name)
    yield "type", scalar(str(column.type))
    if not column.null:
        yield "null", "false"
    if column.default is not None:
        yield "default", _default(column.default, column)
    if column.collation is not None and column.collation != table_collation:
        yield "charset", column.charset or column.collation.split("_")[0]
        yield "collation", column.collation
    for key, flag in (("on_update", column.on_update), ("auto_increment", column.auto_increment)):
        if flag:
            yield key, "true"
    if column.generated is not None:
        yield "generated", scalar(column.generated)
        yield "stored", "true" if column.stored else "false"
    if column.invisible:
        yield "invisible", "true"
    if column.comment:
        yield "comment", scalar(column.comment)


def _default(default: Default, column: Column) -> str:
    if default.is_expression:
        now = default.text.startswith("CURRENT_TIMESTAMP")
        return (
            default.text.lower().replace("current_timestamp", "now")
            if now and "(" in default.text
            else ("now()" if now else flow([("sql", scalar(default.text))]))
        )
    if column.type.family in _NUMBERS and _BARE_NUMBER.match(default.text):
        return default.text
    return quoted(default.text)


def index_line(index: Index) -> str:
    """One entry of indexes."""
    pairs = [("name", scalar(index.name)), ("columns", "[" + ", ".join(_part(p) for p in index.parts) + "]")]
    pairs += [("unique", "true")] if index.unique else []
    pairs += [] if index.visible and not index.shown_last else [("visible", "last" if index.visible else "false")]
    pairs += [("kind", index.kind.lower())] if index.kind != "BTREE" else []
    return flow(pairs)


def _part(part: IndexPart) -> str:
    if part.expression is not None:
        return scalar(part.expression)
    name = part.column if re.fullmatch(r"[^\s(`]+", part.column) else "`" + part.column.replace("`", "``") + "`"
    prefix = f"({part.prefix})" if part.prefix else ""
    return scalar(f"{name}{prefix}{' desc' if part.descending else ''}")


def foreign_key_line(key: ForeignKey, schema: str, child: TableName | None = None) -> str:
    """One entry of foreign_keys; of children when ``child`` holds the key."""
    pairs = [("table", scalar(_table(child, schema)))] if child is not None else []
    parents = ", ".join(_name(c) for c in key.referenced_columns)
    pairs += [
        ("name", scalar(key.name)),
        ("columns", "[" + ", ".join(scalar(c) for c in key.columns) + "]"),
        ("references", scalar(f"{_table(key.references, schema)}({parents})")),
        ("on_delete", key.on_delete.lower()),
        ("on_update", key.on_update.lower()),
    ]
    return flow(pairs)


def _name(name: str) -> str:
    return name if re.fullmatch(r"[^\s.(),`]+", name) else "`" + name.replace("`", "``") + "`"


def _table(of: TableName, schema: str) -> str:
    return _name(of.name) if of.schema == schema else f"{_name(of.schema)}.{_name(of.name)}"


def before_lines(before: Before, schema: str) -> Iterator[str]:
    """``table.before`` as lines, indented as below ``table:``."""
    yield "  before:"
    if before.collation:
        yield f"    collation: {before.collation}"
    parts = (
        ("columns", [column_line(c, before.collation) for c in before.columns]),
        ("indexes", [index_line(i) for i in before.indexes]),
        ("foreign_keys", [foreign_key_line(f, schema) for f in before.foreign_keys]),
        ("children", [foreign_key_line(f, schema, t) for t, f in before.children]),
    )
    for name, lines in parts:
        if lines:
            yield f"    {name}:"
            yield from (f"      - {line}" for line in lines)
