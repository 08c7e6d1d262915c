"""The SQL of whole-row digests: every byte of every column of a row goes into 32 bytes, and the rows of a span into 32.

The encoding of a row is unambiguous: what has a form of its own (numbers, moments) ends with a comma, what is free
(text, bytes) is led by its length, what may be long is hashed by itself, and NULL is a sign that no value begins with.
Digests of rows are XORed, so that order and the cut into spans do not matter. SHA2 and not CRC32: a CRC is linear, so
two values of one length that changed places would cancel out.
"""

from __future__ import annotations

from collections.abc import Sequence

from orchestrator.model.contract import Column
from orchestrator.model.keys import Key
from orchestrator.model.types import Family
from orchestrator.mysql.sql.bounds import KeySpace, Ref, Span, among, order, selected, within
from orchestrator.mysql.sql.rows import ref, source

_BYTES = 32
HEX_DIGITS = 2 * _BYTES
LENGTHS_DIFFER = 3513
# Of another length than a digest, so that BIT_XOR raises: a row that could not be hashed must not pass as hashed.
_NOT_HASHED = "x'00'"
_HASHED_APART = (Family.JSON, Family.SPATIAL)
_LONG = ("text", "blob", "vector")


def row_digest(columns: Sequence[Column], r: Ref = ref) -> str:
    """32 bytes that stand for these columns of a row."""
    parts = ", ".join(part for column in columns for part in _parts(column, r(column.name)))
    return f"UNHEX(SHA2(CONCAT(x'', {parts}), {_BYTES * 8}))"


def span_digest(space: KeySpace, span: Span, columns: Sequence[Column], tag: str = "") -> str:
    """(rows, digest in hex or NULL) of ``span``."""
    return (
        f"SELECT {tag} COUNT(*), HEX(BIT_XOR(IFNULL({row_digest(columns)}, {_NOT_HASHED}))) FROM {source(space)}"
        f" WHERE {within(space, span, ref)}"
    )


def digests_of_span(space: KeySpace, span: Span, columns: Sequence[Column], tag: str = "") -> str:
    """The digest in hex of each row of ``span``, its key first."""
    return _each(space, columns, f"{within(space, span, ref)} ORDER BY {order(space, ref)}", tag)


def digests_of_keys(space: KeySpace, keys: Sequence[Key], columns: Sequence[Column], tag: str = "") -> str:
    """The digest in hex of each row of ``keys``, its key first."""
    return _each(space, columns, among(space, keys, ref), tag)


def _each(space: KeySpace, columns: Sequence[Column], where: str, tag: str) -> str:
    parts = ", ".join(selected(space, ref))
    return f"SELECT {tag} {parts}, HEX({row_digest(columns)}) FROM {source(space)} WHERE {where}"


def _parts(column: Column, sql: str) -> tuple[str, ...]:
    """What stands for one value in the text that is hashed."""
    family = column.type.family
    if family in _HASHED_APART or column.type.base.endswith(_LONG):
        return (_or_null(column, f"SHA2({f'CAST({sql} AS CHAR)' if family is Family.JSON else sql}, 256)"), "','")
    if family in (Family.TEXT, Family.BINARY):
        value = f"CAST({sql} AS BINARY)" if family is Family.TEXT else sql
        return (_or_null(column, f"LENGTH({sql})"), "':'", f"IFNULL({value}, x'')" if column.null else value)
    return (_or_null(column, _written(column, sql)), "','")


def _written(column: Column, sql: str) -> str:
    """A value of a form of its own, so that no two values are written alike."""
    match column.type.family:
        case Family.FLOAT:
            return f"CAST(CAST({sql} AS DOUBLE) AS CHAR)"
        case Family.ENUM | Family.SET | Family.BIT:
            return f"CAST({sql} AS UNSIGNED)"
        case _:
            return sql


def _or_null(column: Column, sql: str) -> str:
    return f"IFNULL({sql}, '~')" if column.null else sql
