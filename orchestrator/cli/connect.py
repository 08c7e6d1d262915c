"""Where the server is: from the flags, else ROLLOUT_*, else the usual option files. Passwords never come from flags."""

from __future__ import annotations

import getpass
import os
import sys
from collections.abc import Mapping
from urllib.parse import unquote, urlsplit

from msgspec import Struct

from orchestrator.errors import ConfigurationError, UsageError
from orchestrator.settings import Secret, ServerSettings, TlsSettings

_TLS_MODES = ("DISABLED", "PREFERRED", "REQUIRED", "VERIFY_CA", "VERIFY_IDENTITY")
# As option files of MySQL write a switch.
_ON, _OFF = frozenset({"1", "on", "true"}), frozenset({"", "0", "off", "false"})


class ServerFlags(Struct, frozen=True):
    """What was typed; None where nothing was. ``ask_password``: read one from the terminal."""

    url: str | None = None
    host: str | None = None
    port: int | None = None
    socket: str | None = None
    user: str | None = None
    ask_password: bool = False
    defaults_file: str | None = None
    ssl_mode: str | None = None
    ssl_ca: str | None = None
    ssl_cert: str | None = None
    ssl_key: str | None = None
    server_public_key_path: str | None = None
    get_server_public_key: bool = False


def server_settings(flags: ServerFlags, environment: Mapping[str, str] = os.environ) -> ServerSettings:
    """Flags win over a URL, that over ROLLOUT_*, that over option files.

    Raises UsageError for a URL with a password in it, ConfigurationError for values that cannot be meant.
    """
    # The MySQL room costs start-up time that --help should not pay.
    from orchestrator.mysql.option_file import read_option_files

    files = read_option_files(flags.defaults_file or environment.get("ROLLOUT_DEFAULTS_FILE", ""))
    url = _from_url(flags.url)

    def pick(name: str, typed: object = None) -> str:
        for value in (
            typed,
            url.get(name),
            environment.get("ROLLOUT_" + name.upper().replace("-", "_")),
            files.get(name),
        ):
            if value not in (None, ""):
                return str(value)
        return ""

    socket = pick("socket", flags.socket)
    if flags.socket is None and (flags.host is not None or "host" in url or "ROLLOUT_HOST" in environment):
        # A host that was said on purpose is not overridden by the socket of an option file.
        socket = environment.get("ROLLOUT_SOCKET", "") if flags.host is None and "host" not in url else ""
    mode = (pick("ssl-mode", flags.ssl_mode) or "PREFERRED").upper()
    if mode not in _TLS_MODES:
        raise ConfigurationError(f"ssl-mode {mode}", f"one of {', '.join(_TLS_MODES)}", "correct --ssl-mode")
    return ServerSettings(
        host=pick("host", flags.host) or "127.0.0.1",
        port=_port(pick("port", flags.port) or "3306"),
        socket=socket,
        user=pick("user", flags.user) or getpass.getuser(),
        password=_password(flags, environment, files),
        tls=TlsSettings(
            mode,
            pick("ssl-ca", flags.ssl_ca),
            pick("ssl-cert", flags.ssl_cert),
            pick("ssl-key", flags.ssl_key),
            pick("server-public-key-path", flags.server_public_key_path),
            _on("get-server-public-key", pick("get-server-public-key", flags.get_server_public_key or None)),
        ),
        state_schema=environment.get("ROLLOUT_STATE_SCHEMA", "") or "_rollout",
    )


def _on(name: str, text: str) -> bool:
    if text.lower() not in _ON | _OFF:
        raise ConfigurationError(f"{name} {text!r}", "1 or 0", f"correct {name}, or leave it out")
    return text.lower() in _ON


def _password(flags: ServerFlags, environment: Mapping[str, str], files: Mapping[str, str]) -> Secret:
    if flags.ask_password:
        if not sys.stdin.isatty():
            raise UsageError(
                "there is no terminal to ask for a password", "a terminal", "use ROLLOUT_PASSWORD or an option file"
            )
        return Secret(getpass.getpass("Password: "))
    return Secret(environment.get("ROLLOUT_PASSWORD") or files.get("password", ""))


def _port(text: str) -> int:
    if not text.isdecimal() or not 0 < int(text) < 65536:
        raise ConfigurationError(f"port {text!r}", "a number from 1 to 65535", "correct --port or ROLLOUT_PORT")
    return int(text)


def _from_url(url: str | None) -> dict[str, str]:
    if not url:
        return {}
    try:
        parts = urlsplit(url)
        port = parts.port
    except ValueError:
        # Not with the driver's words: they may repeat a piece of a password.
        raise UsageError("a URL whose host or port cannot be read", "mysql://user@host:port", "correct --url") from None
    if parts.scheme != "mysql":
        raise UsageError(f"a URL with the scheme {parts.scheme!r}", "mysql://user@host:port", "correct --url")
    if parts.password is not None:
        raise UsageError(
            "the URL holds a password", "no password on the command line", "use ROLLOUT_PASSWORD or an option file"
        )
    found = {"host": parts.hostname or "", "port": str(port or ""), "user": unquote(parts.username or "")}
    return {k: v for k, v in found.items() if v}
