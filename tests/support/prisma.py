"""Prisma's own engine, and what it says of a schema in the words of our reader."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from orchestrator.contract.target import Target
from tests.support.npm import asking

_SCRIPT = Path(__file__).with_name("prisma_engine.js")


class Engine:
    """One process for many questions."""

    def __init__(self, ask: Callable[[dict[str, Any]], dict[str, Any]]) -> None:
        self._ask = ask

    def ask(self, *texts: str) -> dict[str, Any]:
        """``dmmf`` of the schema in these files, or ``error``."""
        return self._ask({"files": [[f"{at}.prisma", text] for at, text in enumerate(texts)]})


@contextmanager
def prisma_engine() -> Iterator[Engine]:
    with asking(_SCRIPT, "@prisma/prisma-schema-wasm") as ask:
        yield Engine(ask)


def seen_by_engine(dmmf: dict[str, Any]) -> dict[str, Any]:
    """Each table: its columns, indexes and foreign keys, as far as the engine's model says them."""
    models = {m["name"]: m for m in dmmf["models"]}
    return {_table(m): _model(m, models, dmmf) for m in models.values()}


def _table(model: dict[str, Any]) -> str:
    return str(model["dbName"] or model["name"])


def _model(model: dict[str, Any], models: dict[str, Any], dmmf: dict[str, Any]) -> dict[str, Any]:
    names = {f["name"]: f.get("dbName") or f["name"] for f in model["fields"]}
    enums = {e["name"]: [v["dbName"] or v["name"] for v in e["values"]] for e in dmmf["enums"]}
    columns = {
        names[f["name"]]: (not f["isRequired"], _default_kind(f), enums.get(f["type"]))
        for f in model["fields"]
        if f["kind"] in ("scalar", "enum")
    }
    keys = sorted(
        (
            tuple(names[n] for n in f["relationFromFields"]),
            _table(models[f["type"]]),
            tuple(_names(models[f["type"]])[n] for n in f["relationToFields"]),
            f.get("relationOnDelete"),
        )
        for f in model["fields"]
        if f.get("relationFromFields")
    )
    return {"columns": columns, "keys": keys, "indexes": _indexes(model, names, dmmf)}


def _names(model: dict[str, Any]) -> dict[str, str]:
    return {f["name"]: f.get("dbName") or f["name"] for f in model["fields"]}


def _default_kind(field: dict[str, Any]) -> str:
    default = field.get("default")
    if not field["hasDefaultValue"]:
        return ""
    return str(default["name"]) if isinstance(default, dict) else "literal"


def _indexes(model: dict[str, Any], names: dict[str, str], dmmf: dict[str, Any]) -> list[Any]:
    found = []
    for index in dmmf["indexes"]:
        if index["model"] != model["name"]:
            continue
        parts = tuple((names[f["name"]], f.get("length"), f.get("sortOrder") == "desc") for f in index["fields"])
        kind = index["type"]
        found.append(
            (kind in ("id", "unique"), kind == "fulltext", parts, index.get("dbName") if kind != "id" else None)
        )
    return sorted(found, key=repr)


def seen_by_us(target: Target, engine: dict[str, Any]) -> dict[str, Any]:
    """The same of our reading; what the engine does not say (a name that is not written) is left to it."""
    shape = target.shape
    given = {(unique, fulltext, parts): name for unique, fulltext, parts, name in engine["indexes"]}
    indexes = []
    for index in shape.indexes:
        parts = tuple((p.column, p.prefix, p.descending) for p in index.parts)
        at = (index.unique, index.kind == "FULLTEXT", parts)
        said = given.get(at)
        if at not in given and any(index.columns == f.columns for f in shape.foreign_keys):
            continue  # the server's own, for a foreign key
        indexes.append((*at, index.name if said is not None else None))
    return {
        "columns": {c.name: (c.null, list(c.type.labels) or None) for c in shape.columns},
        "keys": sorted((f.columns, f.references.name, f.referenced_columns) for f in shape.foreign_keys),
        "indexes": sorted(indexes, key=repr),
    }
