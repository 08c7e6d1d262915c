"""Indexes, foreign keys and checks: what stands in CREATE TABLE and after ADD alike."""

from __future__ import annotations

from orchestrator.contract.ddl.columns import Defined
from orchestrator.contract.ddl.cursor import Cursor
from orchestrator.contract.ddl.draft import Draft
from orchestrator.model.contract import ForeignKey, Index, IndexPart
from orchestrator.model.walking_key import PRIMARY

_BEGINS = ("CONSTRAINT", "PRIMARY", "UNIQUE", "INDEX", "KEY", "FULLTEXT", "SPATIAL", "FOREIGN", "CHECK")
_OPTIONS = ("KEY_BLOCK_SIZE", "ENGINE_ATTRIBUTE", "SECONDARY_ENGINE_ATTRIBUTE")


def key_is_next(cursor: Cursor) -> bool:
    """Whether an index, a foreign key or a check begins here, and not a column."""
    return any(cursor.next_is(word) for word in _BEGINS)


def read_key(cursor: Cursor, draft: Draft) -> None:
    """Add the index, foreign key or check that begins here."""
    line = cursor.line
    name = ""
    if cursor.take("CONSTRAINT") and not any(cursor.next_is(word) for word in _BEGINS):
        name = cursor.name()
    if cursor.take("PRIMARY", "KEY"):
        _add_index(cursor, draft, Index(PRIMARY, (), unique=True), line)
    elif cursor.take("FOREIGN", "KEY"):
        index_name = cursor.name() if cursor.name_is_next() else ""
        columns = _names(cursor)
        add_foreign_key(cursor, draft, name, columns, index_name)
    elif cursor.take("CHECK"):
        draft.checks.append((name, f"({cursor.bracketed()})"))
        cursor.take("NOT")
        cursor.take("ENFORCED")
    else:
        unique = cursor.take("UNIQUE")
        kind = cursor.take_any("FULLTEXT", "SPATIAL") or "BTREE"
        cursor.take_any("INDEX", "KEY")
        _add_index(cursor, draft, Index(name, (), unique=unique, kind=kind), line)


def add_carried(defined: Defined, draft: Draft, line: int) -> None:
    """What a column's own definition said beside it."""
    draft.checks += defined.checks
    part = (IndexPart(defined.column.name),)
    if defined.primary:
        _put(draft, Index(PRIMARY, part, unique=True), line)
    if defined.unique:
        _put(draft, Index(draft.free_index_name(defined.column.name), part, unique=True), line)


def add_foreign_key(cursor: Cursor, draft: Draft, name: str, columns: tuple[str, ...], index_name: str = "") -> None:
    """Add the key whose REFERENCES stands here. Its own index, if it needs one, is called ``index_name``, else as the
    key, else as its first column."""
    line = cursor.line
    cursor.need("REFERENCES")
    parent = cursor.table(draft.name.schema)
    parents = _names(cursor)
    rules = {"DELETE": "RESTRICT", "UPDATE": "RESTRICT"}
    if cursor.take("MATCH"):
        cursor.take_token()
    while cursor.take("ON"):
        event = cursor.take_any("DELETE", "UPDATE") or cursor.unexpected("DELETE or UPDATE")
        rules[event] = _rule(cursor)
    key = ForeignKey(name or draft.free_key_name(), columns, parent, parents, rules["DELETE"], rules["UPDATE"])
    draft.foreign_keys.append(key)
    draft.served_by[key.name.lower()] = index_name or name or draft.free_index_name(columns[0])
    draft.lines["foreign key", key.name.lower()] = line


def _rule(cursor: Cursor) -> str:
    if cursor.take("SET", "NULL"):
        return "SET NULL"
    if cursor.take("SET", "DEFAULT"):
        cursor.refuse("SET DEFAULT", "a rule that InnoDB has", "use RESTRICT, CASCADE or SET NULL")
    if cursor.take("NO", "ACTION"):
        return "RESTRICT"
    return cursor.take_any("CASCADE", "RESTRICT") or cursor.unexpected("CASCADE, RESTRICT or SET NULL")


def read_index_rest(cursor: Cursor, draft: Draft, index: Index) -> None:
    """Add an index whose parts stand here; its name was read before."""
    _add_index(cursor, draft, index, cursor.line)


def _add_index(cursor: Cursor, draft: Draft, index: Index, line: int) -> None:
    name = index.name
    if not name and not cursor.next_is("(") and not cursor.next_is("USING"):
        name = cursor.name("the name of an index")
    elif name == PRIMARY and cursor.name_is_next() and not cursor.next_is("USING"):
        cursor.name()
    _using(cursor)
    cursor.need("(")
    parts = [_part(cursor)]
    while cursor.take(","):
        parts.append(_part(cursor))
    cursor.need(")")
    visible = _options(cursor)
    named = name or draft.free_index_name(parts[0].column or "functional_index")
    _put(draft, Index(named, tuple(parts), unique=index.unique, visible=visible, kind=index.kind), line)


def _put(draft: Draft, index: Index, line: int) -> None:
    draft.indexes.append(index)
    draft.lines["index", index.name.lower()] = line


def _using(cursor: Cursor) -> str:
    """Go past USING: InnoDB makes every ordinary index a BTREE, whatever it says."""
    return cursor.take_any("BTREE", "HASH") if cursor.take("USING") or cursor.take("TYPE") else ""


def _options(cursor: Cursor) -> bool:
    """Read what follows the parts; whether the index is visible."""
    visible = True
    while True:
        if cursor.take("INVISIBLE"):
            visible = False
        elif cursor.take("COMMENT"):
            cursor.text()
        elif cursor.take("WITH", "PARSER"):
            cursor.name()
        elif cursor.take_any(*_OPTIONS):
            cursor.skip_value()
        elif not (cursor.take("VISIBLE") or _using(cursor)):
            return visible


def _part(cursor: Cursor) -> IndexPart:
    if cursor.next_is("("):
        part = IndexPart("", expression=f"({cursor.bracketed()})")
    else:
        name = cursor.name("a column of the index")
        part = IndexPart(name, _prefix(cursor))
    way = cursor.take_any("ASC", "DESC")
    return IndexPart(part.column, part.prefix, descending=way == "DESC", expression=part.expression)


def _prefix(cursor: Cursor) -> int | None:
    if not cursor.take("("):
        return None
    length = cursor.number()
    cursor.need(")")
    return length


def _names(cursor: Cursor) -> tuple[str, ...]:
    cursor.need("(")
    names = [cursor.name("a column")]
    while cursor.take(","):
        names.append(cursor.name("a column"))
    cursor.need(")")
    return tuple(names)
