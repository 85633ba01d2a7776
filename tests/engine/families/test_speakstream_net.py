"""SpeakStream's net: sizes, streaming against whole sequences, batches, dropping, forced ends."""

import pytest
import torch
import torch.nn.functional as F
from tinyvoice import write_tiny_voice

from studio.core import events as ev
from studio.core.ports import SpeakRequest
from studio.engine.engine import open_engine
from studio.engine.families.speakstream.model import SpeakStream, SpeakStreamConfig
from studio.engine.families.speakstream.runner import SpeakStreamRunner
from studio.engine.nets.cached_decoder import CachedDecoder
from studio.engine.nets.kv_cache import ContextFull, KVCache
from studio.engine.nets.linear import FORMATS, RowwiseLinear
from studio.engine.nets.sampling import sample_levels, uniform
from studio.engine.nets.transformer import attend_whole
from studio.text.normalise import best


def net(layers: int = 3, width: int = 64) -> SpeakStream:
    torch.manual_seed(1)
    made = SpeakStream(SpeakStreamConfig(layers, width, 4, 2 * width, 2)).eval()
    with torch.no_grad():
        for p in made.decoder.parameters():
            if p.ndim == 2:
                p.normal_(std=0.1)
        made.levels_out.weight.normal_(std=0.2)
    return made


def slots_of(made: SpeakStream, slots: int, capacity: int = 256) -> KVCache:
    c = made.decoder.config
    return KVCache(c.layers, slots, c.heads, capacity, c.head_width, poison=True)


def test_the_papers_size():
    with torch.device("meta"):
        count = sum(p.numel() for p in SpeakStream(SpeakStreamConfig.named("paper")).parameters())
    assert abs(count / 258e6 - 1) < 0.02 and SpeakStreamConfig.named("paper").layers == 36


def extend(made: SpeakStream, x: torch.Tensor, slots: KVCache, rows: list[int]) -> torch.Tensor:
    """The hidden state after the last token of each row, [B, D], as the trained decoder has it."""
    lean = CachedDecoder(made.decoder)
    return lean.extend(x, slots, rows)[: len(rows)] * (made.decoder.norm.weight * made.config.width**0.5)


@torch.inference_mode()
def test_streaming_equals_whole():
    made = net()
    x = torch.randn(1, 40, 64)
    whole = made.decoder(x)
    slots = slots_of(made, 2)
    for a, b in [(0, 7), (7, 8), (8, 9), (9, 25), (25, 40)]:
        torch.testing.assert_close(extend(made, x[:, a:b], slots, [1])[0], whole[0, b - 1], rtol=1e-4, atol=1e-5)


@torch.inference_mode()
def test_what_is_made_ready_to_run_says_what_the_net_says():
    """Folded gains, tables of levels, heads in one product: logits within 1e-4 of those of the net as trained."""
    made = net()
    with torch.no_grad():
        for parameter in made.decoder.parameters():
            if parameter.ndim == 1:
                parameter.uniform_(0.5, 1.5)
        made.eos_out.weight.normal_(std=0.2)
    step, slots = SpeakStreamRunner(made), slots_of(made, 1)
    levels, speaker = torch.randint(0, 19, (9, 80), dtype=torch.uint8), torch.tensor([1])
    x = made.embed_frames(levels, speaker)
    torch.testing.assert_close(step.embed_frames(levels, speaker), x, rtol=1e-4, atol=1e-5)
    wanted_levels, wanted_eos = made.heads(made.decoder(x[None])[0, -1])
    out = step.head(step.decoder.extend(x[None], slots, [0]))[0]
    torch.testing.assert_close(out[:-1].view(80, 16), wanted_levels, rtol=1e-4, atol=1e-4)
    torch.testing.assert_close(out[-1], wanted_eos, rtol=1e-4, atol=1e-4)


@torch.inference_mode()
@pytest.mark.parametrize("number_format", FORMATS)
@pytest.mark.parametrize("size", [2, 3, 4, 5, 8])
def test_law_3_a_row_does_not_know_its_neighbours(size, number_format):
    made = net()
    lean = CachedDecoder(made.decoder, number_format)
    torch.manual_seed(3)
    rows = torch.randn(8, 12, 64)

    def run(order: list[int]) -> torch.Tensor:
        memory = slots_of(made, 8)
        for slot, length in enumerate([3, 9, 5, 12, 7, 1, 11, 2]):
            lean.extend(rows[slot : slot + 1, :length], memory, [slot])
        return lean.extend(torch.stack([rows[o, :1] for o in order]), memory, order)

    alone, together, moved = run([0])[0], run([*range(size)])[0], run([*range(1, size), 0])[size - 1]
    assert torch.equal(alone, together) and torch.equal(alone, moved)


@torch.inference_mode()
def test_unwritten_memory_is_loud_and_never_read():
    made = net()
    slots = slots_of(made, 2)
    out = extend(made, torch.randn(1, 5, 64), slots, [0])
    assert torch.isfinite(out).all()
    assert all(keys[0, :, 5:].isnan().all() and keys[1].isnan().all() for keys in slots.keys)
    slots.length[0] = 6  # a slot that claims more than it wrote
    assert extend(made, torch.randn(1, 1, 64), slots, [0]).isnan().any()
    slots.reset(0)
    assert all(keys[0].isnan().all() for keys in slots.keys) and slots.length[0] == 0 and slots.epoch[0] == 1


@torch.inference_mode()
def test_dropping_the_oldest_keeps_the_rest_where_it_was():
    made = net(layers=1)  # one layer: what is kept does not remember what was dropped
    x = torch.randn(1, 20, 64)
    full, cut = slots_of(made, 1), slots_of(made, 1)
    extend(made, x[:, :19], full, [0])
    full.start[0] = 8
    extend(made, x[:, 8:19], cut, [0])
    after_drop = extend(made, x[:, 19:], full, [0])
    fresh = extend(made, x[:, 19:], cut, [0])
    torch.testing.assert_close(after_drop, fresh, rtol=1e-4, atol=1e-5)
    assert full.length[0] == 20 and full.start[0] == 8


@torch.inference_mode()
@pytest.mark.parametrize("capacity", [20, 23, 32])
def test_a_ring_that_goes_round_is_as_good_as_a_long_memory(capacity):
    """Far more tokens than a slot holds, the oldest forgotten in time, in pieces of several lengths."""
    made = net()
    x = torch.randn(1, 90, 64)
    ring, long = slots_of(made, 2, capacity), slots_of(made, 2)
    at = 0
    for tokens in [7, 1, 1, 9, 1, 5, 1, 1, 8, 1, 12, 1, 1, 1, 10, 1, 9, 1, 1, 11]:
        for slots in (ring, long):
            slots.start[1] = max(0, at + tokens - 18)
        pieces = [extend(made, x[:, at : at + tokens], slots, [1]) for slots in (ring, long)]
        torch.testing.assert_close(pieces[0], pieces[1], rtol=1e-4, atol=1e-5)
        at += tokens
    assert at > 3 * 20


@torch.inference_mode()
def test_going_back_is_to_lower_a_length():
    made = net()
    x = torch.randn(1, 30, 64)
    straight, turned = slots_of(made, 1), slots_of(made, 1)
    extend(made, x[:, :10], straight, [0])
    extend(made, x[:, :10], turned, [0])
    extend(made, torch.randn(1, 8, 64), turned, [0])
    turned.length[0] = 10
    ends = [extend(made, x[:, 10:], slots, [0]) for slots in (straight, turned)]
    assert torch.equal(*ends)


def test_whole_numbers_are_near_the_weights():
    torch.manual_seed(2)
    weight, bias, x = torch.randn(48, 64) / 8, torch.randn(48), torch.randn(5, 64)
    wanted = x @ weight.T + bias
    error = (RowwiseLinear(weight, bias, "int8")(x) - wanted).abs().max() / wanted.abs().max()
    assert 0 < float(error) < 0.02, "within one bfloat16 number format (law 3)"
    assert torch.equal(RowwiseLinear(weight, bias, "int8")(x)[2:3], RowwiseLinear(weight, bias, "int8")(x[2:3]))


def test_a_full_slot_says_so():
    slots = KVCache(1, 1, 1, 4, 2)
    with pytest.raises(ContextFull, match="4 tokens"):
        slots.write(0, 0, 0, torch.zeros(1, 5, 2), torch.zeros(1, 5, 2))


def test_noise_is_a_function_of_seed_frame_and_channel():
    seeds, frames = torch.tensor([5, 5, 6, 2**62]), torch.tensor([0, 1, 0, 0])
    noise = uniform(seeds, frames, 80)
    assert torch.equal(noise[1], uniform(seeds[1:2], frames[1:2], 80)[0])
    assert len({tuple(row.tolist()) for row in noise}) == 4
    many = uniform(torch.zeros(4000, dtype=torch.int64), torch.arange(4000), 80)
    assert abs(float(many.mean()) - 0.5) < 2e-3 and abs(float(many.var()) - 1 / 12) < 1e-3
    assert float(torch.corrcoef(many[:, :8].T).fill_diagonal_(0).abs().max()) < 0.06
    assert float(many.min()) > 0 and float(many.max()) < 1


def test_sampling_follows_its_distribution_and_zero_is_greedy():
    logits = torch.log(torch.tensor([0.1, 0.6, 0.3])).expand(5000, 2, 3)
    seeds, frames = torch.zeros(5000, dtype=torch.int64), torch.arange(5000)
    drawn = sample_levels(logits, torch.ones(5000), uniform(seeds, frames, 2))
    shares = torch.bincount(drawn.flatten().long(), minlength=3) / 10_000
    assert torch.allclose(shares, torch.tensor([0.1, 0.6, 0.3]), atol=0.02)
    assert (sample_levels(logits, torch.zeros(5000), uniform(seeds, frames, 2)) == 1).all()


@pytest.fixture(scope="module")
def endless(tmp_path_factory):
    """A voice that never ends a segment by itself, with a short memory."""
    root = tmp_path_factory.mktemp("voices")
    write_tiny_voice(root, eos_bias=-50.0)
    engine = open_engine(root, best(), device="cpu", threads=1)
    yield engine
    engine.close()


def test_a_segment_without_eos_is_cut_and_says_so(endless):
    utterance = endless.open(SpeakRequest(options={"m": 2, "n": 2}))
    utterance.push_text("one two three four")
    utterance.end()
    ends = [e for e in utterance.events() if isinstance(e, ev.Eos)]
    assert [e.forced for e in ends] == [True, True] and [e.frame for e in ends] == [24, 48]


def test_a_long_text_outlives_its_context(endless):
    utterance = endless.open(SpeakRequest(options={"m": 3, "n": 1}))
    utterance.push_text("word " * 40)
    utterance.end()
    last = list(utterance.events())[-1]
    assert isinstance(last, ev.Ended) and last.samples == 40 * 12 * 600


def test_p_eos_is_kept_for_every_frame(endless):
    utterance = endless.open(SpeakRequest(options={"m": 1, "n": 1}))
    utterance.push_text("one two")
    utterance.end()
    frames = [e for e in utterance.events() if isinstance(e, ev.Frames)]
    assert [e.first_frame for e in frames] == [*range(24)]
    assert all(len(e.p_eos) == 1 and 0 <= e.p_eos[0] <= 1 for e in frames)


def test_half_precision_attention_in_blocks_is_the_same_attention():
    torch.manual_seed(0)
    q, k, v = (torch.randn(2, 2, 600, 16, dtype=torch.bfloat16, requires_grad=True) for _ in range(3))
    wanted = F.scaled_dot_product_attention(q.float(), k.float(), v.float(), is_causal=True)
    made = attend_whole(q, k, v)
    assert float((made - wanted).detach().abs().max()) < 0.03
    (expected,) = torch.autograd.grad(wanted.square().sum(), k)
    (got,) = torch.autograd.grad(made.float().square().sum(), k)
    assert float((got - expected).norm() / expected.norm()) < 0.02
