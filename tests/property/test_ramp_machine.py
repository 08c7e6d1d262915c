"""Whatever comes in whatever order: no reader is on the new column without the mirror, and none stays there unwatched.

The machine types commands, and while one runs something happens to it: somebody asks for a pause or an abort, a gate
fails or cannot say, another terminal lowers the flags, the process freezes until they have expired, or dies.
"""

from __future__ import annotations

from collections.abc import Callable

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from orchestrator.checks.flag_alive import FlagAlive
from orchestrator.engine import Paused
from orchestrator.errors import Held, PhaseFailed, RolloutError, UsageError
from orchestrator.model.outcome import Outcome, Result
from orchestrator.model.state import FORWARD, Ask
from tests.support.world import Died, Stage

TTL_S = 90.0
STEPS = (
    "fill:backfill",
    "install-trigger:update",
    "compare:drift",
    "measure-baselines",
    "open-writes",
    "set-percent:25",
    "set-percent:100",
    "keep-flags",
    "compare:verify",
    "remove-mirror",
    "lower-flags",
)
HAPPENS = ("nothing", "dies", "pause", "abort", "lowered", "freezes")
RESULTS = (Result.BACK, Result.HELD, Result.FAILED, Result.UNKNOWN)


class Ramp(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.stage = Stage(checks=(FlagAlive(),))
        self.world = self.stage.world

    @initialize(stages=st.sampled_from([0, 3, 3, 4]))
    def some_stages_are_done(self, stages: int) -> None:
        for phase in FORWARD[:stages]:
            self.stage.commands.next(phase)

    @rule(
        happens=st.sampled_from(HAPPENS),
        at=st.integers(1, 16),
        key=st.sampled_from(STEPS),
        result=st.sampled_from(RESULTS),
        fails=st.booleans(),
        leap=st.booleans(),
    )
    def types_next(self, happens: str, at: int, key: str, result: Result, fails: bool, leap: bool) -> None:
        if fails:
            self.stage.driver.fail[key] = Outcome(result, "a gate")
        wanted = self.stage.store.load("orders")
        leaps = leap and wanted is not None and wanted.next_phase == "read-switch"
        self._typed(lambda: self.stage.commands.next(None, leap=leaps), happens, at)

    @rule(back_to=st.sampled_from(["", *FORWARD[:3]]), happens=st.sampled_from(HAPPENS), at=st.integers(1, 6))
    def types_rollback(self, back_to: str, happens: str, at: int) -> None:
        whole = self._typed(lambda: self.stage.commands.rollback(back_to, ()), happens, at)
        if whole:
            assert self.world.effective() == 0, "a rollback never ends with readers on the new column"
            assert not self.world.new_writes

    @rule(happens=st.sampled_from(HAPPENS), at=st.integers(1, 16), fails=st.booleans())
    def watches_afterwards(self, happens: str, at: int, fails: bool) -> None:
        """Whatever happens meanwhile; the watch is ended by a signal in the end."""
        if fails:
            self.stage.driver.fail["watch-readers"] = Outcome(Result.BACK, "a gate")
        if self.stage.store.load("orders") is not None:
            self._typed(self.stage.commands.watch, happens, at, ends_at=20)

    @rule()
    def types_abort(self) -> None:
        self._typed(self.stage.commands.abort, "nothing", 1)

    @rule(seconds=st.sampled_from([1.0, 30.0, 100.0]))
    def time_passes(self, seconds: float) -> None:
        self.world.now_s += seconds
        self.world.look()

    @precondition(lambda self: self.world.effective() == 0)
    @rule(event=st.sampled_from(["update", "insert"]))
    def somebody_drops_a_trigger(self, event: str) -> None:
        self.world.mirror.discard(event)

    @invariant()
    def no_reader_is_on_the_new_column_without_the_mirror(self) -> None:
        assert self.world.ever_unsafe == []

    @invariant()
    def readers_are_there_for_ever_only_where_the_ramp_was_passed(self) -> None:
        """Everything else expires by itself within the ttl: a lost watcher takes readers back."""
        if self.world.expires_at > self.world.now_s + TTL_S and self.world.effective():
            record = self.stage.record
            # The flag is kept; a process that died before it could say so left the intent.
            kept = "read-switch" in record.done or "keep-flags" in record.done_steps or record.intent is not None
            assert kept, record

    def teardown(self) -> None:
        """Nobody interferes any more: the rollout still goes all the way, and all the way back."""
        self._forward()
        assert (self.stage.record.done, self.world.percent, self.world.mirror) == (FORWARD, 100, {"update", "insert"})
        self._typed(lambda: self.stage.commands.rollback("", ()), "nothing", 1)
        assert (self.stage.record.done, self.world.effective(), self.world.mirror) == (("ddl",), 0, set())
        assert self.world.ever_unsafe == []

    def _forward(self) -> None:
        for _ in range(20):
            if self.stage.store.load("orders") is not None and self.stage.record.done == FORWARD:
                # Flags that were lowered behind the last look are seen by whoever watches.
                if self._typed(self.stage.commands.watch, "nothing", 1, ends_at=20):
                    return
            else:
                self._typed(lambda: self.stage.commands.next(None), "nothing", 1)
            self.world.now_s += TTL_S + 1

    def _typed(self, command: Callable[[], object], happens: str, at: int, ends_at: int = 0) -> bool:
        """Whether the command came to its own end. One that stopped in the stages of the flags left readers back.
        ``ends_at``: a signal comes then."""
        moments = [0]

        def now(where: str = "") -> None:
            moments[0] += 1
            if moments[0] == at:
                self._happens(happens, where)
            if moments[0] == ends_at:
                self.stage.ask = Ask.PAUSE

        self.stage.dies, self.world.interfere = now, now
        before = self.stage.store.load("orders")
        try:
            command()
            return True
        except Died:
            return False
        except UsageError:
            return False
        except (Paused, PhaseFailed):
            after = self.stage.record
            if after.phase in ("read-switch", "verify") and not (
                after.phase == "verify" and "read-switch" in after.done
            ):
                assert self.world.effective() == 0, (before, after)
            return False
        except (Held, RolloutError):
            return False
        finally:
            self.stage.dies, self.world.interfere, self.stage.ask = lambda where: None, lambda: None, None
            self.stage.driver.fail.clear()

    def _happens(self, happens: str, where: str) -> None:
        match happens:
            case "dies":
                raise Died(where)
            case "pause" | "abort":
                self.stage.ask = Ask(happens)
            case "lowered":
                # By a command that dies before it can write so into the record.
                self.stage.flags.lower(None)
            case "freezes":
                self.world.now_s += TTL_S + 10
                self.world.look()


TestRamp = Ramp.TestCase
TestRamp.settings = settings(max_examples=30, stateful_step_count=15, deadline=None)
