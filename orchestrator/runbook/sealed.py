"""Files that we write beside a runbook and believe again: a digest in the first line, then what it is the digest of as
JSON. What was changed by hand is told from what we wrote."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Mapping

from msgspec import Struct

from orchestrator.model.findings import FileFindings, Finding

_DIGEST = re.compile(r"[0-9a-f]{64}")


class Kind(Struct, frozen=True):
    """What such a file is, for what is said of one that is none: ``a lock that rollout freeze wrote``."""

    expected: str
    mend: str


def body_digest(body: Mapping[str, object]) -> str:
    """Hex sha256 of the body, however it is written."""
    text = json.dumps(body, sort_keys=True, ensure_ascii=True, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()


def sealed_text(body: Mapping[str, object]) -> str:
    """The file: JSON with sorted keys, so that a change of its meaning is a change of a few lines."""
    return f"{body_digest(body)}\n{json.dumps(body, indent=1, sort_keys=True, ensure_ascii=False)}\n"


def read_sealed(text: str, path: str, kind: Kind) -> tuple[str, dict[str, object]]:
    """Digest and body. Raises FileFindings when it is no such file, or was changed by hand."""
    said, _, written = text.partition("\n")
    if not _DIGEST.fullmatch(said):
        raise refused(path, 1, "the first line is no digest", kind)
    try:
        body = json.loads(written)
    except json.JSONDecodeError as error:
        raise refused(path, error.lineno + 1, f"this is not JSON: {error.msg}", kind) from None
    except (RecursionError, ValueError):
        raise refused(path, 2, "nested too deep, or a number too long", kind) from None
    if not isinstance(body, dict):
        raise refused(path, 2, "what the digest is of is missing", kind)
    if body_digest(body) != said:
        raise refused(path, 1, "the digest is not that of what follows: the file was changed by hand", kind)
    return said, body


def refused(path: str, line: int, seen: str, kind: Kind) -> FileFindings:
    return FileFindings(path, [Finding(line, seen, kind.expected, kind.mend)])
