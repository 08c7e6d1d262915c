"""How a session is encrypted, against a server that makes its own certificates, and one that speaks no TLS."""

from __future__ import annotations

import socket
import struct
import threading
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import pytest
from msgspec.structs import replace

from orchestrator.errors import ServerUnreachable
from orchestrator.mysql.session import Session
from orchestrator.sandbox.pair import Pair
from orchestrator.settings import Secret, ServerSettings, TlsSettings
from tests.support.servers import sql
from tests.support.state import settings_of

pytestmark = pytest.mark.integration


def over_tcp(pair: Pair, tls: TlsSettings) -> ServerSettings:
    return replace(settings_of(pair.primary), socket="", tls=tls)


def cipher(settings: ServerSettings) -> str:
    with closing(Session(settings, role="test")) as session:
        row = session.one("SHOW SESSION STATUS LIKE 'Ssl_cipher'")
        assert row is not None
        return str(row[1])


def authority(pair: Pair) -> str:
    return str(Path(sql(pair.primary, "SELECT @@datadir")[0][0]) / "ca.pem")


@pytest.fixture
def no_tls(pair: Pair) -> Iterator[None]:
    before = sql(pair.primary, "SELECT @@tls_version")[0][0]
    sql(pair.primary, "SET GLOBAL tls_version = ''")
    # A version that there is not leaves the server without TLS, which is what it is asked for here.
    sql(pair.primary, "ALTER INSTANCE RELOAD TLS NO ROLLBACK ON ERROR")
    yield
    sql(pair.primary, "SET GLOBAL tls_version = %s", (before,))
    sql(pair.primary, "ALTER INSTANCE RELOAD TLS")


@pytest.mark.parametrize("mode", ["PREFERRED", "REQUIRED"])
def test_a_session_is_encrypted_where_the_server_can(pair: Pair, mode: str) -> None:
    assert cipher(over_tcp(pair, TlsSettings(mode)))


def test_disabled_means_that_nothing_is_encrypted(pair: Pair) -> None:
    assert cipher(over_tcp(pair, TlsSettings("DISABLED"))) == ""


def test_the_servers_own_authority_vouches_for_it_and_the_systems_do_not(pair: Pair) -> None:
    assert cipher(over_tcp(pair, TlsSettings("VERIFY_CA", ca=authority(pair))))
    with pytest.raises(ServerUnreachable) as refused:
        cipher(over_tcp(pair, TlsSettings("VERIFY_CA")))
    assert "certificate verify failed" in refused.value.seen


def test_a_name_that_the_certificate_does_not_have_is_refused(pair: Pair) -> None:
    with pytest.raises(ServerUnreachable) as refused:
        cipher(over_tcp(pair, TlsSettings("VERIFY_IDENTITY", ca=authority(pair))))
    assert "certificate" in refused.value.seen


def test_an_authority_that_is_not_there_is_an_error_and_no_plain_session(pair: Pair, tmp_path: Path) -> None:
    with pytest.raises(ServerUnreachable):
        cipher(over_tcp(pair, TlsSettings("PREFERRED", ca=str(tmp_path / "none.pem"))))


def test_without_tls_on_the_server_preferred_goes_on_and_required_does_not(pair: Pair, no_tls: None) -> None:
    assert cipher(over_tcp(pair, TlsSettings("PREFERRED"))) == ""
    with pytest.raises(ServerUnreachable) as refused:
        cipher(over_tcp(pair, TlsSettings("REQUIRED")))
    assert "SSL is required" in refused.value.seen


@contextmanager
def whoever_listens(asks: bytes) -> Iterator[tuple[int, list[bytes]]]:
    """Not a server: something on its port that greets without TLS and then asks for the password by that plugin. Gives
    the port, and what it was sent."""
    heard: list[bytes] = []

    def packet(number: int, body: bytes) -> bytes:
        return struct.pack("<I", len(body))[:3] + bytes([number]) + body

    def listen() -> None:
        with closing(listener.accept()[0]) as peer:
            peer.settimeout(5)
            capabilities = 0x0008_A208  # protocol 41, secure connection, plugins; no TLS
            greeting = b"\x0a9.7.4\0" + struct.pack("<I", 1) + b"saltsalt\0" + struct.pack("<H", capabilities & 0xFFFF)
            greeting += b"\xff" + struct.pack("<HH", 2, capabilities >> 16) + b"\x15" + b"\0" * 10
            peer.sendall(packet(0, greeting + b"saltsaltsalt\0caching_sha2_password\0"))
            heard.append(peer.recv(4096))
            peer.sendall(packet(2, b"\xfe" + asks + b"\0"))
            heard.append(peer.recv(4096))

    with closing(socket.create_server(("127.0.0.1", 0))) as listener:
        thread = threading.Thread(target=listen)
        thread.start()
        yield listener.getsockname()[1], heard
        thread.join(10)


@pytest.mark.parametrize("asks", [b"mysql_clear_password", b"dialog"])
def test_a_password_is_not_sent_in_the_clear_to_whoever_asks(pair: Pair, asks: bytes) -> None:
    with whoever_listens(asks) as (port, heard):
        settings = replace(over_tcp(pair, TlsSettings("DISABLED")), port=port, password=Secret("s3cret-in-clear"))
        with pytest.raises(ServerUnreachable) as refused:
            Session(settings, role="test")
    assert "in the clear" in refused.value.seen
    assert len(heard) == 2
    assert b"s3cret-in-clear" not in b"".join(heard)
