"""An expression of the runbook stays inside of the parentheses that are put around it."""

from __future__ import annotations

import pytest

from orchestrator.mysql.tokens import TokenKind, loose_end, tokenise

WHOLE = ("a + 1", "a * (b / 2)", "a * / b", "CONCAT('/*', a, '*/')", "`a*/b` + 1")
LOOSE = {
    "1 /* x": "has '/* x'",
    "1 /*": "has '/*'",
    "*/ + 1": "has '*/'",
    "a */ b": "has '*/'",
    "a /* b */": "has '/* b */'",
    "a # b": "has '# b'",
    "a -- b": "has '-- b'",
    "a; b": "has ';'",
    "a) + (b": "closes a parenthesis that it does not open",
    "(a": "leaves a parenthesis open",
}


@pytest.mark.parametrize("sql", WHOLE)
def test_what_is_whole_passes(sql: str) -> None:
    assert loose_end(sql) == ""


@pytest.mark.parametrize("sql", LOOSE)
def test_what_could_reach_beyond_its_parentheses_is_told(sql: str) -> None:
    assert loose_end(sql) == LOOSE[sql]


def test_a_comment_that_nobody_closes_goes_to_the_end() -> None:
    """Two expressions, one that opens it and one that closes it, would swallow what stands between them."""
    assert [t.kind for t in tokenise("1/* x' `")] == [TokenKind.NUMBER, TokenKind.COMMENT]
