"""Empty copies of a family of tables in a schema of ours, to try on what production must not be tried with.

The whole family is copied, and foreign keys are made among the copies only: a key from a copy into production would
lock production (measured: 2.4 s for the parent's readers). The schema belongs to one rollout, so what a crash left is
found by its name and removed before the next copy is made, or by whoever clears what was half done. Whoever lives
and cannot remove his own has not done his work: nobody would come by again.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager, suppress

from msgspec import Struct
from msgspec.structs import replace

from orchestrator.model.contract import ForeignKey, TableName
from orchestrator.model.facts import Shape
from orchestrator.mysql import quote
from orchestrator.mysql.errno import ServerError
from orchestrator.mysql.session import Session
from orchestrator.mysql.shape import read_shape
from orchestrator.mysql.site import Site
from orchestrator.mysql.sql import family_copy as sql
from orchestrator.mysql.told import told

_TAG = "scratch"
_TAKEN = (
    "SELECT CONSTRAINT_NAME, TABLE_NAME FROM information_schema.TABLE_CONSTRAINTS WHERE CONSTRAINT_SCHEMA = %s"
    " AND TABLE_NAME <> %s AND CONSTRAINT_TYPE IN ('FOREIGN KEY', 'CHECK') AND CONSTRAINT_NAME IN ({names})"
)


class FamilyCopy(Struct, frozen=True):
    """``copies``: table of production → its copy, the rollout's own table first. ``shapes``: production as it is."""

    schema: str
    tag: str
    copies: dict[TableName, TableName]
    shapes: dict[TableName, Shape]

    def of(self, table: TableName) -> TableName:
        """The copy. Raises KeyError for a table that is not of the family."""
        return self.copies[table]

    def key(self, key: ForeignKey) -> ForeignKey | None:
        """The foreign key among the copies; None when its parent was not copied."""
        parent = self.copies.get(key.references)
        return replace(key, references=parent) if parent is not None else None

    @property
    def statements(self) -> tuple[str, ...]:
        """All that make the copies, in their order."""
        keys = (
            sql.add_foreign_key(self.copies[table], among, self.tag)
            for table, shape in self.shapes.items()
            for key in shape.foreign_keys
            if (among := self.key(key)) is not None
        )
        copies = (sql.copy_table(table, copy, self.tag) for table, copy in self.copies.items())
        return (sql.drop_schema(self.schema, self.tag), sql.create_schema(self.schema, self.tag), *copies, *keys)


def lay_out(site: Site, session: Session, family: Sequence[TableName]) -> FamilyCopy:
    """The copies as they would be made of the tables of ``family`` that exist. Reads only. Raises ServerError."""
    schema = copy_schema(site)
    shapes = {t: s for t in dict.fromkeys(family) if (s := read_shape(session, t)) is not None}
    copies: dict[TableName, TableName] = {}
    for table in shapes:
        # Tables of two schemas may have one name.
        twice = any(c.name == table.name for c in copies.values())
        copies[table] = TableName(schema, f"{table.name}_{len(copies)}" if twice else table.name)
    return FamilyCopy(schema, site.tag(_TAG), copies, shapes)


def taken_names(session: Session, table: TableName, names: Sequence[str]) -> tuple[str, ...]:
    """Constraints of other tables of the schema that have one of ``names``, as ``name (table)``: a constraint's name is
    the schema's, and no copy can show that. Raises ServerError."""
    if not names:
        return ()
    rows = session.query(_TAKEN.format(names=", ".join(["%s"] * len(names))), (table.schema, table.name, *names))
    return tuple(f"{name} ({of})" for name, of in rows)


def copy_schema(site: Site) -> str:
    return f"{site.settings.state_schema}_scratch_{site.runbook.id}"


@contextmanager
def family_copy(
    site: Site, family: Sequence[TableName], alive: Callable[[], object], *, sends: str = ""
) -> Iterator[tuple[Session, FamilyCopy]]:
    """Copies of all tables of ``family`` that exist, with the foreign keys among them; all gone afterwards.

    ``alive`` raises when we were taken for dead: it is asked once the session is there, because nothing fences what is
    said on it, and who took over ends the sessions that he finds. ``sends``: the file that the session may send. Raises
    PrivilegeMissing with the exact GRANT, ServerUnreachable, ConfigurationError.
    """
    session = site.connect(_TAG, sends=sends, reopens=False)
    tag, schema = site.tag(_TAG), copy_schema(site)
    try:
        with _telling(schema):
            session.pin("lock_wait_timeout", 1)
            planned = lay_out(site, session, family)
            alive()
        try:
            with _telling(schema):
                for statement in planned.statements:
                    session.execute(statement)
            yield session, planned
        except BaseException:
            # Cut off, perhaps by who took over: the copies of that name may be his by now.
            if session.connected:
                with suppress(ServerError):
                    session.execute(sql.drop_schema(schema, tag))
            raise
        with _telling(schema, "removed"):
            session.execute(sql.drop_schema(schema, tag))
    finally:
        session.close()


@contextmanager
def _telling(schema: str, doing: str = "made") -> Iterator[None]:
    try:
        yield
    except ServerError as error:
        raise told(error, f"while the scratch copy was {doing}", copy_grant(schema)) from error


def remove_family_copy(site: Site) -> None:
    """Whatever a crash left of the rollout's scratch copies is gone. Raises as ``family_copy`` does."""
    schema = copy_schema(site)
    with closing(site.connect(_TAG)) as session, _telling(schema, "removed"):
        session.execute(sql.drop_schema(schema, site.tag(_TAG)))


def copy_grant(schema: str) -> str:
    return f"GRANT ALL ON {quote.everything_in(schema)} TO this account (rollout doctor writes it out)"
