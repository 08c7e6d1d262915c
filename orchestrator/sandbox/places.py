"""Where things of this project lie: in a checkout beside the code, elsewhere in the user's cache and in the wheel."""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from orchestrator.errors import ConfigurationError

_PACKAGE = Path(__file__).resolve().parent.parent


class SandboxError(ConfigurationError):
    """This machine cannot run a throwaway server, or the one that was asked for did not start."""

    code = "sandbox"


def project_root() -> Path | None:
    """The checkout that this code runs from; None when it was installed from a wheel."""
    root = _PACKAGE.parent
    return root if (root / "pyproject.toml").is_file() and (root / "Makefile").is_file() else None


def cache_folder() -> Path:
    """Where servers and templates are kept: ``.cache`` of the checkout, else ``rollout`` in the user's cache."""
    root = project_root()
    if root is not None:
        return root / ".cache"
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "rollout"


def runbooks_folder() -> Path:
    """Where the shipped runbooks are: ``runbooks`` of the checkout, else inside the installed package."""
    root = project_root()
    return root / "runbooks" if root is not None else _PACKAGE / "_runbooks"


@contextmanager
def locked(path: Path) -> Iterator[None]:
    """Only one process on this machine is inside at a time; the others wait. Freed by the kernel if the holder dies."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("a") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield
