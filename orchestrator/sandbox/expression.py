"""SQL expressions worked out in Python: the second opinion on what a mapping means, and on what a statement stores.

The ledger must not ask the code that it checks, so it shares no line with the product's rendering. What is known here
is the plain part of the language that mappings and ordinary statements are written in; anything else is refused when
it is read, never guessed.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import date, datetime, timedelta
from typing import Any

from orchestrator.sandbox.functions import FUNCTIONS, cast, compare, divide, number, truth
from orchestrator.sandbox.tokens import Token, literal, tokens

Value = Any
Env = Mapping[str, Value]
Expr = Callable[[Env], Value]

_BINARY = {"*": 7, "/": 7, "%": 7, "DIV": 7, "MOD": 7, "+": 6, "-": 6}
_COMPARES = ("=", "<=>", "<>", "!=", "<", ">", "<=", ">=", "IS", "IN", "BETWEEN", "NOT")


def evaluate(sql: str) -> Expr:
    """The expression as a function of the row (names in lower case). Raises ValueError when it is not understood."""
    reader = Reader(tokens(sql))
    expr = reader.expression()
    reader.end()
    return expr


class Reader:
    """Reads expressions from a list of tokens, one after another, by precedence."""

    def __init__(self, found: list[Token]) -> None:
        self._tokens = found
        self._at = 0

    @property
    def ahead(self) -> Token:
        return self._tokens[self._at] if self._at < len(self._tokens) else Token("end", "")

    @property
    def at(self) -> int:
        return self._at

    def params(self, begin: int) -> list[str]:
        """Placeholders between that place and here."""
        return [t.text for t in self._tokens[begin : self._at] if t.kind == "param"]

    def take(self) -> Token:
        token = self.ahead
        self._at += 1
        return token

    def accept(self, *words: str) -> bool:
        """Take the next token when it is one of these words or signs."""
        if self.ahead.says(*words):
            self._at += 1
            return True
        return False

    def expect(self, *words: str) -> None:
        if not self.accept(*words):
            raise ValueError(f"expected {words[0]!r}, found {self.ahead.text!r}")

    def end(self) -> None:
        if self.ahead.kind != "end":
            raise ValueError(f"{self.ahead.text!r} is more than one expression")

    def name(self) -> str:
        """An identifier as written; of ``a.b`` the last part."""
        token = self.take()
        if token.kind not in ("word", "name"):
            raise ValueError(f"expected a name, found {token.text!r}")
        return self.name() if self.accept(".") else token.text

    def expression(self) -> Expr:
        left = self._conjunction()
        while self.accept("OR"):
            left = _logic(left, self._conjunction(), absorbing=True)
        return left

    def _conjunction(self) -> Expr:
        left = self._negation()
        while self.accept("AND"):
            left = _logic(left, self._negation(), absorbing=False)
        return left

    def _negation(self) -> Expr:
        if self.accept("NOT"):
            inner = self._negation()
            return lambda env: None if (t := truth(inner(env))) is None else int(not t)
        return self._comparison()

    def _comparison(self) -> Expr:
        left = self._arithmetic(6)
        while self.ahead.says(*_COMPARES):
            left = self._compared(left, self.take().text.upper())
        return left

    def _compared(self, left: Expr, sign: str) -> Expr:
        if sign == "IS":
            negated = self.accept("NOT")
            self.expect("NULL")
            return lambda env: int((left(env) is None) != negated)
        negated = sign == "NOT"
        if negated:
            sign = self.take().text.upper()
        if sign == "IN":
            choices = self.listed()
            found: Expr = lambda env: _member(left(env), [c(env) for c in choices])  # noqa: E731
        elif sign == "BETWEEN":
            low = self._arithmetic(6)
            self.expect("AND")
            high = self._arithmetic(6)
            found = _logic(_comparing(left, ">=", low), _comparing(left, "<=", high), absorbing=False)
        else:
            found = _comparing(left, sign, self._arithmetic(6))
        if not negated:
            return found
        return lambda env: None if (t := found(env)) is None else int(not t)

    def _arithmetic(self, level: int) -> Expr:
        if level > 7:
            return self._unary()
        left = self._arithmetic(level + 1)
        while (sign := self.ahead.text.upper()) in _BINARY and self.ahead.kind != "text" and _BINARY[sign] == level:
            self.take()
            left = _computing(left, sign, self._arithmetic(level + 1))
        return left

    def _unary(self) -> Expr:
        if self.accept("-"):
            inner = self._unary()
            return lambda env: None if (v := inner(env)) is None else -number(v)
        return self._primary()

    def _primary(self) -> Expr:
        if self.accept("("):
            inner = self.expression()
            self.expect(")")
            return inner
        token = self.take()
        match token.kind:
            case "text" | "hex" | "number":
                constant = literal(token)
                return lambda env: constant
            case "param":
                key = f":{token.text}"
                return lambda env: env[key]
            case "name":
                return self._column(token.text)
            case "word":
                return self._worded(token.text)
            case _:
                raise ValueError(f"{token.text!r} does not begin an expression")

    def _column(self, first: str) -> Expr:
        key = (self.name() if self.accept(".") else first).lower()
        return lambda env: env[key]

    def _worded(self, word: str) -> Expr:
        upper = word.upper()
        if upper in ("NULL", "TRUE", "FALSE"):
            constant = {"NULL": None, "TRUE": 1, "FALSE": 0}[upper]
            return lambda env: constant
        if upper == "CASE":
            return self._case()
        if not self.ahead.says("("):
            return self._column(word)
        if upper in ("CAST", "CONVERT"):
            return self._cast("AS" if upper == "CAST" else ",")
        if upper == "VALUES":
            self.expect("(")
            key = f"values:{self.name().lower()}"
            self.expect(")")
            return lambda env: env[key]
        if upper not in FUNCTIONS:
            raise ValueError(f"the function {word} is not known here")
        function, arguments = FUNCTIONS[upper], self.listed()
        return lambda env: function(*(a(env) for a in arguments))

    def listed(self) -> list[Expr]:
        """Expressions between parentheses."""
        self.expect("(")
        if self.accept(")"):
            return []
        found = [self.expression()]
        while self.accept(","):
            found.append(self.expression())
        self.expect(")")
        return found

    def _cast(self, separator: str) -> Expr:
        self.expect("(")
        inner = self.expression()
        self.expect(separator)
        kind = self.take().text.upper()
        arguments = [int(a({})) for a in self.listed()] if self.ahead.says("(") else []
        if self.accept("CHARACTER", "CHARSET"):
            self.accept("SET")
            self.name()
        self.expect(")")
        return lambda env: cast(inner(env), kind, arguments)

    def _case(self) -> Expr:
        subject = None if self.ahead.says("WHEN") else self.expression()
        branches: list[tuple[Expr, Expr]] = []
        while self.accept("WHEN"):
            condition = self.expression()
            self.expect("THEN")
            branches.append((condition if subject is None else _comparing(subject, "=", condition), self.expression()))
        otherwise: Expr = self.expression() if self.accept("ELSE") else lambda env: None
        self.expect("END")

        def choose(env: Env) -> Value:
            for condition, result in branches:
                if truth(condition(env)):
                    return result(env)
            return otherwise(env)

        return choose


def _member(value: Value, choices: list[Value]) -> int | None:
    answers = [compare(value, "=", c) for c in choices]
    return 1 if 1 in answers else None if None in answers else 0


def _comparing(left: Expr, sign: str, right: Expr) -> Expr:
    return lambda env: compare(left(env), sign, right(env))


def _logic(left: Expr, right: Expr, *, absorbing: bool) -> Expr:
    def judge(env: Env) -> int | None:
        answers = (truth(left(env)), truth(right(env)))
        if absorbing in answers:
            return int(absorbing)
        return None if None in answers else int(not absorbing)

    return judge


def _computing(left: Expr, sign: str, right: Expr) -> Expr:
    def compute(env: Env) -> Value:
        a, b = left(env), right(env)
        if a is None or b is None:
            return None
        if isinstance(a, date | datetime | timedelta) or isinstance(b, date | datetime | timedelta):
            raise ValueError(f"{sign} on dates is not known here")
        return divide(number(a), sign, number(b))

    return compute
