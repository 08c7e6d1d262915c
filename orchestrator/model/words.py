"""Whether a text of SQL says a name. Pure."""

from __future__ import annotations

import re


def says(sql: str, name: str) -> bool:
    """Whether ``name`` stands in ``sql`` as a word, quoted or bare, in any case; also in a literal or a comment:
    whoever asks would rather hear too much."""
    return _found(sql, name, "")


def says_column(sql: str, name: str) -> bool:
    """As ``says``; a bare word before a parenthesis is a function, and no column."""
    return _found(sql, name, r"(?!\s*\()")


def _found(sql: str, name: str, then: str) -> bool:
    bare, quoted = re.escape(name), re.escape(name.replace("`", "``"))
    return re.search(rf"`{quoted}`|(?<![\w$`]){bare}(?![\w$`]){then}", sql, re.IGNORECASE) is not None
