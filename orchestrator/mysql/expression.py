"""An operator's SQL expression, read once: which columns it uses, and its text with every column replaced by any other.

Whatever could make the same row give two answers (time, user, session settings, other rows) is refused here, so that
backfill, sweep, drift, verifier and triggers agree by construction.
"""

from __future__ import annotations

import difflib
from collections.abc import Callable, Mapping, Sequence

from msgspec import Struct

from orchestrator.errors import RunbookError
from orchestrator.model.contract import Column
from orchestrator.model.types import Family
from orchestrator.mysql import words
from orchestrator.mysql.ranges import ARITHMETIC, leaves_its_range
from orchestrator.mysql.tokens import Token, TokenKind, single_quoted, tokenise

Ref = Callable[[str], str]
Columns = Mapping[str, Column]
Parts = tuple[str | Column, ...]
_PATHS = {"->": ("JSON_EXTRACT(", ")"), "->>": ("JSON_UNQUOTE(JSON_EXTRACT(", "))")}
_REFUSED_SIGNS = (
    dict.fromkeys(["@", ":="], "no variables")
    | dict.fromkeys(["{", "}", "[", "]", ":", "\\"], "an SQL expression over columns of the row")
    | {";": "one expression, without ;", "?": "no parameters", ".": "columns by their bare name"}
)
_SAME_ANSWER = "an expression that gives the same for the same row, whoever asks and whenever"


class Parsed(Struct, frozen=True):
    """An expression with its columns found.

    ``null_keeping``: it is NULL only when a column is. ``null_named``: it says itself when it is NULL. ``is_calm``: no
    value of its columns makes it an error.
    ``unix_seconds``: E, when the whole is FROM_UNIXTIME(E).
    """

    sql: str
    parts: Parts
    null_keeping: bool
    null_named: bool
    is_calm: bool
    is_arithmetic: bool
    unix_seconds: Parsed | None
    zones: tuple[str, ...]

    @property
    def columns(self) -> tuple[Column, ...]:
        """Each column once, in order of appearance."""
        return tuple(dict.fromkeys(p for p in self.parts if isinstance(p, Column)))

    @property
    def column(self) -> Column | None:
        """The column, when the expression is nothing else."""
        said = [p for p in self.parts if isinstance(p, Column) or p.strip()]
        return said[0] if len(said) == 1 and isinstance(said[0], Column) else None

    def render(self, ref: Ref) -> str:
        """The expression over ``ref``, in parentheses unless it is one word or literal."""
        text = "".join(p if isinstance(p, str) else self._read(p, ref(p.name)) for p in self.parts).strip()
        return text if len(tokenise(text)) == 1 else f"({text})"

    def _read(self, column: Column, sql: str) -> str:
        """Arithmetic on BIGINT or unsigned columns is done in DECIMAL: it would raise 1690 where it leaves 64 bits."""
        wide = column.type.base == "bigint" or column.type.unsigned
        if self.is_arithmetic and wide and column.type.family is Family.INTEGER:
            return f"CAST({sql} AS DECIMAL(20))"
        return read(column, sql)


def read(column: Column, sql: str) -> str:
    """How a column is read as a value: ENUM and SET by label, BIT as a number."""
    if column.type.family in (Family.ENUM, Family.SET):
        return f"CAST({sql} AS CHAR)"
    return f"({sql} + 0)" if column.type.family is Family.BIT else sql


def parse(sql: str, columns: Columns, what: str) -> Parsed:
    """Read ``sql`` over ``columns`` (by lower-case name); ``what`` names the place in errors. Raises RunbookError."""
    try:
        tokens = tokenise(sql)
    except ValueError as error:
        raise _refusal(sql, what, str(error), "an SQL expression over columns of the row") from error
    reader = _Reader(sql, columns, what, tuple(t for t in tokens if t.kind is not TokenKind.SPACE))
    dense = iter(reader.read_all())
    parts = [p for t in tokens for p in ((" ",) if t.kind is TokenKind.SPACE else next(dense))]
    inner = _seconds_of(reader.tokens)
    return Parsed(
        sql=sql,
        parts=tuple(parts),
        null_keeping=reader.null_keeping and not reader.null_named,
        null_named=reader.null_named,
        is_calm=reader.is_calm and not leaves_its_range(reader.tokens, [p for p in parts if isinstance(p, Column)]),
        is_arithmetic=any(t.text in ARITHMETIC for t in tokens if t.kind is TokenKind.OPERATOR),
        unix_seconds=parse(inner, columns, what) if inner else None,
        zones=_zones(reader.tokens),
    )


def _refusal(sql: str, what: str, seen: str, expected: str) -> RunbookError:
    return RunbookError(f"{what}: {seen} in {sql!r}", expected, "change the expression in the runbook")


def _closing(tokens: Sequence[Token], opening: int) -> int:
    """Where the parenthesis that opens at ``opening`` closes; the end when it does not."""
    depth = 0
    for at in range(opening, len(tokens)):
        depth += (tokens[at].text == "(") - (tokens[at].text == ")")
        if depth == 0:
            return at
    return len(tokens)


def _arguments(tokens: Sequence[Token], opening: int) -> list[list[Token]]:
    """The arguments of the call whose parenthesis is at ``opening``."""
    found: list[list[Token]] = [[]]
    depth = 0
    for token in tokens[opening + 1 : _closing(tokens, opening)]:
        depth += (token.text == "(") - (token.text == ")")
        if token.text == "," and depth == 0:
            found.append([])
        else:
            found[-1].append(token)
    return found


def _seconds_of(tokens: Sequence[Token]) -> str:
    """E as text, when the whole is FROM_UNIXTIME(E)."""
    if len(tokens) < 4 or tokens[0].word != "FROM_UNIXTIME" or _closing(tokens, 1) != len(tokens) - 1:
        return ""
    arguments = _arguments(tokens, 1)
    return " ".join(t.text for t in arguments[0]) if len(arguments) == 1 else ""


def _zones(tokens: Sequence[Token]) -> tuple[str, ...]:
    """Time zones that are literals of CONVERT_TZ: the server may not know them, and then answers NULL."""
    calls = [at + 1 for at, t in enumerate(tokens[:-1]) if t.word == "CONVERT_TZ" and tokens[at + 1].text == "("]
    zones = [a[0].text for at in calls for a in _arguments(tokens, at)[1:] if len(a) == 1]
    return tuple(dict.fromkeys(z for z in zones if z[:1] in "'\""))


class _Reader:
    """One pass over the tokens that are not spaces; each becomes parts."""

    def __init__(self, sql: str, columns: Columns, what: str, tokens: tuple[Token, ...]) -> None:
        self.sql = sql
        self.columns = columns
        self.what = what
        self.tokens = tokens
        self.null_named = False
        self.null_keeping = True
        self.is_calm = True

    def read_all(self) -> list[Parts]:
        if not self.tokens:
            raise self._refuse("nothing", "an SQL expression")
        said = [t.word for t in self.tokens if t.kind is TokenKind.NAME]
        self.null_keeping = said.count("CASE") <= said.count("ELSE")
        parts: list[Parts] = [self._read(at, token) for at, token in enumerate(self.tokens)]
        for at in range(1, len(parts) - 1):
            if (path := _PATHS.get(self.tokens[at].text)) and isinstance(parts[at - 1][-1], Column):
                parts[at - 1 : at + 2] = [(path[0], *parts[at - 1]), (", ",), (*parts[at + 1], path[1])]
        return parts

    def _read(self, at: int, token: Token) -> Parts:
        match token.kind:
            case TokenKind.COMMENT:
                raise self._refuse(f"the comment {token.text!r}", "no comments")
            case TokenKind.OPERATOR:
                self._judge_sign(at, token)
                return (token.text,)
            case TokenKind.QUOTED:
                return (self._column(at, token),)
            case TokenKind.NAME:
                return (token.text,) if self._is_grammar(at, token) else (self._column(at, token),)
            case TokenKind.STRING:
                return (single_quoted(token.text),)
            case _:
                return (token.text,)

    def _judge_sign(self, at: int, token: Token) -> None:
        if expected := _REFUSED_SIGNS.get(token.text):
            raise self._refuse(repr(token.text), expected)
        if token.text in ("/", "%"):
            self._judge_division(at)
        if token.text in _PATHS:
            self.null_named, self.is_calm = True, False

    def _judge_division(self, at: int) -> None:
        after = self._token(at + 1)
        if after is None or after.kind is not TokenKind.NUMBER or not after.text.strip("0."):
            self.null_keeping = False

    def _is_grammar(self, at: int, token: Token) -> bool:
        """Whether the bare word is anything but a column; judges what it is."""
        word, before, after = token.word, self._word(at - 1), self._token(at + 1)
        if after is not None and after.text == "(":
            self._judge_call(at, word)
            return True
        if word in words.STATEMENTS:
            raise self._refuse(word, "an expression over one row: no subquery, no statement")
        if word in words.GRAMMAR:
            self.null_named = self.null_named or (word == "NULL" and before not in ("IS", "NOT"))
            if word in ("DIV", "MOD"):
                self._judge_division(at)
            return True
        if after is not None and after.kind is TokenKind.STRING and word in words.LITERAL_PREFIX:
            return True
        if before in words.NAMES_FOLLOW or (word in words.TYPE_WORDS and before in words.TYPE_WORDS):
            return True
        ends_operand = at > 0 and self._ends_operand(at - 1)
        if word in words.UNITS and (ends_operand or self._is_unit_argument(at)):
            return True
        return word in words.AFTER_OPERAND and ends_operand

    def _is_unit_argument(self, at: int) -> bool:
        return self._word(at - 1) == "(" and self._word(at - 2) in words.UNIT_FIRST

    def _ends_operand(self, at: int) -> bool:
        token = self.tokens[at]
        if token.kind is TokenKind.NAME:
            return token.word not in words.GRAMMAR - {"NULL", "TRUE", "FALSE"}
        return token.kind is not TokenKind.OPERATOR or token.text == ")"

    def _judge_call(self, at: int, word: str) -> None:
        if word in words.STATEMENTS:
            raise self._refuse(word, "an expression over one row: no subquery, no statement")
        if word in words.NOT_OF_THE_ROW:
            raise self._refuse(f"{word}()", _SAME_ANSWER)
        if word in words.AGGREGATES:
            raise self._refuse(f"{word}()", "an expression over one row: no aggregates, no windows")
        arguments = _arguments(self.tokens, at + 1)
        if word == "FROM_UNIXTIME" and not (at == 0 and _seconds_of(self.tokens)):
            raise self._refuse(
                "FROM_UNIXTIME(), which depends on the session's time zone,",
                "TIMESTAMP'1970-01-01 00:00:00' + INTERVAL seconds SECOND",
            )
        if word in words.OF_THE_SESSION:
            raise self._refuse(f"{word}(), which depends on a setting of the session", words.OF_THE_SESSION[word])
        if word == "WEEK" and len(arguments) < 2:
            raise self._refuse("WEEK() without its mode, which depends on the session", "WEEK(date, mode)")
        if word == "UNIX_TIMESTAMP" and not self._is_instant(arguments):
            raise self._refuse(
                "UNIX_TIMESTAMP() of what is no TIMESTAMP column, which depends on the session's time zone",
                "TIMESTAMPDIFF(SECOND, '1970-01-01', column)",
            )
        self.null_named = self.null_named or word in words.NULL_ANSWERING
        if word not in words.NULL_KEEPING and word not in words.GRAMMAR:
            self.null_keeping = self.is_calm = False

    def _is_instant(self, arguments: list[list[Token]]) -> bool:
        if len(arguments) != 1 or len(arguments[0]) != 1:
            return False
        column = self.columns.get(arguments[0][0].identifier)
        return column is not None and column.type.base == "timestamp"

    def _column(self, at: int, token: Token) -> Column:
        column = self.columns.get(token.identifier)
        if column is None:
            raise self._unknown(token)
        if column.type.base == "timestamp" and len(self.tokens) > 1 and not self._keeps_the_instant(at):
            name = token.text
            raise self._refuse(
                f"{name} (TIMESTAMP) outside UNIX_TIMESTAMP(), which depends on the session's time zone",
                f"'1970-01-01 00:00:00' + INTERVAL UNIX_TIMESTAMP({name}) SECOND",
            )
        return column

    def _keeps_the_instant(self, at: int) -> bool:
        called = self._word(at - 1) == "(" and self._word(at + 1) == ")"
        return self._word(at + 1) == "IS" or (called and self._word(at - 2) in ("UNIX_TIMESTAMP", "ISNULL"))

    def _unknown(self, token: Token) -> RunbookError:
        if token.kind is TokenKind.NAME and token.word in words.NOT_OF_THE_ROW | words.AGGREGATES:
            return self._refuse(token.word, _SAME_ANSWER)
        near = difflib.get_close_matches(token.identifier, list(self.columns), 1)
        hint = f"; the nearest is {self.columns[near[0]].name}" if near else ""
        return self._refuse(f"the unknown column {token.text}", f"columns of the table{hint}")

    def _token(self, at: int) -> Token | None:
        return self.tokens[at] if 0 <= at < len(self.tokens) else None

    def _word(self, at: int) -> str:
        token = self._token(at)
        return token.word if token is not None and token.kind is not TokenKind.QUOTED else ""

    def _refuse(self, seen: str, expected: str) -> RunbookError:
        return _refusal(self.sql, self.what, seen, expected)
