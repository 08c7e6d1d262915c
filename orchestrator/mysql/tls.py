"""How a session is encrypted, and what is not said on one that is not. One context for all sessions with a server:
reading the certificates costs more than the handshake."""

from __future__ import annotations

import ssl
from collections.abc import Callable
from functools import lru_cache, partial
from pathlib import Path
from typing import Any

import pymysql
from pymysql import _auth
from pymysql.constants import CR

from orchestrator.settings import TlsSettings

# "The server does not speak TLS": what PREFERRED goes on without. A failed handshake or chain is another error.
TLS_MISSING = CR.CR_SSL_CONNECTION_ERROR
# The password was asked for in a way in which it is not told on a session that is not encrypted.
UNENCRYPTED = CR.CR_AUTH_PLUGIN_ERR
# caching_sha2_password: what the server keeps does not tell whether the password is right, and it wants all of it.
_WHOLE_PASSWORD = b"\x01\x04"


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
    context.verify_mode = ssl.CERT_REQUIRED if tls.verifies else ssl.CERT_NONE
    # From Python 3.13 on the strict rules refuse the certificates that a MySQL server makes for itself.
    context.verify_flags &= ~ssl.VERIFY_X509_STRICT
    if tls.ca:
        context.load_verify_locations(cafile=tls.ca)
    elif tls.verifies:
        context.load_default_certs()
    if tls.cert:
        context.load_cert_chain(tls.cert, tls.key or None)
    return context


def login(tls: TlsSettings) -> dict[str, Any]:
    """The driver's arguments for how a password may be told. Raises OSError when the key's file cannot be read."""
    key = Path(tls.server_key).read_bytes() if tls.server_key else None
    plugins = {
        "mysql_clear_password": _NotInTheClear,
        # Sends it as it is, too; MySQL's own server asks for the first only (PAM, LDAP).
        "dialog": _NotInTheClear,
        "caching_sha2_password": partial(_CachingSha2, asks_key=tls.asks_key),
        "sha256_password": partial(_Sha256, asks_key=tls.asks_key),
        "client_ed25519": _NotSpoken,
        "mysql_old_password": _NotSpoken,
    }
    return {"auth_plugin_map": plugins, "server_public_key": key}


class _NotInTheClear:
    """Whoever answers on the server's port chooses how a password is sent. In the clear it is sent to a server that the
    session is encrypted with, or over a socket, and to nobody else."""

    def __init__(self, connection: Any) -> None:
        self._connection = connection

    def authenticate(self, packet: object) -> Any:
        if not self._connection._secure:
            raise pymysql.err.OperationalError(
                UNENCRYPTED, "the server asks for the password in the clear, and the session is not encrypted"
            )
        self._connection.write_packet(self._connection.password + b"\0")
        return self._connection._read_packet()


class _NotSpoken:
    """Of other kinds of servers, or long gone; the driver's own trip over what is not installed."""

    def __init__(self, connection: object) -> None:
        pass

    def authenticate(self, packet: object) -> Any:
        raise pymysql.err.OperationalError(
            CR.CR_AUTH_PLUGIN_CANNOT_LOAD, "the server asks for the password in a way that MySQL 8 does not know"
        )


class _Sha2:
    """The driver would encrypt the password for any key that it is sent on a session that is not encrypted itself: who
    sends his own reads it. So a key is taken from a file, or asked for when the operator says so, as MySQL's client
    does (``--server-public-key-path``, ``--get-server-public-key``)."""

    def __init__(self, connection: Any, *, asks_key: bool) -> None:
        self._connection = connection
        self._asks_key = asks_key

    @property
    def _needs_no_key(self) -> bool:
        return self._connection._secure or not self._connection.password

    def _refuse_without_key(self, plugin: str) -> None:
        if self._needs_no_key or self._connection.server_public_key or self._asks_key:
            return
        raise pymysql.err.OperationalError(
            UNENCRYPTED,
            f"{plugin} asks for the password itself, which happens after the server's start, or when it is wrong; the"
            " session is not encrypted, and the server's key is not known",
        )


class _CachingSha2(_Sha2):
    def authenticate(self, packet: Any) -> Any:
        connection = self._connection
        if connection.password and packet.is_auth_switch_request():
            connection.salt = packet.read_all().removesuffix(b"\0")
            connection.write_packet(_auth.scramble_caching_sha2(connection.password, connection.salt))
            packet = connection._read_packet()
            if not packet.is_extra_auth_data():
                # The driver's own way would answer another question of this kind, and then tell the password.
                return packet
        if packet._data[:2] == _WHOLE_PASSWORD:
            self._refuse_without_key("caching_sha2_password")
        return _with_key(_auth.caching_sha2_password_auth, connection, packet)


class _Sha256(_Sha2):
    """It knows no other way than the password itself. What the driver asked for in its greeting is a key, and it would
    take the one that comes in place of the one that it was given."""

    def authenticate(self, packet: Any) -> Any:
        connection, known = self._connection, self._connection.server_public_key
        self._refuse_without_key("sha256_password")
        if known and not self._needs_no_key and packet.is_extra_auth_data():
            packet._data = packet._data[:1] + known
        # Over a socket, where nobody else can send a key, the server wants it encrypted all the same.
        secure, connection._secure = connection._secure, connection._secure and not connection.unix_socket
        try:
            return _with_key(_auth.sha256_password_auth, connection, packet)
        finally:
            connection._secure = secure


def _with_key(way: Callable[[Any, Any], Any], connection: Any, packet: Any) -> Any:
    try:
        return way(connection, packet)
    except ValueError:
        raise pymysql.err.OperationalError(UNENCRYPTED, "the server's public key is none that can be read") from None
