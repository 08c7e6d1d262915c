"""What a text says that the JSON which the server makes of it does not: a key twice, an integer of more than 64 bits.

The server keeps the last of two members with one key, and takes an integer that no 64 bits hold for a double; neither
is an error. Key order, blanks, escapes and the way a fraction is written say nothing, and are not looked at.
"""

from __future__ import annotations

from orchestrator.mysql import quote

# The server ends a regular expression after a number of steps that only a global variable changes
# (regexp_time_limit, 3699). Seen on 9.7.4 with its default: texts of any form pass up to 90,000 bytes.
LOOKED_AT_BYTES = 65_535
_ESCAPED_BACKSLASH, _ESCAPED_QUOTE = quote.text("\\\\"), quote.text('\\"')
_STRING = quote.text('"[^"]*"')
# What comes before a value that is written as a fraction, with it; and all that comes before no value.
_FRACTIONS = quote.text("[:,\\[][[:space:]]*-?[0-9]+[.eE][-+.0-9eE]*|[^:,\\[]+")


def loses(document: str) -> str:
    """SQL 0 or 1: the valid JSON text ``document`` (utf8mb4) has a member that its JSON lacks, or an integer where that
    has a double. Exact for up to ``LOOKED_AT_BYTES``; 1 for a longer text, into which nobody looks.

    Both sides are reduced to the number of values that are no fractions. A member that goes takes at least the comma
    beside it along, an integer that becomes a double takes itself: what goes is never made up for.
    """
    printed = f"CAST(CAST({document} AS JSON) AS CHAR)"
    same = f"{_values(document)} <=> {_values(printed)}"
    return f"IF(LENGTH({document}) > {LOOKED_AT_BYTES}, 1, NOT ({same}))"


def _values(text: str) -> str:
    """How many of ``:``, ``,`` and ``[`` stand outside of strings and before no fraction; the text itself counts as if
    it came after a comma. An empty list counts as one that holds a value."""
    plain = f"REPLACE(REPLACE({text}, {_ESCAPED_BACKSLASH}, ''), {_ESCAPED_QUOTE}, '')"
    bare = f"REPLACE(REGEXP_REPLACE({plain}, {_STRING}, ''), ' ', '')"
    return f"CHAR_LENGTH(REGEXP_REPLACE(CONCAT(',', {bare}), {_FRACTIONS}, ''))"
