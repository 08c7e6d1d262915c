"""SQL is written in one room only, and nothing in the product is too long to be read at a sitting."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
MODULES = sorted([*(ROOT / "orchestrator").rglob("*.py"), *(ROOT / "phases").rglob("*.py")])
MOST_LINES, MOST_LINES_OF_A_FUNCTION = 310, 45

_THING = r"(TABLE|DATABASE|SCHEMA|TRIGGER|VIEW|USER|(UNIQUE )?INDEX|PROCEDURE|FUNCTION|TEMPORARY|EVENT|ROLE)"
_STATEMENT = re.compile(
    rf"\s*(SELECT\s+\S|INSERT\s+(INTO|IGNORE)\b|REPLACE\s+INTO\b|UPDATE\s+\S+\s+(AS\s+\w+\s+)?(SET|JOIN)\b|DELETE\s+FROM\b"
    rf"|(ALTER|CREATE|DROP|TRUNCATE)\s+{_THING}\b|WITH\s+\w+\s+AS\b|KILL\s+(QUERY\s+)?\S|SHOW\s+(GLOBAL|CREATE|BINARY)\b)"
)
# What a person is told to type is no statement of ours, and the sandbox's accounts name privileges, not statements.
_NO_STATEMENT = re.compile(r"SELECT, INSERT, UPDATE")


def texts(module: ast.Module) -> Iterator[tuple[int, str]]:
    """Every text of a module but its docstrings; of a text with values in it, the part before the first value."""
    documented = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)
    docstrings = {
        id(node.body[0].value)
        for node in ast.walk(module)
        if isinstance(node, documented) and node.body and isinstance(node.body[0], ast.Expr)
    }
    for node in ast.walk(module):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in docstrings:
            yield node.lineno, node.value


def statements(path: Path) -> list[str]:
    found = texts(ast.parse(path.read_text(encoding="utf-8")))
    return [f"{n}: {s[:60]}" for n, s in found if _STATEMENT.match(s) and not _NO_STATEMENT.match(s)]


def test_sql_is_written_in_its_own_room_only() -> None:
    sql_room = ROOT / "orchestrator" / "mysql"
    found = {str(p.relative_to(ROOT)): statements(p) for p in MODULES if sql_room not in p.parents}
    assert {where: lines for where, lines in found.items() if lines} == {}


def test_the_test_would_see_sql() -> None:
    room = ROOT / "orchestrator" / "mysql" / "sql"
    seen = {p.name for p in room.glob("*.py") if statements(p)}
    assert {"rows.py", "packets.py", "flag.py", "lease.py", "state.py", "migrations.py", "applications.py"} <= seen


@pytest.mark.parametrize(("most", "of"), [(MOST_LINES, "module"), (MOST_LINES_OF_A_FUNCTION, "function")])
def test_nothing_is_too_long(most: int, of: str) -> None:
    too_long = []
    for path in MODULES:
        text = path.read_text(encoding="utf-8")
        sizes = {"": len(text.splitlines())}
        if of == "function":
            functions = (n for n in ast.walk(ast.parse(text)) if isinstance(n, ast.FunctionDef | ast.AsyncFunctionDef))
            sizes = {n.name: (n.end_lineno or n.lineno) - n.lineno + 1 for n in functions}
        where = str(path.relative_to(ROOT))
        too_long += [f"{where} {name} {size}" for name, size in sizes.items() if size > most]
    assert too_long == []
