"""A folder as Kyutai publishes it, made of the tiny models of ``tests/oracles``: words in, samples out."""

import io
import json
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from sentencepiece import SentencePieceTrainer
from torch import Tensor

from studio.core.errors import BadVoice
from studio.engine.families.kyutai.checkpoint import open_checkpoint
from studio.engine.vocoders.mimi import MimiConfig, load_mimi
from studio.engine.vocoders.mimi_cpu import CpuMimi, MimiArrays

ORACLES = Path(__file__).parents[1] / "oracles"
NAMES = {
    "moshi_name": "dsm_tts_tiny@1.safetensors",
    "mimi_name": "mimi.safetensors",
    "tokenizer_name": "tokenizer.model",
}
VALUES: dict[str, Any] = {
    **json.loads((ORACLES / "kyutai_lm" / "tiny.json").read_text()),
    **NAMES,
    "tts_config": {"audio_delay": 0.4, "second_stream_ahead": 2},
}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    shutil.copy(ORACLES / "kyutai_lm" / "tiny.safetensors", tmp_path / NAMES["moshi_name"])
    shutil.copy(ORACLES / "mimi" / "tiny.safetensors", tmp_path / NAMES["mimi_name"])
    model = io.BytesIO()
    SentencePieceTrainer.train(
        sentence_iterator=iter(["aa b ab ba"] * 20),
        model_writer=model,
        vocab_size=8,
        pad_id=3,
        minloglevel=2,
    )
    (tmp_path / NAMES["tokenizer_name"]).write_bytes(model.getvalue())
    (tmp_path / "config.json").write_text(json.dumps(VALUES))
    return tmp_path


def most_probable(logits: Tensor) -> Tensor:
    return logits.argmax(-1)


def test_words_become_samples_while_later_words_are_awaited(folder: Path) -> None:
    checkpoint = open_checkpoint(folder, dtype=torch.float32)
    assert checkpoint.delay_steps == 5
    mimi = load_mimi(checkpoint.mimi_path, MimiConfig.read(json.loads((ORACLES / "mimi" / "tiny.json").read_text())))
    cpu, slots = CpuMimi(mimi), MimiArrays(mimi.init_state(1))
    stream, policy = checkpoint.begin([ORACLES / "kyutai_lm" / "voice_0.safetensors"], most_probable, 1.5)
    words, chunks, early = "ab ba aa ab aa b ab ba aa b".split(), list[np.ndarray](), 0
    while not stream.is_over:
        while not policy.can_step and not policy.ended:
            if words:
                for tokens in checkpoint.text.encode(words.pop(0)):
                    policy.commit(tokens)
            else:
                policy.end()
        frame = stream.step()
        if frame is not None:
            chunks.append(cpu.step(frame[None, None].numpy(), slots, np.zeros(1, np.int64)))
            early += bool(words)
    pcm = np.concatenate(chunks, 1)
    assert len(policy.begun) == 10 and early > 0, "sound came before the last word did"
    assert pcm.shape == (1, len(chunks) * mimi.config.frame_samples) and np.isfinite(pcm).all() and pcm.std() > 0.01


@pytest.mark.parametrize(
    ("change", "says"),
    [
        (
            {"moshi_name": "../other.safetensors"},
            r"moshi_name is '\.\./other\.safetensors', which is no name of a file",
        ),
        ({"moshi_name": "absent.safetensors"}, r"absent\.safetensors is no file"),
        ({"tokenizer_name": None}, "tokenizer_name is None"),
        ({"tts_config": {"second_stream_ahead": 2}}, "audio_delay in .* is no time"),
        ({"tts_config": {"audio_delay": 1.28, "second_stream_ahead": "2"}}, "second_stream_ahead is no number"),
        ({"tts_config": {"audio_delay": 1.28}}, "contradict each other"),
        ({"gating": "gelu"}, "gating is 'gelu'"),
    ],
)
def test_a_folder_of_another_model_is_refused(folder: Path, change: dict[str, Any], says: str) -> None:
    (folder / "config.json").write_text(json.dumps(VALUES | change))
    with pytest.raises(BadVoice, match=says):
        open_checkpoint(folder)


@pytest.mark.parametrize("content", ["[]", "{", "[" * 100_000, None])
def test_a_damaged_configuration_is_refused(folder: Path, content: str | None) -> None:
    (folder / "config.json").unlink()
    if content is not None:
        (folder / "config.json").write_text(content)
    with pytest.raises(BadVoice, match=r"config\.json"):
        open_checkpoint(folder)
