"""The proof of compatibility: every statement of every version, in every shape that it meets, on scratch copies.

The whole family of the table is copied, and every table beside it that a statement names; production is neither locked
nor written. What comes out is the read/write matrix.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing

from msgspec import Struct, field

from orchestrator.errors import RunbookError
from orchestrator.model.contract import Contract, TableName
from orchestrator.model.facts import Shape
from orchestrator.model.matrix import (
    SHAPES,
    VERSIONS,
    Failure,
    Hazard,
    HazardKind,
    Matrix,
    ShapeName,
    Spoken,
    Version,
)
from orchestrator.model.runbook import Runbook
from orchestrator.mysql.captured import names
from orchestrator.mysql.declared import Declared
from orchestrator.mysql.errno import ServerError
from orchestrator.mysql.family_copy import FamilyCopy, copy_grant, copy_schema, family_copy
from orchestrator.mysql.mirror_trial import client_settings, lay_triggers
from orchestrator.mysql.naming import named_columns
from orchestrator.mysql.relation import Relation, load_relation
from orchestrator.mysql.session import Session
from orchestrator.mysql.shape import read_shape
from orchestrator.mysql.shape_walk import ShapeWalk
from orchestrator.mysql.site import Site
from orchestrator.mysql.sql import statement_trial as sql
from orchestrator.mysql.statement_trial import Fared, Judged, StatementTrial, judged
from orchestrator.mysql.told import told

_Key = tuple[Version, str]


class Statements(Struct, frozen=True):
    """``said``: by version. ``captured``: those of them that the server told: it took them, so one that cannot be
    prepared from the first was only written out wrong."""

    said: Mapping[Version, Sequence[str]]
    captured: frozenset[str] = frozenset()
    notes: tuple[str, ...] = ()

    @property
    def keys(self) -> tuple[_Key, ...]:
        return tuple((v, text) for v in VERSIONS for text in dict.fromkeys(self.said.get(v, ())))

    @property
    def texts(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(text for _, text in self.keys))


_FIRST: dict[Version, ShapeName] = {"old": ShapeName.BEFORE, "new": ShapeName.EXPANDED}
# What cannot be prepared after ddl names its columns where they are as they were.
_NAMED_IN = (ShapeName.EXPANDED, ShapeName.DROPPED)


class _Found(Struct):
    """``fared``: by shape, version and text; ``names``: version and text → columns, in lower case; ``shapes``: of the
    copy."""

    fared: dict[ShapeName, dict[_Key, Fared]] = field(default_factory=dict)
    names: dict[_Key, frozenset[str]] = field(default_factory=dict)
    shapes: dict[ShapeName, Shape] = field(default_factory=dict)
    said: dict[_Key, Declared] = field(default_factory=dict)
    unproven: list[str] = field(default_factory=list)


def declared_statements(contract: Contract) -> Statements:
    """What the runbook itself says of each version."""
    return Statements({"old": contract.old_statements, "new": contract.new_statements})


def statement_family(session: Session, contract: Contract, texts: Sequence[str]) -> tuple[TableName, ...]:
    """The table, its relatives now and after ddl, and every other table of its schema that a statement names.

    Raises ServerError.
    """
    shape = read_shape(session, contract.table)
    family = shape.family if shape is not None else (contract.table,)
    words = {name for text in texts for name in names(text)}
    beside = session.query(sql.tables_called(len(words)), (contract.table.schema, *sorted(words))) if words else []
    named = (TableName(contract.table.schema, str(n)) for (n,) in beside)
    return tuple(dict.fromkeys((*family, *(f.references for f in contract.foreign_keys), *named)))


def prove(site: Site, statements: Statements) -> Matrix:
    """The matrix of those statements for the contract of ``site``. Writes only to the rollout's scratch schema, which
    is gone afterwards. Raises PrivilegeMissing with the GRANT, RunbookError, ServerUnreachable, ConfigurationError."""
    contract = site.runbook.contract
    try:
        with closing(site.connect("look")) as look:
            family = statement_family(look, contract, statements.texts)
            server = str(look.value("SELECT VERSION()"))
        # No lease is held for a proof: nothing of production is written.
        with family_copy(site, family, lambda: None) as (session, here):
            if contract.table not in here.copies:
                raise RunbookError(
                    f"there is no table {contract.table}", "the table that the runbook names", "correct table: in it"
                )
            found = _Walk(session, here, site.runbook).through(statements.keys)
    except ServerError as error:
        doing = "while the declared statements were tried on scratch copies"
        raise told(error, doing, copy_grant(copy_schema(site))) from error
    return _matrix(site, server, statements, found, here)


class _Walk:
    """All statements through all shapes of one copy. Raises ServerError, RunbookError."""

    def __init__(self, session: Session, here: FamilyCopy, runbook: Runbook) -> None:
        contract = self._contract = runbook.contract
        self._session, self._here = session, here
        live = here.shapes[contract.table]
        ours = runbook.phases.shadow == "triggers"
        relation = load_relation(session, contract, live) if ours else Relation((), ())
        self._copy = ShapeWalk(session, here, contract, relation)
        self._trial = StatementTrial(session, here, contract)
        # Without any mode nothing fails that passes under one.
        self._modes = tuple(dict.fromkeys(s.sql_mode for s in client_settings(session) if s.sql_mode)) or ("",)
        self._found = _Found()

    def through(self, keys: Sequence[_Key]) -> _Found:
        found = self._found
        for name in SHAPES:
            shape = found.shapes[name] = self._copy.enter(name)
            if name is ShapeName.BEFORE:
                self._trial.lay_rows(shape)
                # After the rows: how the application refuses a sample value is its own affair.
                found.unproven += lay_triggers(self._session, self._here)
            found.fared[name] = {key: self._trial.fared(key[1], shape, self._modes) for key in keys}
            if name in _NAMED_IN:
                self._name(name)
        return found

    def _name(self, name: ShapeName) -> None:
        """What each statement names that was not named yet. One that cannot be prepared here is asked in another
        shape."""
        found, shape = self._found, self._found.shapes[name]
        self._session.execute("SET SESSION sql_mode = 'NO_ENGINE_SUBSTITUTION'")
        self._session.execute(sql.use(self._here.schema))
        asked = {}
        for key, fared in found.fared[name].items():
            if key in found.names:
                continue
            said = found.said[key] = self._trial.bound(key[1], shape)
            if (fared.passed or fared.executing) and not said.problem:
                asked[key] = said
        copy, said_once = self._here.of(self._contract.table), list(dict.fromkeys(asked.values()))
        named = named_columns(self._session, copy, self._here.tag, shape, said_once)
        found.names |= {key: named[said.text] for key, said in asked.items()}


def _matrix(site: Site, server: str, statements: Statements, found: _Found, here: FamilyCopy) -> Matrix:
    after, before = found.shapes[ShapeName.EXPANDED], found.shapes[ShapeName.BEFORE]
    columns = tuple(dict.fromkeys(c.name for c in (*after.columns, *before.columns)))
    failures, unproven = _judgements(found, statements.captured)
    contract = site.runbook.contract
    return Matrix(
        digest=site.runbook.digest,
        server=server,
        columns=columns,
        statements=tuple(_spoken(key, found, columns) for key in found.said),
        failures=(*failures, *_natural_joins(contract, found, here)),
        hazards=tuple(_hazards(contract, found)),
        unproven=tuple(dict.fromkeys((*statements.notes, *found.unproven, *unproven))),
    )


def _judgements(found: _Found, captured: frozenset[str]) -> tuple[list[Failure], list[str]]:
    failures, unproven = [], []
    for name in SHAPES:
        for (version, text), here in found.fared[name].items():
            first = found.fared[_FIRST[version]][version, text]
            says = judged(first, here)
            if text in captured and not first.passed:
                says = Judged.UNPROVEN
            match says:
                case Judged.FAILS:
                    failures.append(Failure(version, name, text, here.number, here.text))
                case Judged.UNPROVEN if name is _FIRST[version]:
                    said = here.left_out or f"{here.number} {here.text} with our sample values: {text}"
                    unproven.append(f"{version}: {said}")
                case _ if here.left_out and name is _FIRST[version]:
                    unproven.append(f"{version}: {here.left_out}")
                case _:
                    pass
    return failures, unproven


def _spoken(key: _Key, found: _Found, columns: Sequence[str]) -> Spoken:
    version, text = key
    says, names = found.said[key].says, found.names.get(key, frozenset())
    after = {c.name.lower() for c in found.shapes[ShapeName.EXPANDED].columns}
    whole = after if says.takes_all else frozenset[str]()
    written = after if says.lists_nothing else says.writes & names
    read = (names & says.mentions) | whole
    return Spoken(
        version,
        text,
        reads=tuple(c for c in columns if c.lower() in read),
        writes=tuple(c for c in columns if c.lower() in written),
    )


def _hazards(contract: Contract, found: _Found) -> Iterator[Hazard]:
    more, renamed = len(contract.columns), contract.renames_in_place
    told_ = f"it gives {more} more columns after ddl" + (
        f", and {', '.join(f'{r.old} as {r.new}' for r in renamed)}" if renamed else ""
    )
    for (version, text), said in found.said.items():
        if said.says.takes_all:
            yield Hazard(version, HazardKind.SELECT_STAR, text, told_)
        if said.says.lists_nothing and said.says.target == contract.table.name.lower():
            yield Hazard(
                version, HazardKind.INSERT_WITHOUT_COLUMNS, text, "it fails with 1136 when a column comes or goes"
            )
        if said.says.joins_naturally:
            yield Hazard(
                version, HazardKind.NATURAL_JOIN, text, "it joins by every column that both tables have, new ones too"
            )


def _natural_joins(contract: Contract, found: _Found, here: FamilyCopy) -> Iterator[Failure]:
    """No error shows that a NATURAL JOIN joins by one column more, or less."""
    added = {c.name.lower() for c in contract.columns} | {r.new.lower() for r in contract.renames_in_place}
    gone = {r.old.lower() for r in contract.renames_in_place}
    for (version, text), said in found.said.items():
        if not said.says.joins_naturally:
            continue
        for table, shape in here.shapes.items():
            both = {c.name.lower() for c in shape.columns} & (added | gone)
            if table != contract.table and table.name.lower() in said.says.mentions and both:
                told_ = f"NATURAL JOIN would join by other columns ({', '.join(sorted(both))}, which {table.name} has)"
                for name in (ShapeName.EXPANDED, ShapeName.MIRRORED, ShapeName.ROLLED_BACK):
                    yield Failure(version, name, text, 0, told_)
