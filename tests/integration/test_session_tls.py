"""How a session is encrypted, against a server that makes its own certificates, and one that speaks no TLS."""

from __future__ import annotations

import socket
import struct
import threading
import uuid
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager, suppress
from pathlib import Path

import pytest
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import padding, rsa
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat
from msgspec.structs import replace

from orchestrator.errors import ServerUnreachable
from orchestrator.model.contract import TableName
from orchestrator.mysql.look.discovery import Address
from orchestrator.mysql.look.replicas import reach
from orchestrator.mysql.session import Session
from orchestrator.sandbox.pair import Pair
from orchestrator.settings import Secret, ServerSettings, TlsSettings
from tests.support.certificates import made, served
from tests.support.ghost import site_for
from tests.support.servers import script, sql
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
    assert cipher(over_tcp(pair, TlsSettings())), "the server keeps what it needs from a first login"
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


def test_who_names_an_authority_goes_on_with_nobody_whom_it_does_not_vouch_for(pair: Pair, no_tls: None) -> None:
    """Else whoever is between us needs only to say that there is no TLS."""
    with pytest.raises(ServerUnreachable) as refused:
        cipher(over_tcp(pair, TlsSettings("PREFERRED", ca=authority(pair))))
    assert "SSL is required" in refused.value.seen


def test_without_tls_on_the_server_preferred_goes_on_and_required_does_not(pair: Pair, no_tls: None) -> None:
    assert cipher(over_tcp(pair, TlsSettings("PREFERRED"))) == ""
    with pytest.raises(ServerUnreachable) as refused:
        cipher(over_tcp(pair, TlsSettings("REQUIRED")))
    assert "SSL is required" in refused.value.seen


GREETS = b"caching_sha2_password"
SALT = b"saltsalt" + b"saltsaltsalt"
# What it says after the greeting, and after each answer: another plugin, that it wants the whole password, its own key.
FULL, OWN_KEY = b"\x01\x04", b"key"


@contextmanager
def whoever_listens(
    says: Sequence[bytes], greets: bytes = GREETS, key: bytes = b"", visits: int = 1
) -> Iterator[tuple[int, list[bytes]]]:
    """Not a server: something on its port that greets without TLS and then asks for the password. Gives the port, and
    what it was sent in the last of the visits."""
    heard: list[bytes] = []

    def packet(number: int, body: bytes) -> bytes:
        return struct.pack("<I", len(body))[:3] + bytes([number]) + body

    def talk(peer: socket.socket) -> None:
        peer.settimeout(5)
        capabilities = 0x0008_A208  # protocol 41, secure connection, plugins; no TLS
        greeting = b"\x0a9.7.4\0" + struct.pack("<I", 1) + b"saltsalt\0" + struct.pack("<H", capabilities & 0xFFFF)
        greeting += b"\xff" + struct.pack("<HH", 2, capabilities >> 16) + b"\x15" + b"\0" * 10
        peer.sendall(packet(0, greeting + b"saltsaltsalt\0" + greets + b"\0"))
        heard.append(peer.recv(4096))
        for number, said in enumerate(says):
            peer.sendall(packet(2 + 2 * number, b"\x01" + key if said == OWN_KEY else said))
            heard.append(peer.recv(4096))

    def listen() -> None:
        for _ in range(visits):
            heard.clear()
            # Whoever hangs up has said all that he says.
            with closing(listener.accept()[0]) as peer, suppress(OSError):
                talk(peer)

    with closing(socket.create_server(("127.0.0.1", 0))) as listener:
        thread = threading.Thread(target=listen)
        thread.start()
        yield listener.getsockname()[1], heard
        thread.join(10)


def switch(plugin: bytes) -> bytes:
    return b"\xfe" + plugin + b"\0" + SALT + b"\0"


@pytest.mark.parametrize("asks", [b"mysql_clear_password", b"dialog", b"client_ed25519", b"mysql_old_password"])
def test_a_password_is_not_sent_in_the_clear_to_whoever_asks(pair: Pair, asks: bytes) -> None:
    with whoever_listens([b"\xfe" + asks + b"\0"]) as (port, heard):
        settings = replace(over_tcp(pair, TlsSettings("DISABLED")), port=port, password=Secret("s3cret-in-clear"))
        with pytest.raises(ServerUnreachable) as refused:
            Session(settings, role="test")
    assert "the server asks for the password in" in refused.value.seen
    assert len(heard) == 2
    assert b"s3cret-in-clear" not in b"".join(heard)


@pytest.fixture(scope="module")
def own_key() -> rsa.RSAPrivateKey:
    return rsa.generate_private_key(public_exponent=65537, key_size=2048)


def public(key: rsa.RSAPrivateKey) -> bytes:
    return key.public_key().public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo)


def read_by(key: rsa.RSAPrivateKey, heard: list[bytes]) -> str:
    """The password that the owner of the key can read in what he heard; "" when there is none."""
    way = padding.OAEP(mgf=padding.MGF1(hashes.SHA1()), algorithm=hashes.SHA1(), label=None)
    for message in (packet[4:] for packet in heard if len(packet) == 4 + 256):
        with suppress(ValueError):
            clear = key.decrypt(message, way)
            return bytes(c ^ SALT[n % len(SALT)] for n, c in enumerate(clear)).rstrip(b"\0").decode()
    return ""


ROGUES = {
    "the whole password": ([FULL, OWN_KEY], b"caching_sha2_password"),
    "another plugin and the whole password": ([switch(b"caching_sha2_password"), FULL, OWN_KEY], b"x"),
    "another plugin that knows no other way": ([switch(b"sha256_password"), OWN_KEY], GREETS),
    "a plugin that knows no other way": ([OWN_KEY], b"sha256_password"),
}


@pytest.mark.parametrize("mode", ["DISABLED", "PREFERRED"])
@pytest.mark.parametrize("rogue", ROGUES)
def test_a_password_is_not_encrypted_for_whoever_sends_a_key(
    pair: Pair, own_key: rsa.RSAPrivateKey, tmp_path: Path, rogue: str, mode: str
) -> None:
    """B109: no secret in the text; exit code for connection faults. Nor with the true server's key in a file. Who says
    that whoever answers is to be believed is believed: the one who listens here can read it then."""

    def tried(**how: object) -> tuple[str, ServerUnreachable]:
        # Without TLS there, PREFERRED comes a second time.
        with whoever_listens(*ROGUES[rogue], public(own_key), 2 if mode == "PREFERRED" else 1) as (port, heard):
            settings = over_tcp(pair, replace(TlsSettings(mode), **how))
            settings = replace(settings, port=port, password=Secret("s3cret-in-clear"))
            with pytest.raises(ServerUnreachable) as refused:
                Session(settings, role="test", timeout_s=2.0)
        return read_by(own_key, heard), refused.value

    read, refused = tried()
    assert read == ""
    assert "the session is not encrypted" in refused.seen
    assert "--get-server-public-key" in refused.next
    assert "s3cret" not in str(refused.as_dict())
    (tmp_path / "key.pem").write_bytes(public(rsa.generate_private_key(public_exponent=65537, key_size=2048)))
    assert tried(server_key=str(tmp_path / "key.pem"))[0] == ""
    assert tried(asks_key=True)[0] == "s3cret-in-clear"


@pytest.mark.parametrize("again", [switch(b"caching_sha2_password"), b"\xfe" + SALT + b"\0"])
@pytest.mark.parametrize("greets", [GREETS, b"x"])
def test_who_asks_for_another_plugin_again_is_told_nothing(
    pair: Pair, own_key: rsa.RSAPrivateKey, again: bytes, greets: bytes
) -> None:
    """The driver's own way would answer the second time and then take the key that it is sent."""
    says = [switch(b"caching_sha2_password"), again, FULL, OWN_KEY]
    with whoever_listens(says, greets, public(own_key)) as (port, heard):
        settings = replace(over_tcp(pair, TlsSettings("DISABLED")), port=port, password=Secret("s3cret-in-clear"))
        with pytest.raises(ServerUnreachable):
            Session(settings, role="test", timeout_s=2.0)
    # Whatever salt it was mixed with: a message of the length of the key is the password, for who has the other half.
    assert [len(packet) for packet in heard if len(packet) >= 256] == []
    assert b"s3cret" not in b"".join(heard)


@contextmanager
def account_of(pair: Pair, plugin: str, password: str = "right-Secret") -> Iterator[ServerSettings]:
    """One of its own, over TCP, which the server has never seen: it keeps nothing of it yet."""
    user = f"u{uuid.uuid4().hex[:12]}"
    script(pair.primary, f"CREATE USER {user}@'%' IDENTIFIED WITH {plugin} BY '{password}'")
    try:
        yield replace(over_tcp(pair, TlsSettings("DISABLED")), user=user, password=Secret(password))
    finally:
        script(pair.primary, f"DROP USER {user}@'%'")


def enters(settings: ServerSettings, **tls: object) -> str:
    """ "" when there is a session, else what is said."""
    try:
        Session(replace(settings, tls=replace(settings.tls, **tls)), role="test").close()
    except ServerUnreachable as refused:
        return f"{refused.seen} {refused.next}"
    return ""


@pytest.mark.parametrize("plugin", ["caching_sha2_password", "sha256_password"])
def test_a_first_login_without_tls_needs_the_servers_key(pair: Pair, tmp_path: Path, plugin: str) -> None:
    """B109: cryptography is a hard dependency; an account with caching_sha2_password, TLS off, nothing kept of it."""
    status = {"caching_sha2_password": "Caching_sha2_password_rsa_public_key", "sha256_password": "Rsa_public_key"}
    key = tmp_path / "key.pem"
    key.write_text(sql(pair.primary, f"SHOW STATUS LIKE '{status[plugin]}'")[0][1])
    with account_of(pair, plugin) as plain:
        told = enters(plain)
        assert "the session is not encrypted" in told
        assert "right-Secret" not in told
        assert enters(plain, server_key=str(key)) == ""
        kept = plugin == "caching_sha2_password"
        assert ("the session is not encrypted" in enters(plain)) is not kept, "what the server keeps is enough"
    with account_of(pair, plugin) as plain:
        assert enters(plain, asks_key=True) == ""
    with account_of(pair, plugin) as plain:
        key.write_text("no key")
        assert "none that can be read" in enters(plain, server_key=str(key))
        assert "none.pem" in enters(plain, server_key=str(tmp_path / "none.pem"))
    with account_of(pair, plugin) as plain:
        socket_of = str(sql(pair.primary, "SELECT @@socket")[0][0])
        assert enters(replace(plain, socket=socket_of)) == ""
    with account_of(pair, plugin) as plain:
        assert enters(plain, mode="REQUIRED") == ""


@pytest.mark.parametrize("plugin", ["caching_sha2_password", "sha256_password"])
@pytest.mark.parametrize("password", ["d\u00e9j\u00e0", "\u043f\u0430\u0440\u043e\u043b\u044c\U0001f511"])
def test_a_password_may_be_written_in_any_script(pair: Pair, plugin: str, password: str) -> None:
    with account_of(pair, plugin, password) as plain:
        for how in ({"mode": "REQUIRED"}, {"asks_key": True}):
            assert enters(plain, **how) == ""


@pytest.mark.parametrize("plugin", ["caching_sha2_password", "sha256_password"])
def test_a_wrong_password_is_access_denied_where_it_was_told(pair: Pair, plugin: str) -> None:
    """B109: error 1045 is shown as "access denied", no secret in the text."""
    with account_of(pair, plugin) as plain:
        wrong = replace(plain, password=Secret("wrong-Secret"))
        assert "when it is wrong" in enters(wrong) or plugin == "sha256_password"
        for how in ({"mode": "REQUIRED"}, {"asks_key": True}):
            told = enters(wrong, **how)
            assert told.startswith("access denied: "), told
            assert "(1045)" in told
            assert "wrong-Secret" not in told


def test_a_replica_is_entered_by_the_rules_of_the_primary(pair: Pair, tmp_path: Path) -> None:
    """Somebody at its address, with a certificate of his own, is not told the password where an authority is named."""
    shown = made(tmp_path / "tls")
    site = site_for(pair.primary, TableName("shop", "orders"))
    tls = TlsSettings("VERIFY_IDENTITY", ca=shown.path("ca.pem"))
    site = replace(site, settings=replace(site.settings, tls=tls))
    address = Address("replica", (pair.replica.host,), pair.replica.port)
    with pytest.raises(ServerUnreachable) as refused:
        reach(address, site)
    assert "certificate verify failed" in refused.value.seen
    with served(pair.replica, shown):
        reach(address, site).close()
