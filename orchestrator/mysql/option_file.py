"""The usual option files of MySQL clients, read as the clients read them: the groups [client] and [rollout]."""

from __future__ import annotations

import configparser
from collections.abc import Iterator
from pathlib import Path

from pymysql.optionfile import Parser

from orchestrator.errors import ConfigurationError

_USUAL = ("/etc/my.cnf", "/etc/mysql/my.cnf", "~/.my.cnf")
_GROUPS = ("client", "rollout")
_SWITCHES = ("get-server-public-key",)
_DEEPEST = 10


def read_option_files(only: str = "") -> dict[str, str]:
    """Options by their long name with ``-`` for ``_``; later files and the group [rollout] win. Missing files are
    skipped, but ``only`` (--defaults-file) must be there. ``!include`` and ``!includedir`` are followed.

    Raises ConfigurationError, which never repeats a value.
    """
    if only and not Path(only).is_file():
        raise ConfigurationError(f"there is no file {only}", "a readable option file", "correct --defaults-file")
    found: dict[str, str] = {}
    for file in [Path(only)] if only else [Path(p).expanduser() for p in _USUAL]:
        if file.is_file():
            found |= _options(file)
    return found


def _options(file: Path) -> dict[str, str]:
    # MySQL takes the last of two equal options, where a strict parser would stop.
    parser = Parser(strict=False)
    try:
        parser.read_string("\n".join(_lines(file, 0)), str(file))
    except (configparser.Error, UnicodeDecodeError, OSError) as error:
        told = f"{file}: {type(error).__name__}"
        raise ConfigurationError(told, "an option file with [groups] and key=value lines", "mend it") from None
    found: dict[str, str] = {}
    for group in _GROUPS:
        if parser.has_section(group):
            items: list[tuple[str, str | None]] = list(parser.items(group, raw=True))
            # An option without a value would trip the parser's own get; ssl, compress and their like are none of ours.
            found |= {name: parser.get(group, name) for name, value in items if value is not None}
            found |= {name: "1" for name, value in items if value is None and name in _SWITCHES}
    return found


def _lines(file: Path, depth: int) -> Iterator[str]:
    """The lines of a file with those that it includes in their place."""
    for line in file.read_text(encoding="utf-8").splitlines():
        word, _, where = line.strip().partition(" ")
        if word not in ("!include", "!includedir"):
            yield line
        elif depth < _DEEPEST:
            path = Path(where.strip())
            inner = [path] if word == "!include" else sorted(path.glob("*.cnf"))
            for each in inner:
                if each.is_file():
                    yield from _lines(each, depth + 1)
