"""Kyutai's models whose voice is an audio prefix against Kyutai's own code (``make_kyutai_prefixed.py``)."""

import hashlib
import json
from contextlib import closing
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from engine.families.kyutai_rows import DELAY, FORMS, ORACLES, SPEECH, new_row, speak, tiny_config, tiny_net
from listening import tiny_engine
from oracles.safetensors_size import file_bytes
from safetensors.torch import load_file, save_file
from tinyvoice import PREFIXED, write_tiny_voice
from torch import Tensor

from studio.core import events as ev
from studio.core.errors import BadVoice
from studio.core.kyutai import TIME_BASE, KyutaiSettings
from studio.core.ports import SpeakRequest
from studio.core.speakers import REFERENCE, BadRecording, SpeakerRequest
from studio.core.speaking import speak_once
from studio.engine.engine import open_engine
from studio.engine.families.kyutai.config import KyutaiConfig
from studio.engine.families.kyutai.model import KyutaiLM, load_kyutai_lm
from studio.engine.families.kyutai.passages import KyutaiNet, KyutaiSlots
from studio.engine.families.kyutai.policy import PAD, KyutaiInput, KyutaiOutput
from studio.engine.families.kyutai.runner import KyutaiFamily, KyutaiModule
from studio.engine.families.kyutai.speakers import read_prefix
from studio.engine.vocoders.mimi import MimiConfig, encode_prefix, load_mimi
from studio.engine.voices import Voice
from studio.text.normalise import best

ORACLE = ORACLES / "kyutai_prefixed"
PUBLISHED: dict[str, Any] = json.loads((ORACLE / "published.json").read_text())
VALUES: dict[str, Any] = json.loads((ORACLE / "tiny.json").read_text())
TINY = tiny_config("kyutai_prefixed")
STRENGTHS = {"plain": 1.0, "guided": 2.0}
SETTINGS = KyutaiSettings(DELAY, 2, (1.0, 2.0), is_prefixed=True)
FORCED = DELAY + max(TINY.delays)
# The config.json of kyutai/tts-0.75b-en-public, in its order.
CONFIG: dict[str, Any] = {
    "card": 2048,
    "n_q": 16,
    "dep_q": 16,
    "delays": [0, 0, *[2] * 15],
    "dim": 1024,
    "text_card": 8000,
    "existing_text_padding_id": 3,
    "num_heads": 16,
    "num_layers": 24,
    "hidden_scale": 4.125,
    "causal": True,
    "layer_scale": None,
    "context": 500,
    "max_period": 10000,
    "gating": "silu",
    "norm": "rms_norm_f32",
    "positional_embedding": "rope",
    "depformer_dim": 1024,
    "depformer_num_heads": 16,
    "depformer_num_layers": 4,
    "depformer_dim_feedforward": 3072,
    "depformer_multi_linear": True,
    "depformer_pos_emb": "none",
    "depformer_weights_per_step": True,
    "depformer_low_rank_embeddings": 128,
    "demux_second_stream": True,
    "text_card_out": 5,
    "conditioners": {},
    "fuser": {
        "cross_attention_pos_emb": False,
        "cross_attention_pos_emb_scale": 1,
        "sum": [],
        "prepend": [],
        "cross": [],
    },
    "cross_attention": False,
    "tts_config": {"audio_delay": 1.28, "second_stream_ahead": 2},
    "model_id": {"sig": "d6ef30c7", "epoch": 1000},
    "depformer_weights_per_step_schedule": [*range(8), *[8] * 8],
    "model_type": "tts",
    "lm_gen_config": {"temp": 0.6, "text_temp": 0.6},
    "tokenizer_name": "tokenizer_spm_8k_en_fr_audio.model",
    "mimi_name": "tokenizer-e351c8d8-checkpoint125.safetensors",
    "moshi_name": "dsm_tts_d6ef30c7@1000.safetensors",
}


@pytest.fixture(scope="module", params=FORMS)
def net(request: pytest.FixtureRequest) -> KyutaiNet:
    return tiny_net("kyutai_prefixed", request.param)


@pytest.fixture(scope="module")
def reference() -> dict[str, Tensor]:
    return load_file(ORACLE / "reference.safetensors")


def relative_error(found: Tensor, expected: Tensor) -> float:
    return float((found - expected).norm() / expected.norm())


def prefix_of(reference: dict[str, Tensor], row: int) -> np.ndarray:
    return np.ascontiguousarray(reference[f"prefix_{row}"].T.numpy())


def test_both_transformers_are_kyutais(net: KyutaiNet, reference: dict[str, Tensor]) -> None:
    tokens = reference["tokens"].transpose(1, 2)
    hidden, logits = net.advance(tokens, net.init_state(2), torch.arange(2))
    assert relative_error(hidden, reference["hidden"]) < 1e-5 > relative_error(logits, reference["text_logits"])
    seen = list[Tensor]()

    def given(codebook: int, logits: Tensor) -> Tensor:
        seen.append(logits)
        return flat[:, 1 + codebook]

    flat = tokens.flatten(0, 1)
    net.depth(reference["hidden"].flatten(0, 1), flat[:, 0], given)
    expected = reference["logits"].permute(0, 2, 1, 3).flatten(0, 1)  # of [B, K, T, card]
    assert relative_error(torch.stack(seen, 1), expected) < 1e-5


@pytest.mark.parametrize("row", [0, 1])
@pytest.mark.parametrize("kind", STRENGTHS)
@pytest.mark.parametrize("is_late", [False, True])
@pytest.mark.parametrize("is_padded", [False, True])
def test_an_utterance_after_a_recording_is_kyutais(
    net: KyutaiNet, reference: dict[str, Tensor], kind: str, row: int, is_late: bool, is_padded: bool
) -> None:
    """With and without guidance, words at once or late, on a CPU and in a padded batch as on a GPU."""
    slots = KyutaiSlots(net, 5, 0, FORCED)
    for ring in slots.state.rings:
        ring[:] = torch.nan
    if is_padded:
        for ring in slots.state.rings:
            ring[4] = 0
    module, spoken = KyutaiModule(net, SETTINGS, (), slots, 4 if is_padded else None), SPEECH["words"][row]
    prefix = prefix_of(reference, row)
    one = new_row(spoken, prefix=prefix, cfg=str(STRENGTHS[kind]))
    fed, frames, events = speak(module, slots, (1, 3), one, len(spoken), is_late=is_late)
    expected = {name.partition(".")[2]: tensor for name, tensor in reference.items() if name.startswith(kind)}
    steps = len(prefix)
    end = int(expected["ends"][row]) - steps
    starts = [event.sample // TIME_BASE.frame_samples for event in events if isinstance(event, ev.WordStart)]
    ends = [event.sample // TIME_BASE.frame_samples for event in events if isinstance(event, ev.WordEnd)]
    begun = [step - steps for step in expected[f"begun_{row}"].tolist()]
    assert (starts, ends) == (begun, [*begun[1:], end]), "words count from the recording's end"
    assert fed[:end] == expected["fed"][row, steps : steps + end].tolist()
    assert (expected["fed"][row, :steps] == -1).all()
    sound = expected["frames"][row, :, DELAY:]
    assert np.array_equal(sound[:, :steps], prefix.T), "Kyutai's frames begin with the recording, which is not played"
    assert len(frames) == end + 2 and np.array_equal(np.stack(frames, 1), sound[:, steps : steps + len(frames)])


def test_rows_of_a_batch_do_not_depend_on_each_other(net: KyutaiNet, reference: dict[str, Tensor]) -> None:
    """Two rows, one of them without guidance, and a second passage in a used slot."""
    found = list[list[KyutaiOutput]]()
    for spare in (None, 6):
        slots = KyutaiSlots(net, 7, 0, FORCED)
        module = KyutaiModule(net, SETTINGS, (), slots, spare)
        if spare is not None:
            assert len(module.capture_steps()) == 2 * 3, "sizes 1, 2 and 4, of three rows, without and with sound"
            for capture in module.capture_steps():
                capture()
        outputs = list[KyutaiOutput]()
        for at in range(2 * FORCED + 6):
            step = at % (FORCED + 3)
            inputs = [
                KyutaiInput(step, at, step >= DELAY, PAD, 4, 0, 1.0 + row, 0.4, 7 + row, prefix_of(reference, row))
                for row in (0, 1)
            ]
            outputs += module.run(slots, [(0, 3), (1, 4)], inputs)
        found.append(outputs)
    for alone, together in zip(*found, strict=True):
        assert np.array_equal(alone.codes, together.codes) and alone.begins == together.begins
        assert alone.is_finite and together.is_finite and abs(alone.p_word - together.p_word) < 1e-4


def test_few_recordings_are_kept(net: KyutaiNet, reference: dict[str, Tensor]) -> None:
    slots = KyutaiSlots(net, 2, 0, FORCED)
    module, first = KyutaiModule(net, SETTINGS, (), slots, None), list[np.ndarray]()
    for number in [*range(12), 0]:
        prefix = (prefix_of(reference, 0) + number) % TINY.card
        given = KyutaiInput(0, 0, False, PAD, 4, 0, 1.0, 0.0, 1, prefix)
        module.run(slots, [(0, 1)], [given])
        first.append(slots.state.rings[0][0].numpy().copy())
    assert np.array_equal(first[0], first[-1]) and not np.array_equal(first[0], first[1])


def test_the_published_configuration_is_read() -> None:
    written = json.dumps(CONFIG, indent=2).encode()  # is the published file, bit for bit
    assert hashlib.sha256(written).hexdigest() == "e223561b96b7310626c9164518541918d8315a03f7db0dfdab274260d720aa24"
    config = KyutaiConfig.read_published(CONFIG)
    assert (config.n_q, config.dim, config.num_layers, config.text_card_out) == (16, 1024, 24, 5)
    assert not config.cross_attention and config.depth_sets == 9
    settings = KyutaiSettings.read(CONFIG)
    assert settings == KyutaiSettings(16, 2, (1.0, 1.5, 2.0, 2.5, 3.0, 3.5, 4.0), is_prefixed=True)
    assert settings.options()[0].default == "2"


def test_names_and_shapes_are_the_published_ones() -> None:
    with torch.device("meta"):
        net = KyutaiLM(KyutaiConfig.read_published(CONFIG))
    assert {name: list(one.shape) for name, one in net.state_dict().items()} == {
        name: shape for name, (_, shape) in PUBLISHED.items()
    }


def test_published_names_make_a_file_of_the_published_size() -> None:
    """``dsm_tts_d6ef30c7@1000.safetensors`` has 1,560,040,168 bytes."""
    shapes = {name: shape for name, (_, shape) in PUBLISHED.items()}
    assert file_bytes(shapes, {name: dtype for name, (dtype, _) in PUBLISHED.items()}) == 1_560_040_168


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"cross_attention": True}, "conditioners are others than speaker_wavs, cfg, control"),
        ({"conditioners": {"cfg": {}}}, "conditioners are others than none"),
        ({"text_card_out": 3}, "text_card_out cannot be 3"),
        ({"cross_attention": 0}, "cross_attention cannot be 0"),
    ],
)
def test_a_configuration_of_another_model_is_refused(change: dict[str, Any], says: str) -> None:
    with pytest.raises(BadVoice, match=says):
        KyutaiConfig.read_published(VALUES | change)


def test_weights_of_another_model_are_refused(tmp_path: Path) -> None:
    with pytest.raises(BadVoice, match=r"has unknown condition_provider\.conditioners\.cfg"):
        load_kyutai_lm(ORACLES / "kyutai_lm" / "tiny.safetensors", TINY)
    weights = load_file(ORACLE / "tiny.safetensors")
    save_file(weights | {"text_linear.weight": torch.zeros(12, 16)}, tmp_path / "wide.safetensors")
    with pytest.raises(BadVoice, match=r"text_linear\.weight in .* has the shape \[12, 16\], not \[5, 16\]"):
        load_kyutai_lm(tmp_path / "wide.safetensors", TINY)
    whole_numbers = {"linears.0.weight": weights["linears.0.weight"].int()}
    save_file(weights | whole_numbers, tmp_path / "whole.safetensors")
    with pytest.raises(BadVoice, match=r"linears\.0\.weight in .* is I32, not one of F32, BF16, F16"):
        load_kyutai_lm(tmp_path / "whole.safetensors", TINY)
    del weights["out_norm.alpha"]
    save_file(weights, tmp_path / "less.safetensors")
    with pytest.raises(BadVoice, match=r"lacks out_norm\.alpha"):
        load_kyutai_lm(tmp_path / "less.safetensors", TINY)


def test_a_prefix_is_read(tmp_path: Path) -> None:
    codes = torch.randint(8, (4, 20), dtype=torch.int32)
    save_file({"codes": codes}, tmp_path / "voice.safetensors")
    found = read_prefix(tmp_path / "voice.safetensors", 4, 8)
    assert found.dtype == np.int64 and found.flags.c_contiguous and np.array_equal(found, codes.T.numpy())


@pytest.mark.parametrize(
    ("content", "says"),
    [
        ({"codes": torch.zeros(4, 11, dtype=torch.int32)}, r"I32 of \[4, S\] with S from 12 to 250"),
        ({"codes": torch.zeros(4, 251, dtype=torch.int32)}, r"is I32 of shape \[4, 251\]"),
        ({"codes": torch.zeros(5, 20, dtype=torch.int32)}, r"of shape \[5, 20\]"),
        ({"codes": torch.zeros(1, 4, 20, dtype=torch.int32)}, r"of shape \[1, 4, 20\]"),
        ({"codes": torch.zeros(4, 20)}, "is F32 of shape"),
        ({"codes": torch.full((4, 20), 8, dtype=torch.int32)}, "codes that are not below 8"),
        ({"codes": torch.full((4, 20), -1, dtype=torch.int32)}, "codes that are not below 8"),
        ({"speaker_wavs": torch.zeros(1, 6, 3)}, "holds no codes"),
    ],
)
def test_a_prefix_that_does_not_fit_is_refused(content: dict[str, Tensor], says: str, tmp_path: Path) -> None:
    save_file(content, tmp_path / "voice.safetensors")
    with pytest.raises(BadVoice, match=says):
        read_prefix(tmp_path / "voice.safetensors", 4, 8)
    with pytest.raises(BadVoice, match="there is no file"):
        read_prefix(tmp_path / "absent.safetensors", 4, 8)


def frames_of(voice: Voice, speaker: int) -> np.ndarray:
    """The codes of a text."""
    row, frames = voice.open(speaker, {"cfg": "2", "padding": 1}, 0.6, 5), list[np.ndarray]()
    row.commit("it is the old wall".split())
    row.end()
    while (given := row.next_input()) is not None:
        (output,) = voice.family.modules["step"].run(voice.family.slots, [row.slots], [given.inputs])
        frames += [*row.on_output(output).frames]
    voice.release(row)
    return np.stack(frames)


def recording(length_s: float) -> np.ndarray:
    times = np.arange(int(24_000 * length_s)) / 24_000
    return (0.3 * np.sin(2 * np.pi * (200 + 90 * times) * times)).astype(np.float32)


def test_a_recording_becomes_a_speaker_of_a_loaded_voice(tmp_path: Path) -> None:
    with closing(tiny_engine(tmp_path, 2, family=PREFIXED)) as engine:
        voice = engine.voice("tiny")
        family = voice.family
        assert isinstance(family, KyutaiFamily)
        prefix = family.reference_from(recording(3.0), ()).tensors["codes"]
        assert prefix.shape == (36, 4) and prefix.dtype == np.int64, "two of 38 frames are cut"
        codec = load_mimi(tmp_path / "tiny" / "mimi.safetensors", MimiConfig.read(voice.card.vocoders["mimi"]))
        assert np.array_equal(prefix, encode_prefix(codec, recording(3.0), 4)), "as before the voice's codec was set up"
        number = family.add_reference({"codes": prefix})
        assert number == 2 and np.array_equal(family.prompt(number), prefix)
        added = frames_of(voice, number)
        assert np.array_equal(added, frames_of(voice, number)) and len(added)
        other = frames_of(voice, 0)
        assert len(other) != len(added) or not np.array_equal(other, added)
        assert np.array_equal(frames_of(voice, family.add_reference({"codes": family.prompt(0)})), other), (
            "as from its file"
        )
        with pytest.raises(BadRecording, match=r"lasts 0\.5 s; give 1\.1 to 20 s of one speaker"):
            family.reference_from(recording(0.5), ())
        for wrong in (prefix[:3], prefix[:, :3], prefix + 16, prefix[None], np.tile(prefix, (7, 1))):
            with pytest.raises(BadVoice, match=r"the recording (has frames of shape|holds codes)"):
                family.add_reference({"codes": wrong})


def test_a_recording_is_no_speaker_of_a_model_that_attends_to_its_speaker(tmp_path: Path) -> None:
    for family, takes in (("kyutai", False), (PREFIXED, True)):
        with closing(tiny_engine(tmp_path / family, 2, family=family)) as engine:
            assert [one.name for one in engine.recomputer().speakers().voices()] == (["tiny"] if takes else [])


def test_a_user_adds_a_speaker_from_a_recording_without_its_text(tmp_path: Path) -> None:
    wanted = SpeakerRequest("tiny", "eve", "", recording(3.0), 24_000, "0" * 64, has_consent=True)
    write_tiny_voice(tmp_path / "voices", family=PREFIXED)
    opened = partial(open_engine, tmp_path / "voices", best(), "cpu", slots=2, speakers=tmp_path / "speakers")
    with closing(opened()) as engine:
        added = engine.recomputer().speakers().add(wanted)
        assert added.length_s == 3.0
        spoken = speak_once(engine, SpeakRequest("tiny:eve"), "It is the old wall.")
        assert spoken.meta[REFERENCE]["consent_at"] == added.consent_at
        other = speak_once(engine, SpeakRequest("tiny"), "It is the old wall.")
        assert not np.array_equal(spoken.pcm, other.pcm)
    with closing(opened()) as engine:
        again = speak_once(engine, SpeakRequest("tiny:eve"), "It is the old wall.")
        assert np.array_equal(again.pcm, spoken.pcm)
