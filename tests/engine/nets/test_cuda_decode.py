"""One batch for all rows, as a GPU takes them: the same as row by row, whatever their lengths; and what is padded."""

import copy
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np
import pytest
import torch
from engine.smalldecoder import ROWS, SIZES, a_decoder, memory
from torch import Tensor

from studio.engine.families.common.rows import FrameOutput
from studio.engine.families.common.runner import PrefillModule
from studio.engine.families.speakstream.model import SpeakStream, SpeakStreamConfig
from studio.engine.families.speakstream.policy import SegmentInput, SegmentPrefill
from studio.engine.families.speakstream.runner import SpeakStreamRunner, SpeakStreamSlots
from studio.engine.nets.cached_decoder import CachedDecoder
from studio.engine.nets.cuda import GraphRunner, attention_span
from studio.engine.nets.kv_cache import ContextFull, KVCache
from studio.engine.tokenizers import dmel

GPU = torch.cuda.is_available()
Decode = Callable[[SpeakStreamSlots, Sequence[tuple[int, ...]], Sequence[Any]], Sequence[FrameOutput]]


@pytest.fixture(scope="module")
def lean() -> CachedDecoder:
    return CachedDecoder(a_decoder())


@torch.inference_mode()
@pytest.mark.parametrize("capacity", [300, 24], ids=["room for all", "a ring that comes round"])
def test_a_batch_is_what_its_rows_are(lean: CachedDecoder, capacity: int) -> None:
    """Rows of many lengths, which join and forget at different times, past the first span."""
    alone, together = memory(capacity), memory(capacity)
    for t in range(200):
        rows = [row for row in (3, 0, 4, 1) if t >= 7 * row]  # slot 2 is nobody's, and NaN
        for slots in (alone, together):
            for row in rows:
                slots.start[row] = max(0, int(slots.length[row]) - (19 if row % 2 else 23))
        x = torch.randn(len(rows), 1, SIZES.width)
        expected = lean.extend(x, alone, rows)
        found = lean.batched_decode.extend(x[:, 0], together, rows)
        torch.testing.assert_close(found, expected, rtol=1e-4, atol=1e-4)
    assert torch.equal(alone.length, together.length)
    for mine, theirs in zip(alone.keys, together.keys, strict=True):
        torch.testing.assert_close(mine, theirs, rtol=1e-4, atol=1e-4, equal_nan=True)


@torch.inference_mode()
def test_a_longer_context_than_one_span_is_seen(lean: CachedDecoder) -> None:
    alone, together = memory(600), memory(600)
    begin = torch.randn(1, 290, SIZES.width)
    for slots in (alone, together):
        lean.extend(begin, slots, [1])
    x = torch.randn(1, 1, SIZES.width)
    found = lean.batched_decode.extend(x[:, 0], together, [1])
    torch.testing.assert_close(found, lean.extend(x, alone, [1]), rtol=1e-4, atol=1e-4)
    changed = memory(600)
    lean.extend(torch.cat((begin[:, :1] + 1.0, begin[:, 1:]), 1), changed, [1])
    assert (lean.batched_decode.extend(x[:, 0], changed, [1]) - found).abs().max() > 1e-4, "the first token counts"


@torch.inference_mode()
def test_rows_that_only_fill_up_change_nobody(lean: CachedDecoder) -> None:
    """A batch is filled up with rows of a spare slot, all of them the same one."""
    slots, x = memory(64), torch.randn(4, SIZES.width)
    for _ in range(3):
        lean.batched_decode.extend(x[:2], slots, [0, 3])
    before = lean.batched_decode.extend(x[:2], slots, [0, 3])
    slots.length[[0, 3]] -= 1
    index, span = lean.batched_decode.plan(slots, [0, 3])
    spare = torch.tensor([[4, 4], [0, 0], [0, 0]])
    after = lean.batched_decode.step(x, slots, torch.cat((index, spare), 1), span)
    torch.testing.assert_close(after[:2], before, rtol=1e-5, atol=1e-5)
    assert after.isfinite().all()


@torch.inference_mode()
def test_a_full_slot_says_so_and_nothing_has_moved(lean: CachedDecoder) -> None:
    slots = memory(8)
    lean.extend(torch.randn(1, 8, SIZES.width), slots, [0])
    kept = [keys[0].clone() for keys in slots.keys]
    with pytest.raises(ContextFull, match="more than the 8 tokens"):
        lean.batched_decode.extend(torch.randn(2, SIZES.width), slots, [1, 0])
    assert slots.length.tolist() == [8, 0, 0, 0, 0]
    assert all(torch.equal(before, after[0]) for before, after in zip(kept, slots.keys, strict=True))


@pytest.mark.parametrize(("held", "span"), [(1, 128), (128, 128), (129, 256), (1000, 1024), (1025, 1500)])
def test_few_spans_serve_all_lengths(held: int, span: int) -> None:
    assert attention_span(held, 1500) == span


BEGUN, HEATS = (9, 1, 4), (0.5, 0.0, 1.0)


def spoken(net: SpeakStream, decode: Decode, slots: SpeakStreamSlots, fed: list[Tensor]) -> Iterator[list[FrameOutput]]:
    """Three utterances of other ages, temperatures and seeds; ``fed`` are the frames that each is fed at each step."""
    device, rows = slots.last.device, [(2,), (0,), (1,)]
    prefill = PrefillModule(SpeakStreamRunner(net).prefill)
    for (slot,), begun, heat in zip(rows, BEGUN, HEATS, strict=True):
        frames = torch.randint(0, 16, (begun, dmel.CHANNELS), generator=torch.manual_seed(slot)).to(torch.uint8)
        stretch = SegmentInput(False, (5, 6), (0, 1, 2), frames.numpy())
        prefill.run(slots, [(slot,)], [SegmentPrefill(0, 0, (stretch,), slot % 2, heat, seed=7 + slot, frame=begun)])
    for levels in fed:
        slots.last[[2, 0, 1]] = levels.to(device)
        yield decode(slots, rows, [None] * 3)


@torch.inference_mode()
@pytest.mark.parametrize(("device", "graphs"), [("cpu", False), *([("cuda", False), ("cuda", True)] if GPU else [])])
def test_speakstream_draws_the_same_frames_in_one_step(device: str, graphs: bool) -> None:
    """Row by row on a CPU, and in a batch that is filled up to four."""
    torch.manual_seed(1)
    net = SpeakStream(SpeakStreamConfig(3, 64, 4, 96, 2)).eval()
    net.levels_out.weight.normal_(std=0.2)
    net.eos_out.weight.normal_(std=0.2)
    sizes, fed = net.decoder.config, [*torch.randint(0, 16, (140, 3, dmel.CHANNELS), dtype=torch.uint8)]

    def slots_on(where: str) -> SpeakStreamSlots:
        memory = KVCache(sizes.layers, ROWS, sizes.heads, 256, sizes.head_width, device=where, poison=True)
        return SpeakStreamSlots(memory, ROWS, torch.device(where))

    apart = spoken(net, SpeakStreamRunner(net).decode_module().run, slots_on("cpu"), fed)
    there, slots = copy.deepcopy(net).to(device), slots_on(device)
    on_device = SpeakStreamRunner(there).cuda_decoder(GraphRunner(torch.device(device), graphs=graphs))
    together = spoken(there, lambda slots, rows, _: on_device.decode(slots, [slot for (slot,) in rows]), slots, fed)
    for one, other in zip(apart, together, strict=True):
        assert all(drawn.is_finite for drawn in other)
        assert [drawn.p_eos for drawn in one] == pytest.approx([drawn.p_eos for drawn in other], abs=1e-4)
        levels = [np.concatenate([drawn.levels for drawn in found]) for found in (one, other)]
        assert (levels[0] == levels[1]).mean() > (0.99 if device == "cuda" else 0.999)
    assert slots.cache.keys[0][3].isnan().all(), "slot 3 is nobody's"
