"""What gh-ost is called with. Pure. Every flag has its reason.

Never among them, because each was seen to lose rows, to drop the old table, to hang or to open a port: ``--revert``,
``--initially-drop-*``, ``--attempt-instant-ddl``, ``--serve-tcp-port``, ``--skip-renamed-columns``,
``--ok-to-drop-table`` and ``--cut-over=two-step``.
"""

from __future__ import annotations

from orchestrator.drivers.ddl.ghost.place import Place
from orchestrator.errors import ConfigurationError
from orchestrator.model.copying import CopyChange
from orchestrator.settings import TlsSettings

# From here on EXPLAIN answers as a tree, gh-ost reads 0 rows out of it and calls everything 100 %.
_EXPLAINS_AS_TREE = (9, 0, 0)
_CHECKPOINT_S = 10
_RECONNECTS = 10
_BATCH_ROWS = 200
# Also the time in which gh-ost must have applied what was written before its lock; on a quiet table it sleeps up to one
# second in it. The wait for the lock itself is ours to bound: it is taken back within the stall budget.
LOCK_TIMEOUT_S = 2


def arguments(change: CopyChange, place: Place, tls: TlsSettings, server_id: int) -> tuple[str, ...]:
    """The words behind ``gh-ost``. They hold no secret: user and password come from the environment. Raises
    ConfigurationError."""
    return (
        f"--conf={place.conf}",
        f"--host={change.host}",
        f"--port={change.port}",
        "--allow-on-master",
        f"--database={change.table.schema}",
        f"--table={change.table.name}",
        f"--alter={change.alter}",
        # Without it gh-ost restarts replication on the server that it talks to.
        "--assume-rbr",
        *_optional(change),
        *_encryption(change, tls),
        # INSERT IGNORE everywhere: a duplicate or a value that is cut would go without a word.
        "--panic-on-warnings",
        f"--chunk-size={change.chunk_rows}",
        # What waits for it in the cut-over is applied in few transactions, each of which must reach the disk.
        f"--dml-batch-size={_BATCH_ROWS}",
        f"--max-lag-millis={max(100, round(change.max_lag_s * 1000))}",
        f"--max-load=Threads_running={change.threads_running}",
        f"--cut-over-lock-timeout-seconds={LOCK_TIMEOUT_S}",
        f"--binlogsyncer-max-reconnect-attempts={_RECONNECTS}",
        f"--replica-server-id={server_id}",
        f"--serve-socket-file={place.socket}",
        f"--postpone-cut-over-flag-file={place.flag}",
        # Its default is one file that all runs of a machine share.
        f"--throttle-additional-flag-file={place.folder / 'throttle'}",
        "--force-named-cut-over",
        "--force-named-panic",
        "--verbose",
        "--execute",
    )


def _optional(change: CopyChange) -> list[str]:
    words = []
    if change.server_version >= _EXPLAINS_AS_TREE:
        words.append("--exact-rowcount")
    if change.replicas:
        words.append(f"--throttle-control-replicas={','.join(change.replicas)}")
    if change.gtid:
        words += ["--gtid", "--checkpoint", f"--checkpoint-seconds={_CHECKPOINT_S}"]
    if change.resume:
        words.append("--resume")
    return words


def _encryption(change: CopyChange, tls: TlsSettings) -> list[str]:
    """gh-ost either checks chain and name, or nothing: it checks where our own sessions do. Raises ConfigurationError
    where it would tell the password to whoever answers: it always asks for a key there."""
    if not change.encrypted:
        if tls.asks_key:
            return []
        raise ConfigurationError(
            "gh-ost has no encrypted way to the server, and would encrypt the password for any key that it is sent",
            "TLS on the server, and no --ssl-mode DISABLED",
            "switch TLS on; or say --get-server-public-key, which believes whoever answers; or take another engine",
        )
    unchecked = [] if tls.verifies else ["--ssl-allow-insecure"]
    named = (("cert", tls.cert), ("key", tls.key or tls.cert), ("ca", tls.ca))
    return ["--ssl", *(f"--ssl-{what}={path}" for what, path in named if path), *unchecked]
