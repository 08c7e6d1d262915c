"""How gh-ost is told to reach the server: with what our own sessions show and check, and never with less."""

from __future__ import annotations

import pytest

from orchestrator.drivers.ddl.ghost.command import arguments
from orchestrator.drivers.ddl.ghost.place import place
from orchestrator.errors import ConfigurationError
from orchestrator.model.contract import TableName
from orchestrator.model.copying import CopyChange
from orchestrator.settings import TlsSettings

TABLE = TableName("shop", "orders")
FILES = {"cert": "/tls/client.pem", "key": "/tls/client.key", "ca": "/tls/ca.pem"}
INSECURE = "--ssl-allow-insecure"


def encryption(tls: TlsSettings, *, encrypted: bool = True) -> set[str]:
    change = CopyChange(
        rollout="orders",
        table=TABLE,
        alter="ADD x INT",
        host="db-1",
        port=3306,
        server_version=(9, 7, 4),
        replicas=(),
        gtid=True,
        encrypted=encrypted,
        chunk_rows=100,
        max_lag_s=1.0,
        threads_running=10,
    )
    words = arguments(change, place("orders", "db-1:3306", TABLE), tls, 1)
    return {word for word in words if word.startswith("--ssl")}


@pytest.mark.parametrize("mode", ["PREFERRED", "REQUIRED", "VERIFY_CA", "VERIFY_IDENTITY"])
def test_it_shows_the_clients_certificate_in_every_mode(mode: str) -> None:
    shown = encryption(TlsSettings(mode, cert=FILES["cert"], key=FILES["key"]))
    assert {f"--ssl-cert={FILES['cert']}", f"--ssl-key={FILES['key']}"} < shown
    one_file = encryption(TlsSettings(mode, cert=FILES["cert"]))
    assert f"--ssl-key={FILES['cert']}" in one_file


@pytest.mark.parametrize("mode", ["PREFERRED", "REQUIRED", "VERIFY_CA", "VERIFY_IDENTITY"])
@pytest.mark.parametrize("ca", ["", FILES["ca"]])
def test_it_checks_where_our_own_sessions_check(mode: str, ca: str) -> None:
    tls = TlsSettings(mode, ca=ca)
    words = encryption(tls)
    assert (INSECURE in words) is not tls.verifies
    assert (f"--ssl-ca={ca}" in words) is bool(ca)


def test_without_tls_it_does_not_run_unless_whoever_answers_is_believed() -> None:
    """It asks whoever answers for a key, and encrypts the password for that one."""
    for tls in (TlsSettings("DISABLED"), TlsSettings(), TlsSettings(server_key="/tls/server.pem")):
        with pytest.raises(ConfigurationError) as refused:
            encryption(tls, encrypted=False)
        assert "--get-server-public-key" in refused.value.next
    assert encryption(TlsSettings(asks_key=True), encrypted=False) == set()
