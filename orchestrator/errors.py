"""Every error that an operator can meet: three parts (seen, expected, next) and an exit code owned by its class."""

from __future__ import annotations

from enum import IntEnum


class Exit(IntEnum):
    """The exit codes of the command; the numbers are a promise to scripts."""

    DONE = 0
    DIFFERS = 1
    USAGE = 2
    SOMETHING_TO_DO = 3
    RUNBOOK = 65
    UNREACHABLE = 69
    BUG = 70
    HELD = 75
    PHASE_FAILED = 76
    PRIVILEGE = 77
    CONFIGURATION = 78
    CANNOT_SAY = 80
    ROWS_DIFFER = 81


class RolloutError(Exception):
    """What was seen, what was expected, and what to do next. Nothing was changed unless the class says otherwise."""

    exit_code: Exit = Exit.BUG
    code: str = "bug"

    def __init__(self, seen: str, expected: str, next: str) -> None:
        super().__init__(seen)
        self.seen = seen
        self.expected = expected
        self.next = next

    def as_dict(self) -> dict[str, object]:
        """The JSON form of the error (SPEC §7: ``error code seen expected next``)."""
        return {
            "error": self.code,
            "code": int(self.exit_code),
            "seen": self.seen,
            "expected": self.expected,
            "next": self.next,
        }


class UsageError(RolloutError):
    """The command line asks for something that cannot be meant."""

    exit_code = Exit.USAGE
    code = "usage"


class RunbookError(RolloutError):
    """The runbook, or the table, key or mapping that it names, cannot be used."""

    exit_code = Exit.RUNBOOK
    code = "runbook"


class ServerUnreachable(RolloutError):
    """No session with the server could be had (network, name, password, too many connections)."""

    exit_code = Exit.UNREACHABLE
    code = "unreachable"


class Held(RolloutError):
    """A check, another holder, or a request holds the rollout. Nothing was changed; trying again is right."""

    exit_code = Exit.HELD
    code = "held"


class LeaseTaken(Held):
    """Somebody else acts on this rollout now; says who, where, since when."""

    code = "lease-taken"


class Fenced(Held):
    """Our lease was taken over: whatever we were about to write has not been written."""

    code = "fenced"


class Displaced(Fenced):
    """Our lease cannot be kept for a reason that waiting does not mend (a demoted primary, another server, a state that
    is gone, a right that is missing): it says that reason, with its exit code. Nothing more was written."""

    def __init__(self, why: RolloutError) -> None:
        super().__init__(why.seen, why.expected, why.next)
        self.exit_code, self.code = why.exit_code, why.code


class PhaseFailed(RolloutError):
    """A phase failed and what was promised for that case happened (paused or rolled back; ``seen`` says which)."""

    exit_code = Exit.PHASE_FAILED
    code = "phase-failed"


class PrivilegeMissing(RolloutError):
    """The account lacks a right; ``next`` holds the exact GRANT."""

    exit_code = Exit.PRIVILEGE
    code = "privilege"


class ConfigurationError(RolloutError):
    """The server (kind, version, settings, role) or our own state does not allow this."""

    exit_code = Exit.CONFIGURATION
    code = "configuration"


class AnotherServer(ConfigurationError):
    """The address leads to another server than the one that answered this command before. Nothing was said there."""


class CannotSay(RolloutError):
    """What happened cannot be told from what the server shows; a human must look before anything else is done."""

    exit_code = Exit.CANNOT_SAY
    code = "cannot-say"


class Ambiguous(Exception):
    """The outcome is unknown (a connection died in flight): ask the server before anything else."""
