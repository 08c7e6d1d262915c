"""Which gh-ost is used: the operator's own when it may be, else the one that ``make gh-ost`` built.

1.1.10 is the oldest: 1.1.7 speaks no MySQL 8.4 or newer, 1.1.8 and 1.1.9 lose rows when they resume, and none of them
takes a lock against a second run on the same table. A build that does not say its version may be any of them.
"""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Mapping
from pathlib import Path

from msgspec import Struct

from orchestrator.errors import ConfigurationError

OLDEST = (1, 1, 10)
EXPECTED = "gh-ost 1.1.10 or newer"
_VERSION = re.compile(r"^v?(\d+)\.(\d+)\.(\d+)\b")
_TIMEOUT_S = 10


class Binary(Struct, frozen=True):
    path: Path
    version: tuple[int, int, int]

    @property
    def version_text(self) -> str:
        return ".".join(map(str, self.version))


def find(built: Path, env: Mapping[str, str] | None = None) -> Binary:
    """``ROLLOUT_GH_OST`` is an order; else gh-ost on PATH, else ``built``. Raises ConfigurationError."""
    env = os.environ if env is None else env
    if ordered := env.get("ROLLOUT_GH_OST"):
        found = judge(Path(ordered).expanduser().absolute())
        if isinstance(found, str):
            raise ConfigurationError(
                f"ROLLOUT_GH_OST: {found}", EXPECTED, "point ROLLOUT_GH_OST at one, or unset it and type the same again"
            )
        return found
    on_path = shutil.which("gh-ost", path=env.get("PATH", os.defpath))
    reasons = []
    for path in (Path(on_path) if on_path else None, built):
        if path is None or not path.exists():
            continue
        found = judge(path.absolute())
        if isinstance(found, Binary):
            return found
        reasons.append(found)
    raise ConfigurationError(
        "; ".join(reasons) or "there is no gh-ost on PATH, and none was built",
        EXPECTED,
        "make gh-ost (in a checkout), or put one on PATH, or choose phases.ddl.engine: native",
    )


def judge(path: Path) -> Binary | str:
    """The program when it may be used, else why not, in one phrase. Runs ``--version``."""
    import sh  # a twentieth of a second, which only those pay who run the program

    try:
        told = str(sh.Command(str(path))("--version", _timeout=_TIMEOUT_S, _decode_errors="replace")).strip()
    except (sh.CommandNotFound, sh.ForkException, OSError):
        return f"{path} is not a program that can be run"
    except sh.TimeoutException:
        return f"{path} --version gave no answer in {_TIMEOUT_S} s"
    except sh.ErrorReturnCode as error:
        return f"{path} --version fails with {error.exit_code}"
    match = _VERSION.match(told)
    if match is None:
        return f"{path} does not say which version it is ({told[:60]!r})"
    version = (int(match[1]), int(match[2]), int(match[3]))
    if version < OLDEST:
        return f"{path} is gh-ost {'.'.join(map(str, version))}, which loses rows or cannot speak to this server"
    return Binary(path, version)
