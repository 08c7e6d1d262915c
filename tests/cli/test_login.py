"""How the command logs in, by its flags, its environment and an option file: certificates both ways, and keys without
TLS."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from orchestrator.sandbox.pair import Pair
from orchestrator.sandbox.template import Account
from tests.support.certificates import Certificates, made, served
from tests.support.command import Ran, Terminal
from tests.support.looking import small_account
from tests.support.servers import script, sql
from tests.support.small import Small, small

pytestmark = pytest.mark.integration
WAYS = ("flags", "environment", "option file")


@pytest.fixture(scope="module")
def here(pair: Pair, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Small]:
    with small(pair, tmp_path_factory.mktemp("login")) as made_here:
        yield made_here


@pytest.fixture
def certificates(pair: Pair, tmp_path: Path) -> Iterator[Certificates]:
    with served(pair.primary, made(tmp_path / "tls")) as shown:
        yield shown


@pytest.fixture
def account(pair: Pair) -> Iterator[Account]:
    """One that the server has never seen, so that it keeps nothing of it."""
    with small_account(pair.primary, "entering", "GRANT ALL ON *.* TO {who}") as made_here:
        yield made_here


def status(here: Small, account: Account, way: str, options: dict[str, str], folder: Path) -> Ran:
    """``rollout status`` with these options, said in that way; "" is a switch."""
    terminal, words = here.operator(account), ["status"]
    if way == "flags":
        words += [f"--{name}={value}" if value else f"--{name}" for name, value in options.items()]
    elif way == "environment":
        said = {"ROLLOUT_" + name.upper().replace("-", "_"): value or "1" for name, value in options.items()}
        terminal = Terminal(terminal.server, terminal.runbook, terminal.more | said)
    else:
        file = folder / "login.cnf"
        lines = [f"{name.replace('-', '_')}={value}" if value else name for name, value in options.items()]
        file.write_text("\n".join(["[client]", *lines]))
        words += ["--defaults-file", str(file)]
    return terminal.run(*words, expect=None)


@pytest.mark.parametrize("way", WAYS)
def test_a_server_that_demands_a_certificate_is_shown_one_and_shows_its_own(
    here: Small, account: Account, certificates: Certificates, tmp_path: Path, way: str
) -> None:
    """Without one it denies access; one of another authority, or another name, is told from a chain that holds."""
    script(here.pair.primary, f"ALTER USER '{account.user}'@'127.0.0.1' REQUIRE X509")
    own = {"ssl-cert": certificates.path("client.pem"), "ssl-key": certificates.path("client.key")}
    checks = {"ssl-mode": "VERIFY_IDENTITY", "ssl-ca": certificates.path("ca.pem")}
    ran = status(here, account, way, checks | own, tmp_path)
    assert ran.code == 0, ran.err
    if way != "flags":
        return  # what is refused is the same whichever way it was said
    ran = status(here, account, way, checks, tmp_path)
    assert (ran.code, "access denied" in ran.err) == (69, True), ran.err
    other = made(tmp_path / "other")
    ran = status(here, account, way, own | checks | {"ssl-ca": other.path("ca.pem")}, tmp_path)
    assert (ran.code, "certificate verify failed" in ran.err) == (69, True), ran.err


def test_a_certificate_of_another_name_is_refused_by_verify_identity_alone(
    here: Small, account: Account, tmp_path: Path
) -> None:
    with served(here.pair.primary, made(tmp_path / "tls", "db-1.example")) as shown:
        tls = {"ssl-ca": shown.path("ca.pem")}
        ran = status(here, account, "flags", tls | {"ssl-mode": "VERIFY_CA"}, tmp_path)
        assert ran.code == 0, ran.err
        ran = status(here, account, "flags", tls | {"ssl-mode": "VERIFY_IDENTITY"}, tmp_path)
        assert ran.code == 69
        assert "not valid for '127.0.0.1'" in ran.err, ran.err


@pytest.mark.parametrize("way", WAYS)
def test_without_tls_a_first_login_says_what_to_do_and_both_options_are_heard(
    here: Small, account: Account, tmp_path: Path, way: str
) -> None:
    """B109: TLS off; exit code for connection faults."""
    plain = {"ssl-mode": "DISABLED"}
    if way == "flags":
        ran = status(here, account, way, plain, tmp_path)
        assert ran.code == 69
        assert "--get-server-public-key" in ran.err
        assert account.password not in ran.out + ran.err
    key = tmp_path / "key.pem"
    key.write_text(sql(here.pair.primary, "SHOW STATUS LIKE 'Caching_sha2_password_rsa_public_key'")[0][1])
    for option in ({"server-public-key-path": str(key)}, {"get-server-public-key": ""}):
        script(here.pair.primary, f"ALTER USER '{account.user}'@'127.0.0.1' IDENTIFIED BY '{account.password}'")
        ran = status(here, account, way, plain | option, tmp_path)
        assert ran.code == 0, ran.err


def test_a_switch_that_is_neither_on_nor_off_is_refused(here: Small, account: Account, tmp_path: Path) -> None:
    ran = status(here, account, "environment", {"get-server-public-key": "perhaps"}, tmp_path)
    assert (ran.code, "get-server-public-key 'perhaps'" in ran.err) == (78, True), ran.err
