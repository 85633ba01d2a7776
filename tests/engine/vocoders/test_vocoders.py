"""The laws every registered causal vocoder keeps, and what each one promises beside them."""

import copy
from dataclasses import asdict
from typing import Any

import engine.nets.interpreted  # noqa: F401 - before the kernels
import numpy as np
import pytest
import torch
from torch import Tensor

from studio.core.errors import BadVoice
from studio.engine.nets.linear import use_rowwise_linear
from studio.engine.tokenizers import dmel
from studio.engine.tokenizers.formats import acoustic_tokenizer
from studio.engine.vocoders import excitation
from studio.engine.vocoders.base import Vocoder
from studio.engine.vocoders.module import VOCODERS, VocodeModule, build_vocoder
from studio.engine.vocoders.overlapped import OverlappedVocoder
from studio.engine.vocoders.sourcefilter import Controls, SourceFilter
from studio.engine.vocoders.sourcevocos import SourceVocos
from studio.engine.vocoders.vocstream import NARROW, PAPER, VocStream

torch.set_num_threads(1)

SMALL: dict[str, dict[str, Any]] = {
    "sourcefilter": {"width": 64, "blocks": 2, "fine_width": 32, "fine_blocks": 1},
    "sourcevocos": {
        "width": 64,
        "blocks": 2,
        "fine_width": 32,
        "fine_blocks": 1,
        "refine_width": 64,
        "refine_blocks": 2,
    },
    "vocstream": asdict(NARROW) | {"upsampler_layers": 4, "generator_layers": 6, "generator_cycle": 6},
}
DEVICES = ["cpu", *(["cuda"] if torch.cuda.is_available() else [])]
FRAMES = 24


OF_MELS = [n for n, kind in VOCODERS.items() if not issubclass(kind, OverlappedVocoder) and not kind.takes_codes]


@pytest.fixture(params=sorted(OF_MELS))
def vocoder(request: pytest.FixtureRequest) -> Vocoder[Any]:
    """A small random vocoder of each kind, loud enough that differences would show."""
    torch.manual_seed(7)
    made = build_vocoder(request.param, SMALL[request.param]).eval().requires_grad_(False)
    if isinstance(made, SourceFilter):
        if isinstance(made, SourceVocos):
            made.correct.weight.normal_(std=0.05)
        made.heads.weight[made.config.pitch_classes :].mul_(3)  # not the pitch: its rounding errors grow with it
        made.heads.bias[: made.config.pitch_classes] = torch.linspace(3, -3, made.config.pitch_classes)
    elif isinstance(made, VocStream):
        made.generator.leave.weight.mul_(30)
    return made


def some_frames(rows: int, frames: int = FRAMES, seed: int = 1) -> Tensor:
    """Levels that wander as speech does, [rows, frames, channels] in log10."""
    noise = torch.Generator().manual_seed(seed)
    walk = torch.randn(rows, frames, dmel.CHANNELS, generator=noise).cumsum(1) * 0.4 - 2.5
    return dmel.dequantise(dmel.quantise(walk))


def vocode_streaming(vocoder: Vocoder[Any], frames: Tensor, sizes: list[int], seed: int | Tensor = 5) -> Tensor:
    """The samples of frames given a few at a time."""
    state = vocoder.init_state(frames.shape[0], frames.device, seed)
    chunks = []
    for part in frames.split(sizes, dim=1):
        pcm, state = vocoder.step(part, state)
        chunks.append(pcm)
    return torch.cat(chunks, dim=1)


@pytest.mark.parametrize("device", DEVICES)
def test_streamed_equals_at_once(vocoder: Vocoder[Any], device: str) -> None:
    vocoder = vocoder.to(device)
    frames = some_frames(2).to(device)
    whole = vocoder(frames, seed=5)
    assert whole.shape == (2, FRAMES * vocoder.config.frame_samples)
    assert whole.isfinite().all() and whole.abs().max() <= 1
    assert whole.std() > 1e-3, "the comparison below would be of silence"
    for sizes in ([1] * FRAMES, [3, 1, 7, 13]):
        assert (vocode_streaming(vocoder, frames, sizes) - whole).abs().max() < 1e-4


def test_no_sample_depends_on_a_later_frame(vocoder: Vocoder[Any]) -> None:
    frames, cut = some_frames(1), 10
    other = torch.cat((frames[:, :cut], some_frames(1, seed=2)[:, cut:]), dim=1)
    a, b = vocoder(frames), vocoder(other)
    samples = cut * vocoder.config.frame_samples
    assert (a[:, :samples] - b[:, :samples]).abs().max() < 1e-5
    assert (a[:, samples:] - b[:, samples:]).abs().max() > 1e-3, "the change itself must be heard"


def test_a_frame_is_heard_in_its_own_chunk(vocoder: Vocoder[Any]) -> None:
    frames = some_frames(1)
    other = frames.clone()
    other[:, 10] += 0.6
    size = vocoder.config.frame_samples
    own = (vocoder(frames) - vocoder(other))[:, 10 * size : 11 * size]
    assert own.abs().max() > 1e-5


def test_rows_are_strangers(vocoder: Vocoder[Any]) -> None:
    frames = some_frames(4)
    seeds = torch.tensor([3, 4, 5, 6])
    together = vocoder(frames, seed=seeds)
    for row in range(4):
        alone = vocoder(frames[row : row + 1], seed=seeds[row : row + 1])
        assert (together[row] - alone[0]).abs().max() < 1e-4


def test_same_seed_same_samples_and_another_seed_others(vocoder: Vocoder[Any]) -> None:
    frames = some_frames(1)
    assert torch.equal(vocoder(frames, seed=1), vocoder(frames, seed=1))
    assert not torch.equal(vocoder(frames, seed=1), vocoder(frames, seed=2))


def test_a_snapshot_restores_and_is_not_written_to(vocoder: Vocoder[Any]) -> None:
    frames = some_frames(2)
    _, state = vocoder.step(frames[:, :8], vocoder.init_state(2, seed=9))
    snapshot = state.clone()
    first, after = vocoder.step(frames[:, 8:16], state)
    for leaf, kept in zip(state.leaves(), snapshot.leaves(), strict=True):
        assert torch.equal(leaf, kept), "step must leave the state it was given"
    again, _ = vocoder.step(frames[:, 8:16], snapshot)
    assert torch.equal(first, again)
    assert after.position.tolist() == [16 * vocoder.config.frame_samples] * 2


def test_rows_move_between_states_and_start_anew(vocoder: Vocoder[Any]) -> None:
    frames = some_frames(3)
    _, state = vocoder.step(frames[:, :6], vocoder.init_state(3, seed=2))
    rows = torch.tensor([2, 0])
    expected, _ = vocoder.step(frames[rows, 6:9], state.take(rows))
    pool = vocoder.init_state(5)
    pool.put(torch.tensor([1, 4]), state.take(rows))
    moved, _ = vocoder.step(frames[rows, 6:9], pool.take(torch.tensor([1, 4])))
    assert torch.equal(expected, moved)
    vocoder.reset(pool, torch.tensor([4]), seed=2)
    fresh, _ = vocoder.step(frames[:1, :6], pool.take(torch.tensor([4])))
    assert (fresh - vocoder(frames[:1, :6], seed=2)).abs().max() < 1e-5


def test_an_unknown_key_or_name_is_a_bad_voice() -> None:
    with pytest.raises(BadVoice, match="unknown keys: depth"):
        build_vocoder("sourcefilter", {"depth": 3})
    with pytest.raises(BadVoice, match="there are hifigan, mimi, sourcefilter, sourcevocos, vocstream"):
        build_vocoder("griffinlim", {})


def test_a_configuration_makes_the_round_trip(vocoder: Vocoder[Any]) -> None:
    again = build_vocoder(vocoder.name, vocoder.plain_config())
    again.load_state_dict(vocoder.state_dict(), strict=True)
    assert again.config == vocoder.config and again.parameter_count() == vocoder.parameter_count()


def test_vocstream_has_the_papers_size() -> None:
    with torch.device("meta"):
        net = VocStream(PAPER)
    halves = ((net.spread, net.upsampler), (net.condition, net.generator))  # each with the layers that feed it
    sizes = [sum(one.numel() for part in half for one in part.parameters()) for half in halves]
    assert sizes == pytest.approx([4.6e6, 7.3e6], rel=0.02)


def test_sourcefilter_has_the_probes_size() -> None:
    assert build_vocoder("sourcefilter", {}).parameter_count() == pytest.approx(1.5e6, rel=0.1)


def test_sourcevocos_unrefined_is_the_source_filter() -> None:
    """Windows that overlap add up to their sources: where pitch and envelopes stand still, both say the same."""
    made = [build_vocoder(name, SMALL[name]).eval().requires_grad_(False) for name in ("sourcevocos", "sourcefilter")]
    refined, plain = made
    assert isinstance(refined, SourceVocos) and isinstance(plain, SourceFilter)
    shape = torch.sin(torch.arange(100) * 0.1) - 3
    controls = Controls(
        torch.zeros(1, 40, 64),
        torch.ones(1, 40, 1),
        shape.expand(1, 40, 100),
        torch.linspace(-2, 2, 12).expand(1, 40, 12),
        torch.randn(1, 40, 64, generator=torch.Generator().manual_seed(1)),
    )
    f0_hz = torch.full((1, 40), 130.0, dtype=torch.float64)
    a, b = (vocoder.render(controls, f0_hz, vocoder.init_state(1, seed=1))[0][:, 1500:] for vocoder in made)
    assert b.std() > 1e-2 and (a - b).abs().max() < 0.01 * b.std()


@pytest.mark.parametrize("name", sorted(name for name, kind in VOCODERS.items() if kind.is_batch_invariant))
def test_rows_are_the_same_bit_for_bit_whoever_shares_the_batch(name: str) -> None:
    torch.manual_seed(7)
    vocoder = build_vocoder(name, {}).eval().requires_grad_(False)
    if isinstance(vocoder, SourceVocos):
        vocoder.correct.weight.normal_(std=0.05)
    use_rowwise_linear(vocoder)
    frames, seeds = some_frames(5, frames=6), torch.arange(5)
    state = vocoder.init_state(5, seed=seeds)
    alone = [vocoder.init_state(1, seed=seeds[row : row + 1]) for row in range(5)]
    with torch.inference_mode():
        for frame in frames.split(1, dim=1):
            together, state = vocoder.step(frame, state)
            for row in range(5):
                pcm, alone[row] = vocoder.step(frame[row : row + 1], alone[row])
                assert torch.equal(pcm[0], together[row])


def test_noise_is_white_and_a_function_of_seed_and_index() -> None:
    seed, start = torch.tensor([1, 2, -3]), torch.tensor([0, 0, 2**33])
    noise = excitation.uniform_noise(seed, start, 4000)
    later = excitation.uniform_noise(seed, start + 1500, 500)
    assert torch.equal(noise[:, 1500:2000], later)
    assert noise.std(dim=1) == pytest.approx([1.0] * 3, rel=0.03)
    assert noise.mean(dim=1).abs().max() < 0.05
    spectrum = torch.fft.rfft(noise).abs().square()
    assert spectrum[:, 1:].max() < 15 * spectrum.mean(), "no line stands out"
    assert torch.corrcoef(noise).fill_diagonal_(0).abs().max() < 0.06


def test_rounding_moves_no_harmonic_in_or_out() -> None:
    """80 harmonics of 144 Hz reach just to 0.48 of the rate: a hair more or less must be the same sound."""
    sounds = []
    for f0_hz in (144.0 * (1 - 1e-9), 144.0 * (1 + 1e-9)):
        f0, phase = torch.full((1, 8), f0_hz, dtype=torch.float64), torch.zeros(1, dtype=torch.float64)
        rests = torch.zeros(1, 8, dtype=torch.bool)
        sounds.append(excitation.pulse_train(f0, f0[:, 0], phase, rests, hop_samples=150, sample_rate_hz=24_000)[0])
    assert (sounds[0] - sounds[1]).abs().max() < 1e-3, "one harmonic more would be 0.16"


def test_pulses_are_band_limited_of_unit_power_and_at_their_pitch() -> None:
    f0 = torch.full((1, 160), 120.0, dtype=torch.float64)
    kind: dict[str, int] = {"hop_samples": 150, "sample_rate_hz": 24000}
    start = torch.zeros(1, dtype=torch.float64)
    pulses, phase = excitation.pulse_train(f0, f0[:, 0], start, torch.zeros(1, 160, dtype=torch.bool), **kind)
    sound = pulses.flatten()
    assert sound.square().mean().item() == pytest.approx(1, rel=0.02)
    assert phase.item() == pytest.approx(0, abs=1e-9) or phase.item() == pytest.approx(1, abs=1e-9)
    line = torch.fft.rfft(sound).abs()
    harmonics = torch.arange(1, 97) * 120
    assert line[harmonics].min() > 1000 * line[harmonics[:-1] + 60].max(), "energy at multiples of 120 Hz alone"
    assert line[11700:].max() < 1e-3 * line[120]


def test_a_gliding_pitch_is_cut_anywhere_without_a_step() -> None:
    f0 = torch.linspace(80, 220, 40, dtype=torch.float64)[None]
    kind: dict[str, int] = {"hop_samples": 150, "sample_rate_hz": 24000}
    start = torch.full((1,), 80.0, dtype=torch.float64)
    rests = torch.zeros(1, 40, dtype=torch.bool)
    rests[0, [3, 4, 30]] = True
    whole, _ = excitation.pulse_train(f0, start, start * 0 + 0.3, rests, **kind)
    first, phase = excitation.pulse_train(f0[:, :17], start, start * 0 + 0.3, rests[:, :17], **kind)
    second, _ = excitation.pulse_train(f0[:, 17:], f0[:, 16], phase, rests[:, 17:], **kind)
    assert (torch.cat((first, second), dim=1) - whole).abs().max() < 1e-8
    after, _ = excitation.pulse_train(f0[:, 31:], f0[:, 30], start * 0, rests[:, 31:], **kind)
    assert (whole[:, 31:] - after).abs().max() < 1e-8, "after a rest the phase is 0, whatever it was"


def test_filters_have_the_envelope_asked_for_and_look_back_only() -> None:
    bands, fft, hop = 100, 900, 150
    basis = excitation.minimum_phase_basis(bands, fft, 24000)
    envelope = torch.linspace(0, -5, bands) + torch.sin(torch.arange(bands) * 0.3)
    impulse = torch.zeros(1, 6, 1, hop)
    impulse[0, 0, 0, 40] = 1
    tail = torch.zeros(1, fft // hop - 1, hop)
    out, _ = excitation.filtered(impulse, envelope.expand(1, 6, 1, bands), lambda x: x @ basis, tail, fft)
    assert out[0, :40].abs().max() < 1e-3 * out.abs().max()
    assert out[0, 40:72].square().sum() > 0.5 * out.square().sum(), "minimum phase: the energy comes first"
    heard = torch.fft.rfft(out[0], n=fft).abs().log()
    asked = envelope @ basis[:, : fft // 2 + 1]
    assert (heard - asked)[:430].abs().max() < 0.1


def test_states_of_speakers_are_bounded(vocoder, monkeypatch):
    """The least recently used one is computed again."""
    monkeypatch.setattr("studio.engine.vocoders.module.MAX_PROMPTED", 2)
    vocoder = copy.deepcopy(vocoder)
    module = VocodeModule(vocoder, acoustic_tokenizer(dmel.ALPHABET), 1, torch.device("cpu"), form="cpu")
    step, computed = vocoder.step, []

    def counted(frames, state):
        computed.append(len(frames))
        return step(frames, state)

    monkeypatch.setattr(vocoder, "step", counted)
    for level, count in [(1, 1), (2, 2), (1, 2), (3, 3), (1, 3), (2, 4)]:
        module.reset(0, np.full((2, dmel.CHANNELS), level, np.uint8), seed=0)
        assert len(computed) == count


def test_a_batch_that_is_filled_up_says_the_same(vocoder):
    """On a GPU three rows run as four, of which one is nobody's."""
    frames = 2 if isinstance(vocoder, VocStream) else 12  # its kernels run in Triton's interpreter
    chunks = dmel.quantise(some_frames(3, frames)).numpy()
    found = []
    for form in ("cpu", "cuda"):
        module = VocodeModule(
            copy.deepcopy(vocoder), acoustic_tokenizer(dmel.ALPHABET), 3, torch.device("cpu"), form=form
        )
        for slot in range(3):
            module.reset(slot, np.full((2, dmel.CHANNELS), 3, np.uint8), seed=slot)
        rows = [(2,), (0,), (1,)]
        found.append([module.run(module.slots, rows, [*chunks[:, t : t + 2]]) for t in range(0, frames, 2)])
    np.testing.assert_allclose(found[1], found[0], atol=1e-4)
