"""From files of DDL to tables, as a server would have them after running the files in this order.

Statements that make or change tables are done; statements about data, rights, views, routines and triggers are passed
over; anything else is a finding. The server is still the better parser (``drift --scratch``): a test holds the two
equal.
"""

from __future__ import annotations

from collections.abc import Sequence

from msgspec.structs import replace

from orchestrator.contract.ddl.alter import read_alter, table_option
from orchestrator.contract.ddl.columns import read_column
from orchestrator.contract.ddl.cursor import Cursor, keywords
from orchestrator.contract.ddl.draft import Draft
from orchestrator.contract.ddl.keys import add_carried, add_foreign_key, key_is_next, read_index_rest, read_key
from orchestrator.contract.ddl.statements import statements
from orchestrator.contract.target import Source, Target
from orchestrator.model.contract import ForeignKey, Index, TableName

_PASSED_OVER = keywords(
    "SET INSERT REPLACE UPDATE DELETE SELECT WITH START BEGIN COMMIT ROLLBACK LOCK UNLOCK ANALYZE OPTIMIZE FLUSH "
    "GRANT REVOKE SHOW CALL DO TRUNCATE SAVEPOINT CHECK HANDLER KILL PREPARE EXECUTE DEALLOCATE"
)
_OTHER_OBJECTS = keywords("DEFINER OR VIEW TRIGGER PROCEDURE FUNCTION EVENT USER ROLE ALGORITHM SQL SERVER")
_MAX_STATEMENTS = 20_000


def read_tables(sources: Sequence[Source], schema: str) -> tuple[Target, ...]:
    """Every table that there is in the end. ``schema``: where names without one belong, whatever USE says.

    Raises FileFindings with the file and line of the first thing that cannot be read.
    """
    reading = _Reading(schema)
    for source in sources:
        for number, statement in enumerate(statements(source.text, source.path)):
            cursor = Cursor(statement, source.path)
            if number >= _MAX_STATEMENTS:
                cursor.refuse(f"more than {_MAX_STATEMENTS} statements", "a file of DDL")
            reading.take(cursor)
    return reading.targets()


class _Reading:
    def __init__(self, schema: str) -> None:
        self._schema = schema
        self._drafts: dict[TableName, Draft] = {}
        self._paths: dict[TableName, str] = {}
        self._charset: tuple[str, str] = ("", "")

    def targets(self) -> tuple[Target, ...]:
        tables = frozenset(self._drafts)
        return tuple(
            Target(
                where=self._paths[name],
                shape=draft.shape(self._children(name)),
                lines=draft.lines | {("table", ""): draft.line},
                tables=tables,
            )
            for name, draft in self._drafts.items()
        )

    def _children(self, parent: TableName) -> tuple[tuple[TableName, ForeignKey], ...]:
        return tuple((n, f) for n, d in self._drafts.items() for f in d.foreign_keys if f.references == parent)

    def take(self, cursor: Cursor) -> None:
        """Do one statement."""
        if cursor.take("CREATE"):
            self._create(cursor)
        elif cursor.take("ALTER"):
            self._alter(cursor)
        elif cursor.take("DROP"):
            self._drop(cursor)
        elif cursor.take("RENAME", "TABLE"):
            self._rename(cursor)
        elif cursor.take("USE"):
            cursor.name("a schema")
        elif not any(cursor.next_is(word) for word in _PASSED_OVER):
            cursor.unexpected("a statement of MySQL that this reader knows")

    def _table(self, cursor: Cursor) -> TableName:
        """A table of this change: whatever schema the file names is the one that the contract is about."""
        return TableName(self._schema, cursor.table(self._schema).name)

    def _draft(self, cursor: Cursor) -> Draft:
        line = cursor.here()
        name = self._table(cursor)
        if name not in self._drafts:
            line.refuse(f"there is no table {name.name} here", "a table that an earlier statement made")
        return self._drafts[name]

    def _create(self, cursor: Cursor) -> None:
        if cursor.take_any("DATABASE", "SCHEMA"):
            self._database(cursor)
        elif cursor.take("TEMPORARY"):
            return
        elif cursor.take("TABLE"):
            self._create_table(cursor)
        elif any(cursor.next_is(word) for word in _OTHER_OBJECTS):
            return
        else:
            unique = cursor.take("UNIQUE")
            kind = cursor.take_any("FULLTEXT", "SPATIAL") or "BTREE"
            cursor.need("INDEX")
            name = cursor.name("the name of an index")
            if cursor.take("USING"):
                cursor.take_token()
            cursor.need("ON")
            draft = self._draft(cursor)
            read_index_rest(cursor, draft, Index(name, (), unique=unique, kind=kind))

    def _database(self, cursor: Cursor) -> None:
        cursor.take("IF", "NOT", "EXISTS")
        cursor.name("a schema")
        said = Draft(TableName("", ""), 0, charset="")
        while not cursor.done and table_option(cursor, said):
            pass
        self._charset = (said.charset, said.collation)

    def _create_table(self, cursor: Cursor) -> None:
        line = cursor.line
        if_missing = cursor.take("IF", "NOT", "EXISTS")
        at = cursor.here()
        name = self._table(cursor)
        if name in self._drafts:
            if if_missing:
                return
            at.refuse(f"the table {name.name} is made twice", "each table once")
        draft = Draft(name, line)
        if self._charset[0]:
            draft.charset, draft.collation = self._charset
        self._drafts[name], self._paths[name] = draft, cursor.path
        if cursor.take("LIKE") or cursor.take("(", "LIKE"):
            self._like(draft, self._draft(cursor))
            return
        cursor.need("(")
        _element(cursor, draft)
        while cursor.take(","):
            _element(cursor, draft)
        cursor.need(")")
        while not cursor.done:
            if not table_option(cursor, draft):
                cursor.unexpected("an option of the table that this reader knows")
            cursor.take(",")
        draft.settle()

    def _like(self, draft: Draft, other: Draft) -> None:
        draft.columns, draft.indexes = list(other.columns), list(other.indexes)
        draft.charset, draft.collation = other.charset, other.collation

    def _alter(self, cursor: Cursor) -> None:
        if not cursor.take("TABLE"):
            if cursor.take_any("DATABASE", "SCHEMA") or any(cursor.next_is(w) for w in _OTHER_OBJECTS):
                return
            cursor.unexpected("TABLE")
        draft = self._draft(cursor)
        renamed = read_alter(cursor, draft)
        draft.settle()
        if renamed is not None:
            self._move(draft.name, renamed.name)

    def _move(self, old: TableName, new: str) -> None:
        """Foreign keys of other tables follow, as the server has them follow."""
        draft = self._drafts.pop(old)
        name = TableName(self._schema, new)
        draft.name, self._drafts[name], self._paths[name] = name, draft, self._paths[old]
        for other in self._drafts.values():
            other.foreign_keys = [replace(f, references=name) if f.references == old else f for f in other.foreign_keys]

    def _drop(self, cursor: Cursor) -> None:
        if cursor.take("INDEX"):
            name = cursor.name()
            cursor.need("ON")
            draft = self._draft(cursor)
            draft.indexes = [i for i in draft.indexes if i.name.lower() != name.lower()]
        elif cursor.take("TABLE"):
            cursor.take("IF", "EXISTS")
            self._drafts.pop(self._table(cursor), None)
            while cursor.take(","):
                self._drafts.pop(self._table(cursor), None)

    def _rename(self, cursor: Cursor) -> None:
        while not cursor.done:
            old = self._draft(cursor).name
            cursor.need("TO")
            self._move(old, self._table(cursor).name)
            cursor.take(",")


def _element(cursor: Cursor, draft: Draft) -> None:
    """One column, index or constraint of CREATE TABLE."""
    if key_is_next(cursor):
        read_key(cursor, draft)
        return
    line = cursor.line
    defined = read_column(cursor)
    name = defined.column.name
    if draft.position(name) >= 0:
        cursor.refuse(f"the column {name} is there twice", "each column once")
    draft.put_column(defined.column)
    draft.lines["column", name.lower()] = line
    add_carried(defined, draft, line)
    if defined.references:
        add_foreign_key(cursor, draft, "", (name,))
