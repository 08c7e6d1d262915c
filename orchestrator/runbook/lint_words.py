"""Rules that need the words of an SQL text: expressions of mappings and invariants, statements of the applications."""

from __future__ import annotations

import re
from collections.abc import Iterator

from orchestrator.model.contract import Contract
from orchestrator.mysql.tokens import Token, TokenKind
from orchestrator.mysql.wording import wording, words_of
from orchestrator.mysql.words import AGGREGATES, NOT_OF_THE_ROW, OF_THE_SESSION
from orchestrator.runbook.rules import Breach
from orchestrator.runbook.tree import Path

_BARE_FUNCTIONS = re.compile(r"^(CURRENT_|LOCALTIME|UTC_)")
_QUERY = frozenset(["SELECT", "UNION", "EXISTS", "TABLE", "WITH"])
_SIGNS = {";": "two statements", "@": "a variable", ":=": "a variable", "?": "a parameter"}


def expression_problem(sql: str) -> str:
    """Why the expression may give two values for one row, or is none; empty when the file shows nothing wrong."""
    try:
        tokens = words_of(sql)
    except ValueError as error:
        return str(error)
    if not tokens:
        return "there is no expression"
    for token, after in zip(tokens, [*tokens[1:], None], strict=True):
        if token.kind is TokenKind.OPERATOR and token.text in _SIGNS:
            return f"{token.text} is {_SIGNS[token.text]}, not part of an expression"
        if token.kind is not TokenKind.NAME:
            continue
        called = after is not None and after.text == "("
        if token.word in _QUERY and (called or token.word != "TABLE"):
            return f"{token.text} asks other rows"
        if token.word in NOT_OF_THE_ROW and (called or _BARE_FUNCTIONS.match(token.word)):
            return f"{token.text} depends on more than the row"
        if called and token.word in OF_THE_SESSION:
            return f"{token.text} depends on {OF_THE_SESSION[token.word]}"
        if called and token.word in AGGREGATES:
            return f"{token.text} is over many rows"
    return ""


def invariants(contract: Contract) -> Iterator[Breach]:
    """Invariants are expressions of the row too."""
    for i, invariant in enumerate(contract.invariants):
        if problem := expression_problem(invariant.sql):
            yield Breach("expression-of-the-row", ("invariants", i), f"invariant {invariant.name}: {problem}")


def statements(contract: Contract) -> Iterator[Breach]:
    """What the declared statements would do in the changed table."""
    for version, texts in (("old", contract.old_statements), ("new", contract.new_statements)):
        for i, text in enumerate(texts):
            path: Path = ("applications", version, i)
            try:
                tokens = words_of(text)
            except ValueError as error:
                yield Breach("statement-single", path, f"the statement {error}")
                continue
            if any(t.text == ";" for t in tokens):
                yield Breach("statement-single", path, f"two statements in one: {_short(text)}")
            elif any(t.identifier == contract.table.name.lower() for t in tokens):
                yield from _statement(contract, tokens, version == "old", path)


def _statement(contract: Contract, tokens: list[Token], is_old: bool, path: Path) -> Iterator[Breach]:
    added = {c.name.lower(): c.name for c in contract.columns}
    said = wording(tokens, contract.table.name)
    named = {t.identifier for t in tokens if t.kind in (TokenKind.NAME, TokenKind.QUOTED)}
    text = _short(" ".join(t.text for t in tokens))
    if is_old and (wrong := sorted(named & set(added))):
        yield Breach("old-names-new", path, f"a statement of the old application names {added[wrong[0]]}: {text}")
    if said.target != contract.table.name.lower():
        return
    if said.lists_nothing:
        yield Breach("insert-without-columns", path, f"{said.verb} names no columns: {text}")
    elif said.verb == "REPLACE" and (left := set(added) - said.writes):
        yield Breach("replace-resets", path, f"REPLACE leaves out {len(left)} new columns: {text}")
    mapped = {m.new.lower() for m in contract.mappings} | {m.old.lower() for m in contract.pairs if m.old}
    if name := _filled_upsert(tokens, mapped):
        yield Breach("upsert-reads-fill", path, f"the upsert asks whether {name} was given: {text}")


def _filled_upsert(tokens: list[Token], mapped: set[str]) -> str:
    words = [t.word for t in tokens]
    if "DUPLICATE" not in words:
        return ""
    for i in range(words.index("DUPLICATE"), len(words) - 4):
        asks = words[i] in ("COALESCE", "IFNULL") and words[i + 1 : i + 4] == ["(", "VALUES", "("]
        if asks and words[i + 4].lower() in mapped:
            return words[i + 4]
    return ""


def _short(text: str) -> str:
    return text if len(text) <= 70 else text[:67] + "..."
