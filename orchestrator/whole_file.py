"""A file written beside its place and renamed into it: readers see the old one or the new one, never half, and it never
had a wider mode than its own.

Whoever may write in the folder can lay a file or a link under any name that he can guess. So the name beside is drawn,
and a file is made there, never opened; a link that stands in the place itself is replaced, and not followed.
"""

from __future__ import annotations

import os
import secrets
from contextlib import suppress
from pathlib import Path

_NEW = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW


def write_whole(path: Path, text: str, mode: int = 0o644) -> None:
    """Whole, on the disk, and with that mode whatever the umask; or as it was before. Raises OSError."""
    beside = path.with_name(f".{path.name[:200]}.{secrets.token_hex(8)}")
    # Ours alone until all of it is there.
    file = os.open(beside, _NEW, 0o600)
    try:
        with os.fdopen(file, "w", encoding="utf-8") as opened:
            opened.write(text)
            os.fchmod(file, mode)
            opened.flush()
            os.fsync(file)
        beside.replace(path)
        _sync(path.parent)
    except BaseException:
        with suppress(OSError):
            beside.unlink(missing_ok=True)
        raise


def _sync(folder: Path) -> None:
    """The rename reaches the disk as well."""
    opened = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(opened)
    finally:
        os.close(opened)
