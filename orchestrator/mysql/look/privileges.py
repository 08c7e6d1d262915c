"""What the account lacks for the whole way from ddl to finish, each with the exact GRANT and the stage that needs it.

Measured: ALTER alone is enough for every ALTER that we send but a foreign key, which needs REFERENCES on the parent.
"""

from __future__ import annotations

from collections.abc import Iterator

from msgspec import Struct

from orchestrator.model.contract import TableName
from orchestrator.model.facts import MissingPrivilege
from orchestrator.model.runbook import RollbackDdl, Runbook
from orchestrator.model.state import FINISH, FORWARD, REPAIR, ROLLBACK
from orchestrator.mysql import quote
from orchestrator.mysql.errno import ServerError
from orchestrator.mysql.look.rights import ALL_PRIVILEGES, Rights, read_rights
from orchestrator.mysql.look.unseen import EVERYWHERE, PERFORMANCE_SCHEMA, Account
from orchestrator.mysql.session import Session

_STATE = ("SELECT", "INSERT", "UPDATE", "DELETE")
_SCRATCH = ("SELECT", "INSERT", "UPDATE", "DELETE", "CREATE", "ALTER", "DROP", "INDEX", "REFERENCES", "TRIGGER")
_CHILDREN = "SELECT FOR_NAME FROM information_schema.INNODB_FOREIGN WHERE REF_NAME = %s"
_SETTINGS = "SHOW GLOBAL VARIABLES WHERE Variable_name IN ('log_bin', 'log_bin_trust_function_creators')"


PLAN = "plan"
_ACTING = (*FORWARD, REPAIR, ROLLBACK, FINISH)
_ALL = (PLAN, *_ACTING)
# From the moment that it stands: every write of the application fails when its definer loses a right.
_MIRROR = ("shadow-write", "read-switch", "verify", REPAIR, ROLLBACK, FINISH)


class _Wanted(Struct, frozen=True):
    right: str
    why: str
    stages: tuple[str, ...]


_ON_TABLE = (
    _Wanted("SELECT", "every stage reads the table", _ALL),
    _Wanted("ALTER", "needed for ddl", ("ddl",)),
    _Wanted(
        "UPDATE",
        "needed for backfill, shadow-write and the mirror, whose triggers run as this account",
        ("backfill", *_MIRROR),
    ),
    _Wanted("TRIGGER", "needed for shadow-write, and to see triggers at all: without it there seem to be none", _ALL),
)
_ON_TABLE_WITHOUT_MAPPINGS = _ON_TABLE[:2]
# The applications write both columns, and no trigger runs as this account.
_ON_TABLE_UNDER_A_FLAG = (
    *_ON_TABLE[:2],
    _Wanted("UPDATE", "needed for backfill and shadow-write", ("backfill", "shadow-write", REPAIR)),
)
# What gh-ost makes beside the table, and the locks of its cut-over. It reads the words of SHOW GRANTS: the name of a
# schema with an escaped wildcard it knows behind ALL PRIVILEGES alone, and each right only behind the bare name, which
# is a grant on other schemas as well (seen with 1.1.10 on 9.7.4).
_BESIDE = ("SELECT", "INSERT", "UPDATE", "DELETE", "CREATE", "ALTER", "DROP", "INDEX", "LOCK TABLES", "TRIGGER")
_GLOBAL = (
    _Wanted(
        "PROCESS", "needed by the checks: transactions, row versions, history list; lists are empty without it", _ALL
    ),
    _Wanted("REPLICATION CLIENT", "needed by the checks: how replicas fare (there too)", _ALL),
    _Wanted("REPLICATION SLAVE", "needed by the checks: which replicas there are", _ALL),
)


def read_missing(
    session: Session, runbook: Runbook, state_schema: str, account: Account
) -> tuple[MissingPrivilege, ...]:
    """Everything that is missing, the table's rights first; empty when nothing is. Raises ServerError."""
    return _missing(session, read_rights(session), runbook, state_schema, account)


def read_needed(
    session: Session, runbook: Runbook, state_schema: str, account: Account
) -> tuple[MissingPrivilege, ...]:
    """Everything that an account needs which has nothing yet; what only looking takes of the state comes first. Raises
    ServerError."""
    grant = account.grant_all_of("SELECT", state_schema)
    look = MissingPrivilege("SELECT", grant, f"the state lives in {state_schema}", (PLAN,))
    return (look, *_missing(session, Rights((), (), literal=False), runbook, state_schema, account))


def _missing(
    session: Session, rights: Rights, runbook: Runbook, state_schema: str, account: Account
) -> tuple[MissingPrivilege, ...]:
    return (
        *_table_rights(rights, runbook, account),
        *_copy_rights(rights, runbook, account),
        *_parent_rights(rights, runbook, account),
        *_state_rights(rights, state_schema, runbook.id, account),
        *_looking_rights(rights, runbook, account),
        *_killing_rights(rights, runbook, account),
        *_trigger_rights(session, rights, runbook),
        *_hidden_children(session, rights, runbook.table, account),
    )


def _table_rights(rights: Rights, runbook: Runbook, account: Account) -> Iterator[MissingPrivilege]:
    of = runbook.table
    under_a_flag = _ON_TABLE_UNDER_A_FLAG if runbook.phases.shadow == "flag" else _ON_TABLE
    for wanted in under_a_flag if runbook.contract.mappings else _ON_TABLE_WITHOUT_MAPPINGS:
        if not rights.on_table(wanted.right, of.schema, of.name):
            grant = account.grant(wanted.right, quote.table(of))
            back = (ROLLBACK,) if wanted.right == "ALTER" and runbook.phases.rollback_ddl is RollbackDdl.DROP else ()
            yield MissingPrivilege(wanted.right, grant, wanted.why, (*wanted.stages, *back))


def _copy_rights(rights: Rights, runbook: Runbook, account: Account) -> Iterator[MissingPrivilege]:
    engine, schema = runbook.phases.engine, runbook.table.schema
    if engine == "native" or not runbook.contract.allow_rebuild:
        return
    missing = [right for right in _BESIDE if not rights.on_schema(right, schema)]
    if quote.everything_in(schema, literal=account.literal) != quote.everything_in(schema, literal=True):
        missing = [] if rights.shown_for(schema, _BESIDE) else [ALL_PRIVILEGES]
    if missing:
        grant = account.grant_all_of(", ".join(missing), schema)
        yield MissingPrivilege(
            ", ".join(missing), grant, "needed for ddl by gh-ost: it makes its tables beside yours", ("ddl",)
        )
    if not rights.everywhere("REPLICATION SLAVE"):
        grant = account.grant("REPLICATION SLAVE", EVERYWHERE)
        yield MissingPrivilege(
            "REPLICATION SLAVE", grant, "needed for ddl by gh-ost: it reads the binary log", ("ddl",)
        )


def _parent_rights(rights: Rights, runbook: Runbook, account: Account) -> Iterator[MissingPrivilege]:
    for key in runbook.contract.foreign_keys:
        parent = key.references
        for right, why in (
            ("REFERENCES", "needed for ddl"),
            ("SELECT", "needed for ddl, to prove that no row is without its parent"),
        ):
            if not rights.on_table(right, parent.schema, parent.name):
                grant = account.grant(right, quote.table(parent))
                yield MissingPrivilege(right, grant, f"{why}: foreign key {key.name}", ("ddl",))


def _state_rights(rights: Rights, schema: str, id: str, account: Account) -> Iterator[MissingPrivilege]:
    missing = [right for right in _STATE if not rights.on_schema(right, schema)]
    if missing:
        grant = account.grant_all_of(", ".join(missing), schema)
        yield MissingPrivilege(
            ", ".join(missing), grant, f"needed by every command that writes: the state lives in {schema}", _ACTING
        )
    if not rights.on_schema("CREATE", schema):
        grant = account.grant_all_of("CREATE", schema)
        yield MissingPrivilege("CREATE", grant, f"needed for ddl, which installs the state {schema}", (FORWARD[0],))
    scratch = f"{schema}_scratch_{id}"
    lacking = [right for right in _SCRATCH if not rights.on_schema(right, scratch)]
    if lacking:
        why = "needed for ddl and shadow-write: statements and the mirror are tried on scratch copies first"
        grant = account.grant_all_of(", ".join(lacking), scratch)
        yield MissingPrivilege(", ".join(lacking), grant, why, ("ddl", "shadow-write"))


def _looking_rights(rights: Rights, runbook: Runbook, account: Account) -> Iterator[MissingPrivilege]:
    if not rights.on_schema("SELECT", "performance_schema"):
        why = "needed by the checks: metadata locks, transactions, replication"
        yield MissingPrivilege("SELECT", account.grant("SELECT", PERFORMANCE_SCHEMA), why, _ALL)
    watched = {"discover": _GLOBAL, "list": _GLOBAL[:2]}.get(runbook.replicas.kind, _GLOBAL[:1])
    for wanted in watched:
        if not rights.everywhere(wanted.right):
            grant = account.grant(wanted.right, EVERYWHERE)
            yield MissingPrivilege(wanted.right, grant, wanted.why, wanted.stages)


def _killing_rights(rights: Rights, runbook: Runbook, account: Account) -> Iterator[MissingPrivilege]:
    if runbook.limits.kill.older_than_s is not None and not rights.everywhere("CONNECTION_ADMIN"):
        grant = account.grant("CONNECTION_ADMIN", EVERYWHERE)
        yield MissingPrivilege(
            "CONNECTION_ADMIN", grant, "needed to kill what checks.metadata_locks.kill names", _ACTING
        )


def _trigger_rights(session: Session, rights: Rights, runbook: Runbook) -> Iterator[MissingPrivilege]:
    """Error 1419: with the binary log on, only SUPER or a setting of the server lets an account make a trigger."""
    settings = {str(name): value for name, value in session.query(_SETTINGS)}
    free = settings.get("log_bin") != "ON" or settings.get("log_bin_trust_function_creators") == "ON"
    mirrored = runbook.contract.mappings and runbook.phases.shadow == "triggers"
    if mirrored and not free and not rights.everywhere("SUPER"):
        yield MissingPrivilege(
            "log_bin_trust_function_creators",
            "SET PERSIST log_bin_trust_function_creators = 1;",
            "needed for shadow-write: with the binary log on, CREATE TRIGGER needs this setting, or SUPER",
            ("shadow-write",),
        )


def _hidden_children(session: Session, rights: Rights, of: TableName, account: Account) -> Iterator[MissingPrivilege]:
    """Tables whose foreign keys refer to ours and that information_schema hides from this account."""
    try:
        rows = session.query(_CHILDREN, (f"{of.schema}/{of.name}",))
    except ServerError as error:
        if error.is_privilege:
            return  # PROCESS is missing, and was named above
        raise
    for path in sorted({str(path) for (path,) in rows}):
        schema, _, name = path.partition("/")
        if not rights.on_table("SELECT", schema, name):
            grant = account.grant("SELECT", quote.table(TableName(schema, name)))
            yield MissingPrivilege(
                "SELECT", grant, f"{schema}.{name} refers to {of}, and its locks count as ours", _ALL
            )
