"""When a run of a module is stuck, and when its process only stood still."""

from core.typing_desk import FakeClock

from studio.engine.hosting.watch import Watch

MOST_MS = 1e9  # its own thread never looks


def test_a_run_is_stuck_that_was_seen_again_and_again() -> None:
    clock, told = FakeClock(), list[str]()
    watch = Watch(clock, MOST_MS, told.append)
    watch.began("decode")
    for _ in range(9):
        watch.look()
    assert not watch.stuck and not told
    clock.ms += MOST_MS
    watch.look()
    assert watch.stuck == "decode" and told == ["decode"]
    watch.ended()
    assert not watch.stuck
    watch.close()


def test_a_process_that_was_stopped_has_not_got_stuck() -> None:
    """A laptop that slept, a debugger: time has passed, and the run goes on now."""
    clock, told = FakeClock(), list[str]()
    watch = Watch(clock, MOST_MS, told.append)
    watch.began("decode")
    clock.ms += 10 * MOST_MS
    watch.look()
    assert not watch.stuck and not told
    for _ in range(2):
        watch.look()
    assert told == ["decode"]
    watch.close()
