"""How an application obeys the flagd file: by OpenFeature's own provider, which is no part of rollout.

It is taken from where ``make flagd`` puts it. Whoever asks it decides at a transaction's first statement, as with the
flag row.
"""

from __future__ import annotations

import importlib
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

from orchestrator.model.keys import Key, show_key
from orchestrator.sandbox.flag_reader import OLD, Decision
from orchestrator.sandbox.places import SandboxError, cache_folder

_PROVIDER = "openfeature.contrib.provider.flagd"


class _Asking(Decision, frozen=True):
    """Which side an entity is on is what the provider says of its key."""

    ask: Callable[[str], bool] = lambda _: False

    def reads_new(self, entity: Key) -> bool:
        return self.ask(show_key(entity))


class FlagdReader:
    """One for each application process; thread-safe. ``names``: the flags for new writes and for reads."""

    def __init__(self, file: Path, names: tuple[str, str], poll_s: float) -> None:
        """Raises SandboxError when there is no provider on this machine."""
        self._file = file
        self._writes, self._reads = names
        self._poll_s = poll_s
        self._api = _provided("openfeature.api")
        self._context = _provided("openfeature.evaluation_context").EvaluationContext
        self._provider, self._config = _provided(_PROVIDER), _provided(f"{_PROVIDER}.config")
        self._client: Any = None
        self._lock = threading.Lock()

    def decide(self) -> Decision:
        """Call before a transaction begins, never inside one. Without a file it is ``OLD``."""
        with self._lock:
            if self._client is None:
                if not self._file.exists():
                    return OLD
                self._client = self._opened()
        return _Asking(new_writes=self._on(self._writes, ""), ask=lambda key: self._on(self._reads, key))

    def close(self) -> None:
        with self._lock:
            if self._client is not None:
                self._api.shutdown()
                self._client = None

    def _on(self, flag: str, key: str) -> bool:
        return bool(self._client.get_boolean_value(flag, False, self._context(targeting_key=key)))

    def _opened(self) -> Any:
        """The provider looks at its file once in every deadline: twice in a poll, so that one poll is always enough."""
        provider = self._provider.FlagdProvider(
            resolver_type=self._config.ResolverType.FILE,
            offline_flag_source_path=str(self._file),
            deadline_ms=round(self._poll_s * 500),
        )
        self._api.set_provider_and_wait(provider)
        return self._api.get_client()


def require_provider() -> None:
    """Raises SandboxError when there is no provider on this machine."""
    _provided(_PROVIDER)


def _provided(module: str) -> Any:
    folder = cache_folder() / "flagd"
    if folder.is_dir() and str(folder) not in sys.path:
        # Behind our own packages: what it brings along shadows none of them.
        sys.path.append(str(folder))
    try:
        return importlib.import_module(module)
    except ImportError as error:
        raise SandboxError(
            f"OpenFeature's flagd provider is not on this machine: {error}",
            f"what tools/flagd/fetch puts into {folder}",
            'make flagd, or make demo ARGS="--reads flagd", which calls it',
        ) from error
