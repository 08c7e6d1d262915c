"""The usual option files of MySQL clients, read as the clients read them: the groups [client] and [rollout]."""

from __future__ import annotations

import configparser
from pathlib import Path

from pymysql.optionfile import Parser

from orchestrator.errors import ConfigurationError

_USUAL = ("/etc/my.cnf", "/etc/mysql/my.cnf", "~/.my.cnf")
_GROUPS = ("client", "rollout")


def read_option_files(only: str = "") -> dict[str, str]:
    """Options by their long name with ``-`` for ``_``; later files and the group [rollout] win. Missing files are
    skipped,
    but ``only`` (--defaults-file) must be readable. Raises ConfigurationError, which never repeats a value."""
    files = [Path(only)] if only else [Path(p).expanduser() for p in _USUAL]
    found: dict[str, str] = {}
    for file in files:
        if not file.is_file():
            if only:
                raise ConfigurationError(f"there is no file {file}", "a readable file", "correct --defaults-file")
            continue
        parser = Parser(allow_no_value=True, strict=False)
        try:
            parser.read(file, encoding="utf-8")
        except (configparser.Error, UnicodeDecodeError, OSError) as error:
            told = f"{file}: {type(error).__name__}"
            raise ConfigurationError(told, "an option file with [groups] and key=value lines", "mend it") from None
        for group in _GROUPS:
            if parser.has_section(group):
                # Parser.get strips the quotes that option files allow around a value.
                found |= {k.replace("_", "-"): parser.get(group, k) for k in parser.options(group)}
    return {k: v for k, v in found.items() if v is not None}
