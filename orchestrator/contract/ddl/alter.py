"""The clauses of ALTER TABLE, each done to the draft of its table."""

from __future__ import annotations

from msgspec.structs import replace

from orchestrator.contract.ddl.columns import charset_name, read_column, read_default
from orchestrator.contract.ddl.cursor import Cursor, keywords
from orchestrator.contract.ddl.draft import Draft
from orchestrator.contract.ddl.keys import add_carried, add_foreign_key, key_is_next, read_key
from orchestrator.model.contract import Index, TableName
from orchestrator.model.walking_key import PRIMARY

_SET_OPTIONS = keywords(
    "ENGINE ROW_FORMAT COMMENT AUTO_INCREMENT KEY_BLOCK_SIZE STATS_PERSISTENT STATS_AUTO_RECALC STATS_SAMPLE_PAGES "
    "ENCRYPTION COMPRESSION MAX_ROWS MIN_ROWS AVG_ROW_LENGTH CHECKSUM DELAY_KEY_WRITE PACK_KEYS TABLESPACE "
    "ENGINE_ATTRIBUTE SECONDARY_ENGINE_ATTRIBUTE AUTOEXTEND_SIZE INSERT_METHOD CONNECTION ALGORITHM LOCK"
)
_NOTHING = (("FORCE",), ("ENABLE", "KEYS"), ("DISABLE", "KEYS"), ("WITHOUT", "VALIDATION"), ("WITH", "VALIDATION"))


def read_alter(cursor: Cursor, draft: Draft) -> TableName | None:
    """Do every clause; the table's new name when it was renamed."""
    renamed: TableName | None = None
    while not cursor.done:
        if cursor.take("RENAME"):
            renamed = _rename(cursor, draft) or renamed
        elif not (_structure(cursor, draft) or table_option(cursor, draft)):
            cursor.unexpected("a clause of ALTER TABLE that this reader knows")
        cursor.take(",")
    return renamed


def _structure(cursor: Cursor, draft: Draft) -> bool:
    if cursor.take("ADD"):
        _add(cursor, draft)
    elif cursor.take("DROP"):
        _drop(cursor, draft)
    elif cursor.take("MODIFY"):
        cursor.take("COLUMN")
        _define(cursor, draft, _column_there(cursor.here(), draft))
    elif cursor.take("CHANGE"):
        cursor.take("COLUMN")
        old = _column_there(cursor, draft)
        draft.rename_column(old, cursor.here().name())
        _define(cursor, draft, cursor.here().name())
    elif cursor.take("ALTER"):
        _alter(cursor, draft)
    else:
        return any(cursor.take(*words) for words in _NOTHING)
    return True


def _column_there(cursor: Cursor, draft: Draft) -> str:
    name = cursor.name("the name of a column")
    if draft.position(name) < 0:
        cursor.refuse(f"{draft.name.name} has no column {name} here", "a column that an earlier statement made")
    return name


def _add(cursor: Cursor, draft: Draft) -> None:
    if key_is_next(cursor):
        read_key(cursor, draft)
        return
    cursor.take("COLUMN")
    if not cursor.take("("):
        _define(cursor, draft, None)
        return
    _define(cursor, draft, None)
    while cursor.take(","):
        _define(cursor, draft, None)
    cursor.need(")")


def _define(cursor: Cursor, draft: Draft, instead_of: str | None) -> None:
    """Read one definition with its place, and put it into the draft."""
    line = cursor.line
    defined = read_column(cursor)
    name = defined.column.name
    if instead_of is None and draft.position(name) >= 0:
        cursor.refuse(f"{draft.name.name} has a column {name} already", "each column once")
    place = draft.position(instead_of) if instead_of is not None else None
    if instead_of is not None:
        del draft.columns[draft.position(instead_of)]
    if cursor.take("FIRST"):
        place = 0
    elif cursor.take("AFTER"):
        place = draft.position(_column_there(cursor, draft)) + 1
    draft.put_column(defined.column, place)
    draft.lines["column", name.lower()] = line
    add_carried(defined, draft, line)
    if defined.references:
        add_foreign_key(cursor, draft, "", (name,))


def _drop(cursor: Cursor, draft: Draft) -> None:
    if cursor.take("PRIMARY", "KEY"):
        draft.indexes = [i for i in draft.indexes if i.name != PRIMARY]
    elif cursor.take("FOREIGN", "KEY"):
        name = cursor.name()
        draft.foreign_keys = [f for f in draft.foreign_keys if f.name.lower() != name.lower()]
    elif cursor.take("INDEX") or cursor.take("KEY"):
        name = cursor.name()
        draft.indexes = [i for i in draft.indexes if i.name.lower() != name.lower()]
    elif cursor.take("CHECK"):
        _drop_check(cursor.name(), draft)
    elif cursor.take("CONSTRAINT"):
        name = cursor.name()
        _drop_check(name, draft)
        draft.foreign_keys = [f for f in draft.foreign_keys if f.name.lower() != name.lower()]
        draft.indexes = [i for i in draft.indexes if i.name.lower() != name.lower() or not i.unique]
    else:
        cursor.take("COLUMN")
        draft.drop_column(_column_there(cursor, draft))


def _drop_check(name: str, draft: Draft) -> None:
    draft.checks = [c for c in draft.checks if c[0].lower() != name.lower()]


def _alter(cursor: Cursor, draft: Draft) -> None:
    if cursor.take("INDEX"):
        name = cursor.name()
        visible = cursor.take("VISIBLE")
        if not visible:
            cursor.need("INVISIBLE")
        draft.indexes = [replace(i, visible=visible) if i.name.lower() == name.lower() else i for i in draft.indexes]
        return
    if cursor.take("CHECK") or cursor.take("CONSTRAINT"):
        cursor.refuse("ENFORCED or NOT ENFORCED of a check", "DDL that this reader knows")
    cursor.take("COLUMN")
    at = draft.position(_column_there(cursor, draft))
    column = draft.columns[at]
    if cursor.take("DROP", "DEFAULT"):
        draft.columns[at] = replace(column, default=None)
    elif cursor.take("SET", "DEFAULT"):
        draft.columns[at] = replace(column, default=read_default(cursor, column.type))
    elif cursor.take("SET", "INVISIBLE") or cursor.take("SET", "VISIBLE"):
        draft.columns[at] = replace(column, invisible=not column.invisible)
    else:
        cursor.unexpected("SET DEFAULT, DROP DEFAULT, SET VISIBLE or SET INVISIBLE")


def _rename(cursor: Cursor, draft: Draft) -> TableName | None:
    if cursor.take("COLUMN"):
        old = _column_there(cursor, draft)
        cursor.need("TO")
        draft.rename_column(old, cursor.name())
        return None
    if cursor.take("INDEX") or cursor.take("KEY"):
        old_name = cursor.name()
        cursor.need("TO")
        new_name = cursor.name()
        draft.indexes = [_named(i, old_name, new_name) for i in draft.indexes]
        return None
    cursor.take_any("TO", "AS")
    return cursor.table(draft.name.schema)


def _named(index: Index, old: str, new: str) -> Index:
    return replace(index, name=new) if index.name.lower() == old.lower() else index


def table_option(cursor: Cursor, draft: Draft) -> bool:
    """Read one option of the table; False when none stands here."""
    if cursor.take("CONVERT", "TO"):
        _convert(cursor, draft)
        return True
    cursor.take("DEFAULT")
    if cursor.take("CHARACTER", "SET") or cursor.take("CHARSET"):
        cursor.take("=")
        draft.charset, draft.collation = charset_name(cursor), ""
    elif cursor.take("COLLATE"):
        cursor.take("=")
        draft.collation = charset_name(cursor)
        draft.charset = draft.collation.split("_")[0]
    elif cursor.take("ENGINE"):
        cursor.take("=")
        draft.engine = cursor.name("an engine")
    elif cursor.take("PARTITION", "BY"):
        draft.partitioned = True
        while not cursor.done:
            cursor.take_token()
    elif cursor.take_any(*_SET_OPTIONS) or cursor.take("DATA", "DIRECTORY") or cursor.take("INDEX", "DIRECTORY"):
        cursor.skip_value()
    else:
        return False
    return True


def _convert(cursor: Cursor, draft: Draft) -> None:
    """CONVERT TO CHARACTER SET … also rewrites every text column."""
    if not (cursor.take("CHARACTER", "SET") or cursor.take("CHARSET")):
        cursor.unexpected("CHARACTER SET")
    draft.charset, draft.collation = charset_name(cursor), ""
    if cursor.take("COLLATE"):
        draft.collation = charset_name(cursor)
    draft.columns = [replace(c, charset=None, collation=None) for c in draft.columns]
