"""From forms to the model: what a contract says, and the rules between its keys that no single key can hold."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

from orchestrator.model.contract import (
    Before,
    Check,
    Column,
    Contract,
    Copy,
    Expression,
    ForeignKey,
    Index,
    IndexPart,
    Invariant,
    Mapping,
    Match,
    Rename,
    RenameWay,
    TableName,
    Transform,
    Unmapped,
    ValueMap,
    Winner,
)
from orchestrator.model.findings import Finding, Wrong
from orchestrator.runbook import forms
from orchestrator.runbook.defaults import read_default
from orchestrator.runbook.forms_settings import RunbookForm
from orchestrator.runbook.tree import Document, Path

_PART = re.compile(
    r"^(?P<name>`(?:[^`]|``)+`|[^\s(]+)\s*(?:\((?P<prefix>[1-9][0-9]{0,4})\))?\s*(?P<way>asc|desc)?$", re.I
)
_EXPRESSION = re.compile(r"^\((?P<sql>.+)\)\s*(?P<way>asc|desc)?$", re.I | re.DOTALL)
_TABLE = re.compile(r"^\s*(?:(?P<schema>`(?:[^`]|``)+`|[^\s.`]+)\.)?(?P<table>`(?:[^`]|``)+`|[^\s.`]+)\s*$")
_REFERENCE = re.compile(
    r"^\s*(?:(?P<schema>`(?:[^`]|``)+`|[^\s.(`]+)\.)?(?P<table>`(?:[^`]|``)+`|[^\s.(`]+)\s*\((?P<columns>[^()]+)\)\s*$"
)


class Builder:
    """Builds one contract; what is wrong between keys is collected in ``findings``, each with its line."""

    def __init__(self, document: Document) -> None:
        self._document = document
        self.findings: list[Finding] = []

    def note(self, path: Path, seen: str, expected: str, next: str) -> None:
        self.findings.append(Finding(self._document.line(path), seen, expected, next))

    def contract(self, form: RunbookForm) -> Contract:
        """The contract. Meaningful only while ``findings`` stays empty."""
        added = form.contract
        table = TableName(form.table.schema_, form.table.name)
        adds = added.columns or added.changes or added.indexes or added.foreign_keys or added.checks
        if not (adds or added.renames):
            self.note(
                ("contract",), "the contract adds nothing", "columns, indexes or foreign keys", "say what is added"
            )
        contract = Contract(
            table=table,
            columns=self._columns(added.columns, ("contract", "columns")),
            changes=self._columns(added.changes, ("contract", "changes")),
            indexes=self._indexes(added.indexes, ("contract", "indexes")),
            foreign_keys=self._foreign_keys(added.foreign_keys, ("contract", "foreign_keys"), table),
            checks=tuple(Check(f.name, f.sql) for f in added.checks),
            mappings=tuple(self._mapping(f, i, added.columns) for i, f in enumerate(form.mappings)),
            invariants=tuple(Invariant(f.name, f.sql) for f in form.invariants),
            key=tuple(form.table.key or ()),
            old_statements=tuple(form.applications.old),
            new_statements=tuple(form.applications.new),
            allow_rebuild=form.contract.allow_rebuild.strip(),
            before=self._before(form.table.before, table) if form.table.before is not None else None,
            renames=tuple(Rename(f.old, f.new, RenameWay(f.way)) for f in added.renames),
        )
        self._unique_names(contract)
        return contract

    def _before(self, form: forms.BeforeForm, table: TableName) -> Before:
        path: Path = ("table", "before")
        keys = self._foreign_keys(form.children, (*path, "children"), table)
        holders = [_table_name(f.table, table.schema) for f in form.children]
        before = Before(
            columns=self._columns(form.columns, (*path, "columns")),
            indexes=self._indexes(form.indexes, (*path, "indexes")),
            foreign_keys=self._foreign_keys(form.foreign_keys, (*path, "foreign_keys"), table),
            collation=form.collation,
            children=tuple(zip(holders, keys, strict=True)),
        )
        self.once((*path, "columns"), (c.name for c in before.columns), "column")
        self.once((*path, "indexes"), (i.name for i in before.indexes), "index")
        self.once((*path, "foreign_keys"), (f.name for f in before.foreign_keys), "foreign key")
        return before

    def _unique_names(self, c: Contract) -> None:
        self.once(("contract", "columns"), (x.name for x in c.columns), "column")
        self.once(("contract", "changes"), (x.name for x in c.changes), "changed column")
        self.once(("contract", "indexes"), (x.name for x in c.indexes), "index")
        self.once(("contract", "foreign_keys"), (x.name for x in c.foreign_keys), "foreign key")
        self.once(("contract", "checks"), (x.name for x in c.checks), "check")
        self.once(("contract", "renames"), (r.old for r in c.renames), "renamed column")
        self.once(("contract", "renames"), (r.new for r in c.renames), "name of a renamed column")
        self.once(("mappings",), (m.new for m in c.mappings), "mapped column")
        self.once(("invariants",), (i.name for i in c.invariants), "invariant")
        self.once(("table", "key"), c.key, "key column")
        added = {x.name.lower() for x in c.columns}
        for i, change in enumerate(c.changes):
            if change.name.lower() in added:
                self.note(
                    ("contract", "changes", i), f"{change.name} is added and changed", "one of both", "delete one"
                )

    def once(self, path: Path, names: Iterable[str], what: str) -> None:
        """MySQL compares these names without case, so two that differ in case only are one."""
        seen: dict[str, str] = {}
        for i, name in enumerate(names):
            if name.lower() in seen:
                line = f"{what} {name!r} is there twice" + (
                    f" (as {seen[name.lower()]!r})" if seen[name.lower()] != name else ""
                )
                self.note((*path, i), line, f"each {what} once", "delete or rename one of the two")
            seen.setdefault(name.lower(), name)

    def _columns(self, written: Sequence[forms.ColumnForm], path: Path) -> tuple[Column, ...]:
        return tuple(self._column(f, (*path, i)) for i, f in enumerate(written))

    def _column(self, form: forms.ColumnForm, path: Path) -> Column:
        default = None
        try:
            default = read_default(form.default, form.type)
        except Wrong as wrong:
            self.note((*path, "default"), f"{form.name}: {wrong.seen}", wrong.expected, wrong.next)
        standing = form if isinstance(form, forms.StandingColumnForm) else None
        return Column(
            name=form.name,
            type=form.type,
            null=form.null,
            default=default,
            charset=form.charset,
            collation=form.collation,
            on_update=standing.on_update if standing else False,
            auto_increment=standing.auto_increment if standing else False,
            invisible=form.invisible,
            after=form.after or "",
            generated=form.generated,
            stored=form.stored,
            comment=form.comment,
            writer=form.writer,
            retire=form.retire,
        )

    def _indexes(self, written: Sequence[forms.IndexForm], path: Path) -> tuple[Index, ...]:
        return tuple(self._index(f, (*path, i, "columns")) for i, f in enumerate(written))

    def _index(self, form: forms.IndexForm, path: Path) -> Index:
        parts = [self._part(text, (*path, i)) for i, text in enumerate(form.columns)]
        self.once(path, (p.expression or p.column for p in parts), "index part")
        return Index(
            form.name,
            tuple(parts),
            unique=form.unique,
            visible=form.visible is not False,
            shown_last=form.visible == "last",
            kind=form.kind.upper(),
            serves=form.serves,
        )

    def _part(self, text: str, path: Path) -> IndexPart:
        if functional := _EXPRESSION.match(text.strip()):
            way = (functional["way"] or "").lower()
            try:
                forms.closed(functional["sql"])
            except Wrong as wrong:
                self.note(path, wrong.seen, wrong.expected, wrong.next)
            return IndexPart("", descending=way == "desc", expression=functional["sql"].strip())
        match = _PART.match(text.strip())
        if match is None:
            expected = "name, name(10), name desc or (expression)"
            self.note(path, f"{text!r} is not a part of an index", expected, "write one of these")
            return IndexPart(text)
        prefix = int(match["prefix"]) if match["prefix"] else None
        return IndexPart(_unquoted(match["name"]), prefix, descending=(match["way"] or "").lower() == "desc")

    def _foreign_keys(
        self, written: Sequence[forms.ForeignKeyForm], path: Path, table: TableName
    ) -> tuple[ForeignKey, ...]:
        return tuple(self._foreign_key(f, (*path, i), table) for i, f in enumerate(written))

    def _foreign_key(self, form: forms.ForeignKeyForm, path: Path, table: TableName) -> ForeignKey:
        match = _REFERENCE.match(form.references)
        if match is None:
            seen = f"{form.references!r} does not name a parent and its columns"
            self.note((*path, "references"), seen, "Table(id) or schema.Table(a, b)", "write it so")
            return ForeignKey(form.name, tuple(form.columns), table, ())
        schema = _unquoted(match["schema"]) if match["schema"] else table.schema
        columns = tuple(_unquoted(c.strip()) for c in match["columns"].split(","))
        if len(columns) != len(form.columns) or not all(columns):
            seen = f"{form.name} has {len(form.columns)} columns and references {len(columns)}"
            self.note((*path, "references"), seen, "as many as in columns", "name each referenced column")
        return ForeignKey(
            name=form.name,
            columns=tuple(form.columns),
            references=TableName(schema, _unquoted(match["table"])),
            referenced_columns=columns,
            on_delete=form.on_delete.upper(),
            on_update=form.on_update.upper(),
            why=form.why,
        )

    def _mapping(self, form: forms.MappingForm, at: int, columns: Sequence[forms.ColumnForm]) -> Mapping:
        path: Path = ("mappings", at)
        names = {c.name.lower(): c.name for c in columns}
        if form.new.lower() not in names:
            seen = f"the mapping's new column {form.new!r} is not added by the contract"
            self.note((*path, "new"), seen, "one of contract.columns", "add it there, or correct the name")
        if form.backward is not None and form.old is None:
            self.note(
                path, "backward without an old column", "old: the column that it gives", "add old:, or delete backward:"
            )
        if form.backward is not None and form.follows:
            self.note(
                (*path, "follows"),
                "follows on a pair",
                "follows only on derived columns",
                "delete follows: or backward:",
            )
        forward = self._transform(form.forward, (*path, "forward"), form.old)
        backward = None if form.backward is None else self._transform(form.backward, (*path, "backward"), form.old)
        return Mapping(
            new=names.get(form.new.lower(), form.new),
            old=form.old,
            forward=forward,
            backward=backward,
            on_conflict=Winner(form.on_conflict),
            follows=form.follows,
            why=form.why,
        )

    def _transform(self, form: forms.TransformForm | str, path: Path, old: str | None) -> Transform:
        if old is None and (isinstance(form, str) or form.sql is None):
            self.note(
                path, "copy or values without an old column", "old: the column that is read", "add old:, or use sql:"
            )
        if isinstance(form, str):
            return Copy()
        given = form.model_fields_set
        if form.sql is not None:
            if beside := sorted(given - {"sql"}):
                self.note(path, f"sql beside {', '.join(beside)}", "sql alone, or values", "delete one of the two")
            return Expression(form.sql)
        if form.values is None and "null_value" not in given:
            self.note(path, "neither copy, values nor sql", "copy, {values: …} or {sql: …}", "write one of these")
        pairs: list[tuple[str | None, str | None]] = list((form.values or {}).items())
        if "null_value" in given:
            pairs.append((None, form.null_value))
        return ValueMap(tuple(pairs), Unmapped(form.unmapped), Match(form.match))


def _table_name(written: str, schema: str) -> TableName:
    """``Table`` or ``schema.Table``, each part in backticks or not."""
    match = _TABLE.match(written)
    if match is None:
        return TableName(schema, written)
    return TableName(_unquoted(match["schema"]) if match["schema"] else schema, _unquoted(match["table"]))


def _unquoted(name: str) -> str:
    return name[1:-1].replace("``", "`") if len(name) > 1 and name[0] == name[-1] == "`" else name
