"""A batch's rows in two halves on two cores: each row once, as if it were alone, and nobody waits for a busy core."""

import subprocess
import sys
import threading

import pytest
import torch
from engine.smalldecoder import SIZES, a_decoder, memory

from studio.engine.nets.cached_decoder import CachedDecoder
from studio.engine.nets.cpu import threads as halves


@pytest.fixture
def two_cores(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(halves, "_HAS_TWO_CORES", True)


@pytest.mark.usefixtures("two_cores")
@pytest.mark.parametrize("count", [1, 2, 3, 8])
@pytest.mark.parametrize("pays", [False, True])
def test_each_row_is_run_once_and_what_pays_is_halved(count: int, pays: bool) -> None:
    ran: list[range] = []
    halves.run_in_halves(count, halves.MIN_PRODUCTS if pays else 1, lambda first, last: ran.append(range(first, last)))
    assert sorted(row for rows in ran for row in rows) == list(range(count))
    assert len(ran) == (2 if pays and count > 1 else 1)


@pytest.mark.usefixtures("two_cores")
def test_whoever_finds_the_other_core_busy_does_it_all() -> None:
    busy, free = threading.Event(), threading.Event()
    blocker = halves._second.submit(lambda: (busy.set(), free.wait(20.0)))
    assert busy.wait(20.0)
    ran: list[tuple[int, int, str]] = []
    halves.run_in_halves(6, halves.MIN_PRODUCTS, lambda a, b: ran.append((a, b, threading.current_thread().name)))
    assert ran == [(0, 3, threading.current_thread().name), (3, 6, threading.current_thread().name)]
    free.set()
    blocker.result()


@pytest.mark.usefixtures("two_cores")
def test_who_still_speaks_while_the_interpreter_ends_does_it_all() -> None:
    script = """
import threading, time
from concurrent.futures import thread
from studio.engine.nets.cpu import threads as halves
halves._HAS_TWO_CORES = True
halves.run_in_halves(4, halves.MIN_PRODUCTS, lambda first, last: None)
def speak():
    while not thread._shutdown:
        time.sleep(0.01)
    halves.run_in_halves(4, halves.MIN_PRODUCTS, lambda first, last: print(first, last, flush=True))
threading.Thread(target=speak).start()
"""
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=120, check=False)
    assert (done.stdout, done.stderr) == ("0 4\n", "")


@pytest.mark.usefixtures("two_cores")
@pytest.mark.parametrize("wrong", [0, 2])
def test_an_error_in_either_half_reaches_the_caller_when_both_have_ended(wrong: int) -> None:
    ended: list[int] = []
    begun = threading.Event()

    def run(first: int, _: int) -> None:
        if first:
            begun.set()
        else:
            assert begun.wait(20.0)
        ended.append(first)
        if first == wrong:
            raise MemoryError("no room")

    with pytest.raises(MemoryError):
        halves.run_in_halves(4, halves.MIN_PRODUCTS, run)
    assert sorted(ended) == [0, 2]


@pytest.mark.usefixtures("two_cores")
@torch.inference_mode()
@pytest.mark.parametrize("kind", ["bfloat16", "float32", "both"])
def test_a_row_has_the_same_bits_in_a_half_as_alone(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also where layers keep their weights in different ways, and go one by one."""
    decoder = a_decoder()
    if kind != "float32":
        rounded = list(decoder.layers())[: None if kind == "bfloat16" else 1]
        for block in rounded:
            for weight in block.parameters():
                weight.data = weight.data.bfloat16().float()
    lean, x = CachedDecoder(decoder), torch.randn(5, 12, SIZES.width)
    assert lean.cpu_decode is not None and (lean.cpu_decode._fused is None) == (kind == "both")
    firsts: list[int] = []
    really = halves.run_in_halves

    def alone() -> list[torch.Tensor]:
        slots = memory()
        return [torch.cat([lean.extend(x[b : b + 1, t : t + 1], slots, [b]) for t in range(12)]) for b in range(5)]

    wanted = alone()
    monkeypatch.setattr(halves, "MIN_PRODUCTS", 1)

    def watched(count: int, products: int, run: object) -> None:
        def noted(first: int, last: int) -> None:
            firsts.append(first)
            run(first, last)  # type: ignore[operator]

        really(count, products, noted)

    monkeypatch.setattr("studio.engine.nets.cpu.decoder.run_in_halves", watched)
    slots = memory()
    found = torch.stack([lean.extend(x[:, t : t + 1], slots, range(5)) for t in range(12)], 1)
    for b in range(5):
        assert torch.equal(found[b], wanted[b])
    assert firsts.count(3) == (0 if kind == "both" else 12)
