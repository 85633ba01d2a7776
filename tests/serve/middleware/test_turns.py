"""Turns of requests: one of an address at a time, no address waits for all of another's, and rests between them."""

import asyncio
import time
from itertools import pairwise

import pytest

from studio.core.errors import Busy
from studio.serve.middleware.turns import AT_ONCE, MAX_RUN_S, SHARE, RequestPacer, Turns


def order_of(*arrivals: str) -> list[str]:
    """The addresses in the order in which requests that arrive together are served."""
    served: list[str] = []

    async def ask(turns: Turns, address: str) -> None:
        async with turns.turn(address):
            served.append(address)
            await asyncio.sleep(0)

    async def ask_all() -> None:
        turns = Turns()
        await asyncio.gather(*(ask(turns, address) for address in arrivals))
        assert not turns._waiting and not turns._heads

    asyncio.run(ask_all())
    return served


def test_addresses_take_turns() -> None:
    served = order_of(*["a"] * 20, "b", "b", "c")
    assert served[:3] == ["a", "b", "c"] and served.index("b", 2) < 6 and len(served) == 23


def test_too_many_requests_are_refused_and_forgotten() -> None:
    async def main() -> None:
        turns, go_on = Turns(3, 2), asyncio.Event()

        async def hold(address: str) -> None:
            async with turns.turn(address):
                await go_on.wait()

        held = [asyncio.create_task(hold(address)) for address in ("a", "a", "b")]
        await asyncio.sleep(0)
        for address in ("a", "c"):
            with pytest.raises(Busy, match="too many"):
                await hold(address)
        held[1].cancel()  # a waiting client that leaves makes room
        await asyncio.wait([held[1]])
        go_on.set()
        await asyncio.gather(held[0], held[2], hold("a"), hold("c"))

    asyncio.run(main())


def busy(duration_s: float) -> None:
    until_s = time.process_time() + duration_s
    while time.process_time() < until_s:
        pass


def starts_s(pacer: RequestPacer) -> list[float]:
    return [run.began_s for run in pacer._runs]


def test_the_rest_beside_speech_is_a_multiple_of_what_a_request_computed() -> None:
    async def main() -> None:
        pacer, loop = RequestPacer(), asyncio.get_running_loop()

        async def ask(computes_s: float, waits_s: float = 0.0) -> None:
            async with pacer.run("a", lambda: True):
                busy(computes_s)
                await asyncio.sleep(waits_s)

        await asyncio.gather(*(ask(*one) for one in ((0.01,), (0.0, 5.0), (0.0,), (0.05,), (0.0,))))
        began_s = starts_s(pacer)
        gaps_s = [after - before for before, after in pairwise(began_s)]
        assert gaps_s[0] >= SHARE * 0.0099 and gaps_s[3] >= SHARE * MAX_RUN_S * 0.99  # clocks are rounded
        assert gaps_s[1] >= MAX_RUN_S * 0.99, "it waits for the end of the one before it"
        assert loop.time() - began_s[-1] > 4.0, "a request that waits does not hold up the next one"

    asyncio.run(main())


def test_a_request_that_only_waited_beside_speech_needs_no_rest() -> None:
    async def main() -> float:
        pacer, loop = RequestPacer(), asyncio.get_running_loop()
        began_s = loop.time()

        async def ask() -> None:
            async with pacer.run("a", lambda: True):
                await asyncio.sleep(0.005)

        await asyncio.gather(*(ask() for _ in range(10)))
        return loop.time() - began_s

    # Ten times 5 ms, and some computation; with a rest for the waits it would be 0.2 s.
    assert min(asyncio.run(main()) for _ in range(20)) < 0.12


def test_requests_that_wait_run_together_without_speech() -> None:
    """All but the last begin before any has ended; the last one after ``MAX_RUN_S`` of the first."""

    async def main() -> float:
        pacer, go_on, begun = RequestPacer(), asyncio.Event(), list[float]()

        async def ask() -> None:
            async with pacer.run("a", lambda: False):
                begun.append(starts_s(pacer)[-1])
                if len(begun) == AT_ONCE + 1:
                    go_on.set()
                await go_on.wait()

        await asyncio.gather(*(ask() for _ in range(AT_ONCE + 1)))
        assert begun[-1] - begun[0] >= MAX_RUN_S * 0.99
        return begun[-2] - begun[0]

    assert min(asyncio.run(main()) for _ in range(20)) < MAX_RUN_S


def test_a_request_that_passes_waits_for_few_of_many() -> None:
    """64 requests that arrive at once take turns of the event loop, with and without speech."""

    async def main(is_speaking: bool, max_run_s: float) -> list[str]:
        pacer, order = RequestPacer(max_run_s), list[str]()

        async def ask() -> None:
            async with pacer.run("a", lambda: is_speaking):
                order.append("request")

        async def passing() -> None:
            await asyncio.sleep(0)
            order.append("passes")

        await asyncio.gather(*(ask() for _ in range(64)), passing())
        return order

    for is_speaking, max_run_s in ((False, MAX_RUN_S), (True, MAX_RUN_S), (False, 0.0)):
        order = asyncio.run(main(is_speaking, max_run_s))
        assert order.count("request") == 64 and order.index("passes") <= 4, order[:8]


def test_at_a_front_no_request_waits_for_the_end_of_another() -> None:
    async def main() -> None:
        pacer, go_on, loop = RequestPacer(0.0), asyncio.Event(), asyncio.get_running_loop()
        began_s: list[float] = []

        async def ask() -> None:
            async with pacer.run("a", lambda: False):
                began_s.append(loop.time())
                if len(began_s) == 8:
                    go_on.set()
                await go_on.wait()

        await asyncio.gather(*(ask() for _ in range(8)))
        assert min(after - before for before, after in pairwise(began_s)) < MAX_RUN_S / 4

    asyncio.run(main())
