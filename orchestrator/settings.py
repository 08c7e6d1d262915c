"""Where the server is and who we are. A password cannot print itself."""

from __future__ import annotations

from msgspec import Struct, field


class Secret:
    """A text that is handed to the driver and shown to nobody: repr, str and format give ``***``."""

    __slots__ = ("_text",)

    def __init__(self, text: str) -> None:
        self._text = text

    def reveal(self) -> str:
        """The text itself; called only where the session is opened."""
        return self._text

    def __repr__(self) -> str:
        return "***"

    __str__ = __repr__

    def __bool__(self) -> bool:
        return bool(self._text)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Secret) and other._text == self._text

    def __hash__(self) -> int:
        return hash(self._text)


class TlsSettings(Struct, frozen=True):
    """``mode``: DISABLED, PREFERRED, REQUIRED, VERIFY_CA, VERIFY_IDENTITY, as the mysql client means them.

    On a session that is not encrypted a password is encrypted for the key in the file ``server_key``, or, with
    ``asks_key``, for the one that whoever answers sends."""

    mode: str = "PREFERRED"
    ca: str = ""
    cert: str = ""
    key: str = ""
    server_key: str = ""
    asks_key: bool = False

    @property
    def verifies(self) -> bool:
        """Whether the server's certificate is looked at."""
        return bool(self.ca) or self.mode.startswith("VERIFY_")


class OneServer:
    """Which server answers at an address, by the first that did; shared by all sessions of one command."""

    __slots__ = ("_uuid",)

    def __init__(self) -> None:
        self._uuid = ""

    def before(self, uuid: str) -> str:
        """The server that answered before; ``uuid`` itself when it is the first."""
        self._uuid = self._uuid or uuid
        return self._uuid


class ServerSettings(Struct, frozen=True):
    """How to reach one server. A socket wins over host and port. ``one``: sessions that write must meet the server that
    answered first; None: nobody looks."""

    host: str = "127.0.0.1"
    port: int = 3306
    socket: str = ""
    user: str = "root"
    password: Secret = field(default_factory=lambda: Secret(""))
    tls: TlsSettings = field(default_factory=TlsSettings)
    state_schema: str = "_rollout"
    one: OneServer | None = None

    @property
    def address(self) -> str:
        return self.socket or f"{self.host}:{self.port}"

    @property
    def is_local(self) -> bool:
        """Whether the server shares this machine's disks, as far as an address can tell."""
        return bool(self.socket) or self.host in ("127.0.0.1", "localhost", "::1")
