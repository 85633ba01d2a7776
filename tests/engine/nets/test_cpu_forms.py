"""What runs in numpy on a CPU says what torch says, and a row does not know its neighbours."""

import itertools

import numpy as np
import pytest
import torch
from engine.smalldecoder import ROWS, SIZES, a_decoder, memory

from studio.engine.nets.cached_decoder import CachedDecoder
from studio.engine.nets.cpu.decoder import CompiledPrefillLayer, PackedPrefillLayer
from studio.engine.nets.kv_cache import ContextFull
from studio.engine.nets.sampling import sample_levels, sample_levels_numpy, uniform
from studio.engine.nets.transformer import Decoder
from studio.engine.vocoders.base import VocoderState
from studio.engine.vocoders.cpu import CpuSourceFilter, CpuSourceVocos, SourceFilterArrays, cpu_vocoder
from studio.engine.vocoders.sourcefilter import REST_LOGIT, SourceFilter, SourceFilterConfig
from studio.engine.vocoders.sourcevocos import SourceVocos, SourceVocosConfig

FRAMES = 24


@pytest.fixture(scope="module")
def decoder() -> Decoder:
    return a_decoder()


@torch.inference_mode()
def test_tokens_one_by_one_are_the_net_as_trained(decoder: Decoder) -> None:
    lean, slots, x = CachedDecoder(decoder), memory(), torch.randn(1, 30, SIZES.width)
    whole = decoder(x)[0]
    for t in range(30):
        found = lean.extend(x[:, t : t + 1], slots, [3])[0] * (decoder.norm.weight * SIZES.width**0.5)
        torch.testing.assert_close(found, whole[t], rtol=1e-4, atol=1e-4)


@torch.inference_mode()
@pytest.mark.parametrize("capability", ["AVX2", "AVX512"])
def test_a_stretch_is_the_net_as_trained_whichever_kernels_it_takes(
    decoder: Decoder, capability: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(torch.backends.cpu, "get_cpu_capability", lambda: capability)
    lean, slots, x = CachedDecoder(decoder), memory(), torch.randn(1, 37, SIZES.width)
    assert lean.cpu_prefill is not None
    kind = CompiledPrefillLayer if capability == "AVX2" else PackedPrefillLayer
    assert {type(layer) for layer in lean.cpu_prefill.layers} == {kind}
    whole = decoder(x)[0] / (decoder.norm.weight * SIZES.width**0.5)
    for begin, end in ((0, 20), (20, 21), (21, 37)):
        found = lean.extend(x[:, begin:end], slots, [3])[0]
        torch.testing.assert_close(found, whole[end - 1], rtol=1e-4, atol=1e-4)


@torch.inference_mode()
@pytest.mark.parametrize("cuts", [(3, 20, 21), (40,), (*range(1, 64),)])
def test_the_first_tokens_of_a_row_have_the_same_bits_however_they_are_cut(
    decoder: Decoder, cuts: tuple[int, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Up to the 64th; what is fed after the last cut goes on beyond it."""
    monkeypatch.setattr(torch.backends.cpu, "get_cpu_capability", lambda: "AVX2")
    lean, x = CachedDecoder(decoder), torch.randn(1, 80, SIZES.width)
    assert lean.cpu_prefill is not None and lean.cpu_prefill.is_exact
    whole, pieces = memory(100), memory(100)
    wanted = lean.extend(x, whole, [2])
    for begin, end in itertools.pairwise((0, *cuts, 80)):
        if end - begin > 1:
            found = lean.extend(x[:, begin:end], pieces, [2])
        else:  # a stretch of one token, as a family reads it
            found = torch.from_numpy(lean.cpu_prefill.extend(x[0, begin:end].numpy(), pieces, 2))
    assert torch.equal(found, wanted)
    for (keys, values), (other_keys, other_values) in zip(whole.arrays, pieces.arrays, strict=True):
        assert np.array_equal(keys[2, :, :80], other_keys[2, :, :80])
        assert np.array_equal(values[2, :, :80], other_values[2, :, :80])


@torch.inference_mode()
def test_a_ring_that_has_come_round_is_read_in_order(decoder: Decoder) -> None:
    """The same last 20 tokens in a slot that wrote over its beginning, and in one that has room for all."""
    lean, x = CachedDecoder(decoder), torch.randn(1, 50, SIZES.width)
    found = []
    for capacity in (24, 64):
        slots = memory(capacity)
        for t in range(50):
            slots.start[1] = max(0, t - 19)
            found.append(lean.extend(x[:, t : t + 1], slots, [1]))
    for round_the_ring, straight in zip(found[:50], found[50:], strict=True):
        torch.testing.assert_close(round_the_ring, straight, rtol=1e-5, atol=1e-5)


@torch.inference_mode()
def test_a_full_slot_says_so_and_nothing_has_moved(decoder: Decoder) -> None:
    lean, slots = CachedDecoder(decoder), memory(8)
    lean.extend(torch.randn(1, 8, SIZES.width), slots, [0])
    kept = [keys.clone() for keys in slots.keys]
    with pytest.raises(ContextFull, match="more than the 8 tokens"):
        lean.extend(torch.randn(2, 1, SIZES.width), slots, [1, 0])
    assert slots.length.tolist() == [8, 0, 0, 0, 0]
    assert all(torch.equal(a, b) or a.isnan().any() for a, b in zip(kept, slots.keys, strict=True))


def test_the_same_levels_are_drawn() -> None:
    torch.manual_seed(1)
    logits = torch.randn(400, 80, 16) * 3
    noise = uniform(torch.arange(400), torch.arange(400), 80)
    temperature = torch.linspace(0, 1.5, 400)
    a = sample_levels(logits, temperature, noise).numpy()
    b = sample_levels_numpy(logits.numpy(), temperature.numpy(), noise.numpy())
    assert (a != b).mean() < 1e-4, "but where noise meets the edge between two levels"
    assert np.array_equal(b[0], logits[0].argmax(-1).numpy()), "at no temperature the most likely"
    hot, cold = (sample_levels_numpy(logits.numpy(), np.full(400, t, np.float32), noise.numpy()) for t in (1.5, 0.1))
    assert (cold == logits.argmax(-1).numpy()).mean() > 0.9 > (hot == logits.argmax(-1).numpy()).mean()


@pytest.fixture(scope="module", params=["sourcefilter", "sourcevocos"])
def vocoder(request: pytest.FixtureRequest) -> SourceFilter:
    torch.manual_seed(7)
    sizes = {"width": 64, "fine_width": 32}
    made = (
        SourceFilter(SourceFilterConfig(**sizes))
        if request.param == "sourcefilter"
        else SourceVocos(SourceVocosConfig(**sizes, refine_width=48, refine_blocks=2))
    )
    made = made.eval().requires_grad_(False)
    for parameter in made.parameters():
        parameter.uniform_(-0.6, 1.2) if parameter.ndim == 1 else parameter.normal_(std=parameter.shape[-1] ** -0.5)
    made.heads.bias[made.config.pitch_classes + 1 :][: made.config.envelope_bands] = -4.0
    made.heads.weight[made.config.pitch_classes] *= 4.0  # voicing comes and goes
    return made


def frames() -> torch.Tensor:
    return (torch.randn(ROWS, FRAMES, 80, generator=torch.manual_seed(2)).cumsum(1) * 0.4 - 2.5).clamp(-7, 2)


def begun(vocoder: SourceFilter) -> VocoderState:
    return vocoder.init_state(ROWS, seed=torch.arange(ROWS) * 7919)


@torch.inference_mode()
def test_the_source_filter_says_the_same(vocoder: SourceFilter) -> None:
    wanted, after = vocoder.step(frames(), begun(vocoder))
    controls, _ = vocoder.controls(frames(), begun(vocoder).tails)
    rests = controls.voicing < REST_LOGIT
    assert rests.any() and not rests.all(), "the phase begins again somewhere"
    slots = begun(vocoder)
    host = cpu_vocoder(vocoder)
    assert type(host) is (CpuSourceVocos if isinstance(vocoder, SourceVocos) else CpuSourceFilter)
    found = host.step(frames().numpy(), SourceFilterArrays(slots), np.arange(ROWS))
    assert found.dtype == np.float32 and 0.01 < wanted.abs().max() < 1
    torch.testing.assert_close(torch.from_numpy(found), wanted, rtol=1e-3, atol=1e-4)
    for mine, theirs in zip(slots.leaves(), after.leaves(), strict=True):
        torch.testing.assert_close(mine, theirs, rtol=1e-3, atol=1e-3)


@torch.inference_mode()
@pytest.mark.parametrize("at_once", [1, 3])
def test_rows_and_chunks_are_the_same_bit_for_bit(vocoder: SourceFilter, at_once: int) -> None:
    """Laws 2 and 3: the frames of a row whole, a few at once, alone and in another order."""
    host, mels = cpu_vocoder(vocoder), frames().numpy()
    assert host is not None
    whole = host.step(mels, SourceFilterArrays(begun(vocoder)), np.arange(ROWS))
    slots, order = SourceFilterArrays(begun(vocoder)), np.array([3, 1, 4, 0])
    pieces = [host.step(mels[order, t : t + at_once], slots, order) for t in range(0, FRAMES, at_once)]
    assert np.array_equal(np.concatenate(pieces, axis=1), whole[order])
    assert np.array_equal(slots.position, [FRAMES * 600, FRAMES * 600, 0, FRAMES * 600, FRAMES * 600])
    alone = host.step(mels[2:3], slots, np.array([2]))
    assert np.array_equal(alone[0], whole[2])
