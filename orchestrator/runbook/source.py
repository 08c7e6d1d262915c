"""From a path to text: everything that can be wrong with a file before its YAML is read."""

from __future__ import annotations

from pathlib import Path

from orchestrator.errors import RunbookError
from orchestrator.model.findings import FileFindings, Finding

MAX_BYTES = 1_048_576
_BOM = "\ufeff"


_MISSING = (
    "name it with -f/--runbook or ROLLOUT_RUNBOOK, or copy runbooks/template.yaml to rollout.yaml; of a rollout that"
    " has begun: rollout status --runbook-text --of NAME > rollout.yaml"
)


def read_source(path: Path, what: str = "a runbook", missing: str = _MISSING, most_bytes: int = MAX_BYTES) -> str:
    """The text with line ends as LF and without a byte-order mark. ``what`` and ``missing`` are words for a person.
    Raises RunbookError."""
    try:
        if path.is_dir():
            raise RunbookError(f"{path}: this is a directory", f"{what}, a file", "name the file itself")
        with path.open("rb") as file:
            raw = file.read(most_bytes + 1)
    except FileNotFoundError:
        raise RunbookError(
            f"{path}: there is no such file",
            what,
            missing,
        ) from None
    except (OSError, ValueError) as error:
        why = getattr(error, "strerror", None) or str(error)
        raise RunbookError(
            f"{path}: cannot be read: {why}", "a file that can be read", "check its owner and mode"
        ) from None
    if len(raw) > most_bytes:
        seen = f"the file is larger than {most_bytes // 1_048_576} MiB"
        raise FileFindings(str(path), [Finding(1, seen, f"{what} of some kilobytes", "name the right file")])
    return clean_text(decode(raw, str(path)))


def decode(raw: bytes, path: str) -> str:
    """UTF-8 only. Raises FileFindings with the line of the first byte that is not."""
    try:
        return raw.decode("utf-8")
    except UnicodeDecodeError as error:
        line = raw.count(b"\n", 0, error.start) + 1
        seen = f"byte {raw[error.start]:#04x} is not UTF-8"
        raise FileFindings(path, [Finding(line, seen, "a file in UTF-8", "save the file as UTF-8")]) from None


def clean_text(text: str) -> str:
    """Line ends as LF, no byte-order mark: an editor's habits are no difference between two runbooks."""
    return text.removeprefix(_BOM).replace("\r\n", "\n").replace("\r", "\n")
