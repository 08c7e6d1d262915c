"""Creates and migrates the state schema, one installer at a time, and refuses a schema that a newer rollout made."""

from __future__ import annotations

from orchestrator.errors import ConfigurationError, Held
from orchestrator.mysql.errno import ServerError
from orchestrator.mysql.session import Session
from orchestrator.mysql.sql import migrations
from orchestrator.mysql.told import NOT_INSTALLED, rows, told_of_state
from orchestrator.settings import ServerSettings


def install(settings: ServerSettings) -> None:
    """Bring the state schema to this version; nothing is written when it is there. Raises PrivilegeMissing,
    ConfigurationError (a newer schema, a server that is read-only), Held (somebody else installs)."""
    session = Session(settings, role="install")
    try:
        if _version(session, settings.state_schema) != migrations.LATEST:
            _migrate(session, settings.state_schema)
    except ServerError as error:
        raise told_of_state(session, error, f"installing the state schema {settings.state_schema}") from error
    finally:
        session.close()


def refuse_newer(session: Session, schema: str) -> None:
    """Raises ConfigurationError when the schema was made by a newer rollout, ServerError when it is not there."""
    _refuse(rows(session, migrations.version(schema))[0][0], schema)


def _refuse(number: int | None, schema: str) -> None:
    if number is not None and number > migrations.LATEST:
        raise ConfigurationError(
            f"the state schema {schema} has version {number}",
            f"version {migrations.LATEST} or older, which is what this rollout knows",
            "use the newer rollout that was here before",
        )


def _version(session: Session, schema: str) -> int:
    """The version that is installed; 0 without any. Raises ConfigurationError for a newer one."""
    try:
        number = rows(session, migrations.version(schema))[0][0]
    except ServerError as error:
        if error.number in NOT_INSTALLED or error.is_privilege:
            return 0
        raise
    _refuse(number, schema)
    return int(number or 0)


def _migrate(session: Session, schema: str) -> None:
    session.heed_role()
    if rows(session, migrations.take_lock(schema))[0][0] != 1:
        raise Held(
            f"somebody else installs the state schema {schema}",
            "one installer at a time",
            "type the same command again",
        )
    if not rows(session, migrations.schema_exists(schema))[0][0]:
        rows(session, migrations.create_schema(schema))
    rows(session, migrations.create_ledger(schema))
    installed = _version(session, schema)
    for migration in migrations.MIGRATIONS:
        if migration.number > installed:
            for statement in migrations.apply(schema, migration):
                rows(session, statement)
    rows(session, migrations.let_go(schema))
