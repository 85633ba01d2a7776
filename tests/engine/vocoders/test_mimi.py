"""Mimi against Kyutai's own code (``tests/oracles/make_mimi.py``), the laws of streaming, and files that do not fit."""

import json
from pathlib import Path

import numpy as np
import pytest
import torch
from oracles.safetensors_size import file_bytes
from safetensors.torch import load_file, save_file
from torch import Tensor

from studio.core.errors import BadOption, BadVoice
from studio.engine.vocoders.mimi import Mimi, MimiConfig, MimiState, encode_prefix, load_mimi

ORACLE = Path(__file__).parents[2] / "oracles" / "mimi"
TINY = MimiConfig.read(json.loads((ORACLE / "tiny.json").read_text()))
RESTART = 3  # the frame with which the reference's second row begins anew


@pytest.fixture(scope="module")
def mimi() -> Mimi:
    return load_mimi(ORACLE / "tiny.safetensors", TINY)


@pytest.fixture(scope="module")
def reference() -> dict[str, Tensor]:
    return load_file(ORACLE / "reference.safetensors")


def relative_error(found: Tensor, expected: Tensor) -> float:
    return float((found - expected).norm() / expected.norm())


def codes_of(reference: dict[str, Tensor]) -> Tensor:
    """[B, T, K]; Kyutai's are [B, K, T]."""
    return reference["codes"].transpose(1, 2)


def decode(mimi: Mimi, codes: Tensor, sizes: list[int], state: MimiState | None = None) -> Tensor:
    """The samples of codes given a few frames at a time."""
    state, chunks = state or mimi.init_state(len(codes)), []
    for part in codes.split(sizes, dim=1):
        pcm, state = mimi.step(part, state)
        chunks.append(pcm)
    return torch.cat(chunks, 1)


def test_whole_sequences_are_those_of_kyutais_code(mimi: Mimi, reference: dict[str, Tensor]) -> None:
    codes = codes_of(reference)
    assert reference["whole"].std() > 0.02, "the comparison would be of silence"
    assert relative_error(mimi(codes), reference["whole"]) < 1e-5
    assert relative_error(mimi(codes[:, :, :3]), reference["few"]) < 1e-5


def test_a_stream_is_that_of_kyutais_code(mimi: Mimi, reference: dict[str, Tensor]) -> None:
    """Until a window is full: then Kyutai's ring loses the oldest token before the first one of a frame has seen it."""
    codes, frames = codes_of(reference), TINY.window_tokens // TINY.latents_per_frame
    samples, late = frames * TINY.frame_samples, RESTART * TINY.frame_samples
    assert relative_error(decode(mimi, codes[::2], [1] * 30)[:, :samples], reference["streamed"][::2, :samples]) < 1e-5
    restarted = decode(mimi, codes[1:2, RESTART:], [1] * (30 - RESTART))[:, :samples]
    assert relative_error(restarted, reference["streamed"][1:2, late : late + samples]) < 1e-5


def test_recordings_get_the_codes_of_kyutais_code(mimi: Mimi, reference: dict[str, Tensor]) -> None:
    expected = reference["encoded"].transpose(1, 2)
    assert torch.equal(mimi.encode(reference["sound"]), expected)
    assert torch.equal(mimi.encode(reference["sound"][:, :-5], 2)[:, :-1], expected[:, :-1, :2])


def test_a_recording_as_a_voice_has_the_codes_of_kyutais_code(mimi: Mimi, reference: dict[str, Tensor]) -> None:
    """``get_prefix`` of ``moshi`` leaves out the last two frames."""
    sound, expected = reference["sound"].numpy(), reference["encoded"].transpose(1, 2)
    for recording, codes in zip(sound, expected, strict=True):
        assert np.array_equal(encode_prefix(mimi, recording, 3), codes[:-2, :3])
    refused = {
        "lasts": (sound[0, : 13 * TINY.frame_samples], np.zeros(253 * TINY.frame_samples, np.float32), sound),
        "is silent": (0 * sound[0], np.full_like(sound[0], np.nan)),
    }
    for says, recordings in refused.items():
        for recording in recordings:
            with pytest.raises(BadOption, match=f"the recording of a voice {says}"):
                encode_prefix(mimi, recording, 3)


def test_names_and_shapes_are_the_published_ones() -> None:
    with torch.device("meta"):
        net = Mimi(MimiConfig())
    published = json.loads((ORACLE / "published.json").read_text())
    assert {name: list(one.shape) for name, one in net.state_dict().items()} == published
    assert net.config.frame_samples / net.config.sample_rate_hz == 0.08 and net.config.latents_per_frame == 2


def test_published_names_make_a_file_of_the_published_size() -> None:
    """Kyutai's file has 384,644,900 bytes; with the names of later releases it would have 96 more."""
    published = json.loads((ORACLE / "published.json").read_text())
    assert file_bytes(published, dict.fromkeys(published, "F32")) == 384_644_900


@pytest.mark.parametrize("sizes", [[1] * 30, [1, 2, 3, 24], [13, 17], [29, 1]])
def test_samples_do_not_depend_on_the_chunks(mimi: Mimi, reference: dict[str, Tensor], sizes: list[int]) -> None:
    codes = codes_of(reference)
    assert (decode(mimi, codes, sizes) - mimi(codes)).abs().max() < 1e-5


def test_long_streams_are_split_into_runs(mimi: Mimi) -> None:
    codes = torch.randint(TINY.codebook_size, (1, 150, TINY.channels))
    assert (decode(mimi, codes, [1] * 150) - mimi(codes)).abs().max() < 1e-5


def test_rows_begin_and_end_while_others_go_on(mimi: Mimi, reference: dict[str, Tensor]) -> None:
    """Streams join and leave slots at any frame; each has the samples that it has alone."""
    codes, slots, samples = codes_of(reference), mimi.init_state(3), dict[int, list[Tensor]]()
    # (stream, slot, first step, frames): the third takes the slot that the first has left.
    spans = [(0, 2, 0, 9), (1, 0, 4, 26), (2, 2, 11, 19)]
    for step in range(30):
        running = [span for span in spans if span[2] <= step < span[2] + span[3]]
        for stream, slot, first, _ in running:
            if first == step:
                mimi.reset(slots, torch.tensor([slot]))
                samples[stream] = []
        index = torch.tensor([slot for _, slot, _, _ in running])
        frames = torch.stack([codes[stream, step - first] for stream, _, first, _ in running])[:, None]
        pcm, after = mimi.step(frames, slots.take(index))
        slots.put(index, after)
        for (stream, *_), row in zip(running, pcm, strict=True):
            samples[stream].append(row)
    for stream, _, _, count in spans:
        alone = mimi(codes[stream : stream + 1, :count])[0]
        assert (torch.cat(samples[stream]) - alone).abs().max() < 1e-5


def test_no_sample_depends_on_a_later_frame(mimi: Mimi, reference: dict[str, Tensor]) -> None:
    codes, cut = codes_of(reference)[:1], 10
    other = codes.clone()
    other[:, cut:] = (other[:, cut:] + 1) % TINY.codebook_size
    a, b, samples = mimi(codes), mimi(other), cut * TINY.frame_samples
    assert (a[:, :samples] - b[:, :samples]).abs().max() < 1e-6
    assert (a[:, samples : samples + 24] - b[:, samples : samples + 24]).abs().max() > 1e-3


def test_a_step_leaves_the_state_that_it_was_given(mimi: Mimi, reference: dict[str, Tensor]) -> None:
    codes = codes_of(reference)
    _, state = mimi.step(codes[:, :9], mimi.init_state(3))
    kept = state.clone()
    first, after = mimi.step(codes[:, 9:12], state)
    assert all(torch.equal(a, b) for a, b in zip(state.leaves(), kept.leaves(), strict=True))
    again, _ = mimi.step(codes[:, 9:12], kept)
    assert torch.equal(first, again) and after.position.tolist() == [12 * TINY.frame_samples] * 3


@pytest.mark.parametrize("code", [-1, TINY.codebook_size])
def test_a_code_out_of_its_codebook_is_an_error(mimi: Mimi, code: int) -> None:
    with pytest.raises(IndexError):
        mimi(torch.full((1, 1, 4), code))


def test_names_of_later_releases_are_read(mimi: Mimi, tmp_path: Path) -> None:
    later = {
        name.replace(".in_proj_weight", ".in_projs.0.weight").replace(".out_proj.", ".out_projs.0."): one.bfloat16()
        for name, one in load_file(ORACLE / "tiny.safetensors").items()
    }
    save_file(later, tmp_path / "later.safetensors")
    read = load_mimi(tmp_path / "later.safetensors", TINY).state_dict()
    for name, expected in mimi.state_dict().items():
        assert read[name].dtype == torch.float32 and torch.allclose(read[name], expected, rtol=0.01), name


def _without(weights: dict[str, Tensor]) -> None:
    del weights["upsample.convtr.convtr.convtr.weight"]


def _with_more(weights: dict[str, Tensor]) -> None:
    weights["decoder.model.9.extra"] = torch.zeros(1)


def _wider(weights: dict[str, Tensor]) -> None:
    weights["decoder.model.0.conv.conv.bias"] = torch.zeros(17)


def _whole_numbers(weights: dict[str, Tensor]) -> None:
    weights["decoder.model.0.conv.conv.bias"] = torch.zeros(16, dtype=torch.int32)


def _infinite(weights: dict[str, Tensor]) -> None:
    weights["decoder.model.0.conv.conv.bias"][3] = float("inf")


@pytest.mark.parametrize(
    ("change", "says"),
    [
        (_without, r"lacks upsample\.convtr\.convtr\.convtr\.weight;"),
        (_with_more, r"has unknown decoder\.model\.9\.extra;"),
        (_wider, r"decoder\.model\.0\.conv\.conv\.bias in .* has the shape \[17\], not \[16\]"),
        (_whole_numbers, r"decoder\.model\.0\.conv\.conv\.bias in .* is I32, not one of F32, BF16, F16"),
        (_infinite, r"decoder\.model\.0\.conv\.conv\.bias in .* not finite"),
    ],
)
def test_a_file_that_does_not_fit_is_refused(change, says: str, tmp_path: Path) -> None:
    weights = load_file(ORACLE / "tiny.safetensors")
    change(weights)
    save_file(weights, tmp_path / "mimi.safetensors")
    with pytest.raises(BadVoice, match=says):
        load_mimi(tmp_path / "mimi.safetensors", TINY)


def test_a_missing_or_foreign_file_is_refused(tmp_path: Path) -> None:
    with pytest.raises(BadVoice, match="is no file"):
        load_mimi(tmp_path / "absent.safetensors", TINY)
    (tmp_path / "text.safetensors").write_text("not tensors")
    with pytest.raises(BadVoice, match="cannot be read as safetensors"):
        load_mimi(tmp_path / "text.safetensors", TINY)
    with pytest.raises(BadVoice, match="lacks"):
        load_mimi(ORACLE / "tiny.safetensors")


def test_sizes_that_do_not_fit_each_other_are_refused() -> None:
    with pytest.raises(BadVoice, match="do not divide"):
        Mimi.from_config({"ratios": [7, 5]})
    with pytest.raises(BadVoice, match="even width"):
        Mimi.from_config({"heads": 7})
