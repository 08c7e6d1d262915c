"""How a session is encrypted, and what is not said on one that is not. One context for all sessions with a server:
reading the certificates costs more than the handshake."""

from __future__ import annotations

import ssl
from collections.abc import Callable
from functools import lru_cache
from typing import Any

import pymysql
from pymysql.constants import CR

from orchestrator.settings import TlsSettings

# "The server does not speak TLS": what PREFERRED goes on without. A failed handshake or chain is another error.
TLS_MISSING = CR.CR_SSL_CONNECTION_ERROR


def options(tls: TlsSettings, over_socket: bool) -> dict[str, Any]:
    """The driver's arguments. A socket is not encrypted: nobody else can listen there."""
    if tls.mode == "DISABLED" or over_socket:
        return {"ssl_disabled": True}
    return {"ssl": _context(tls)}


@lru_cache(maxsize=8)
def _context(tls: TlsSettings) -> ssl.SSLContext:
    """Verifies the chain when a certificate authority was named or a VERIFY mode asked for, the name with
    VERIFY_IDENTITY. Raises OSError for files that cannot be read."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = tls.mode == "VERIFY_IDENTITY"
    verify = bool(tls.ca) or tls.mode.startswith("VERIFY_")
    context.verify_mode = ssl.CERT_REQUIRED if verify else ssl.CERT_NONE
    # From Python 3.13 on the strict rules refuse the certificates that a MySQL server makes for itself.
    context.verify_flags &= ~ssl.VERIFY_X509_STRICT
    if tls.ca:
        context.load_verify_locations(cafile=tls.ca)
    elif verify:
        context.load_default_certs()
    if tls.cert:
        context.load_cert_chain(tls.cert, tls.key or None)
    return context


class _NotInTheClear:
    """Whoever answers on the server's port chooses how a password is sent. In the clear it is sent to a server that the
    session is encrypted with, or over a socket, and to nobody else."""

    def __init__(self, connection: Any) -> None:
        self._connection = connection

    def authenticate(self, packet: object) -> Any:
        if not self._connection._secure:
            raise pymysql.err.OperationalError(
                CR.CR_AUTH_PLUGIN_ERR,
                "the server asks for the password in the clear, and the session is not encrypted (--ssl-mode REQUIRED)",
            )
        self._connection.write_packet(self._connection.password + b"\0")
        return self._connection._read_packet()


# Both of the driver's ways that send a password as it is; MySQL's own server asks for the first only (PAM, LDAP).
PLUGINS: dict[str, Callable[[pymysql.Connection[Any]], Any]] = {
    "mysql_clear_password": _NotInTheClear,
    "dialog": _NotInTheClear,
}
