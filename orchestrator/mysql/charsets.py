"""Text in one character set read as another: as utf8mb4, byte by byte, and whether every byte of it is a character."""

from __future__ import annotations

from orchestrator.mysql.kinds import UTF8MB4, Kind

# Whose every value comes back from utf8mb4 (latin1 too: each of its 256 bytes does on 9.7.4). In others a byte may
# stand for nothing, and is read as '?' without a word.
_COME_BACK = frozenset({UTF8MB4, "utf8mb3", "utf16", "utf16le", "utf32", "ucs2", "ascii", "latin1"})


def byte_collation(charset: str) -> str:
    """The collation of ``charset`` that tells every two texts apart, trailing blanks too where there is one."""
    return "utf8mb4_0900_bin" if charset == UTF8MB4 else f"{charset}_bin"


def utf8(sql: str, kind: Kind) -> str:
    """As utf8mb4."""
    return sql if kind.charset == UTF8MB4 else f"CONVERT({sql} USING utf8mb4)"


def wide(sql: str, kind: Kind) -> str:
    """As utf8mb4, compared byte by byte with what says so."""
    return f"{utf8(sql, kind)} COLLATE utf8mb4_0900_bin"


def readable(sql: str, kind: Kind) -> tuple[str, ...]:
    """The test that every byte of the text is a character: as utf8mb4 and back it is the same bytes. None where it
    always is."""
    if kind.charset in _COME_BACK:
        return ()
    return (f"CAST(CONVERT({utf8(sql, kind)} USING {kind.charset}) AS BINARY) = CAST({sql} AS BINARY)",)
