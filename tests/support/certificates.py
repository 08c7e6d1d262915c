"""An authority of a test's own, with certificates for a server and for a client, and a server that shows them."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from ipaddress import ip_address
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat
from cryptography.x509.oid import NameOID

from orchestrator.sandbox.server import Server
from tests.support.servers import script, sql

_SETTINGS = ("ssl_ca", "ssl_cert", "ssl_key")


@dataclass(frozen=True)
class Certificates:
    folder: Path

    def path(self, name: str) -> str:
        """``ca.pem``, ``server.pem``, ``server.key``, ``client.pem``, ``client.key``."""
        return str(self.folder / name)


def made(folder: Path, host: str = "127.0.0.1") -> Certificates:
    """A new authority, a server's certificate for ``host`` and a client's, in that folder."""
    folder.mkdir(exist_ok=True)
    authority = ec.generate_private_key(ec.SECP256R1())
    _write(folder, "ca", authority, _signed("authority", authority, authority, None))
    for called, named in (("server", _named(host)), ("client", None)):
        key = ec.generate_private_key(ec.SECP256R1())
        _write(folder, called, key, _signed(called, key, authority, named))
    return Certificates(folder)


def _named(host: str) -> x509.SubjectAlternativeName:
    try:
        return x509.SubjectAlternativeName([x509.IPAddress(ip_address(host))])
    except ValueError:
        return x509.SubjectAlternativeName([x509.DNSName(host)])


def _signed(
    called: str,
    key: ec.EllipticCurvePrivateKey,
    authority: ec.EllipticCurvePrivateKey,
    named: x509.SubjectAlternativeName | None,
) -> x509.Certificate:
    subject, issuer = (x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, n)]) for n in (called, "authority"))
    now = datetime.now(UTC)
    certificate = (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - timedelta(days=1))
        .not_valid_after(now + timedelta(days=1))
        .add_extension(x509.BasicConstraints(ca=key is authority, path_length=None), critical=True)
    )
    if named is not None:
        certificate = certificate.add_extension(named, critical=False)
    return certificate.sign(authority, hashes.SHA256())


def _write(folder: Path, called: str, key: ec.EllipticCurvePrivateKey, certificate: x509.Certificate) -> None:
    (folder / f"{called}.key").write_bytes(
        key.private_bytes(Encoding.PEM, PrivateFormat.TraditionalOpenSSL, NoEncryption())
    )
    (folder / f"{called}.pem").write_bytes(certificate.public_bytes(Encoding.PEM))


@contextmanager
def served(server: Server, certificates: Certificates) -> Iterator[Certificates]:
    """The server shows that certificate, and takes clients of that authority; as before afterwards."""
    before = sql(server, "SELECT @@ssl_ca, @@ssl_cert, @@ssl_key")[0]
    own = [certificates.path(name) for name in ("ca.pem", "server.pem", "server.key")]
    try:
        _show(server, own)
        yield certificates
    finally:
        _show(server, [str(value) for value in before])


def _show(server: Server, paths: list[str]) -> None:
    settings = ", ".join(f"GLOBAL {name} = '{path}'" for name, path in zip(_SETTINGS, paths, strict=True))
    script(server, f"SET {settings}; ALTER INSTANCE RELOAD TLS")
