"""Speakers and guidance of Kyutai's models against Kyutai's own code (``make_kyutai_lm.py``)."""

import json
from pathlib import Path
from typing import Any, cast

import pytest
import torch
from safetensors.torch import load_file, save_file
from torch import Tensor

from studio.core.errors import BadOption, BadVoice
from studio.engine.families.kyutai.config import KyutaiConfig
from studio.engine.families.kyutai.model import BackboneBlock, load_kyutai_lm
from studio.engine.families.kyutai.speakers import read_labels, read_speakers

ORACLE = Path(__file__).parents[2] / "oracles" / "kyutai_lm"
VALUES: dict[str, Any] = json.loads((ORACLE / "tiny.json").read_text())
WIDTH = 6
VOICES = [ORACLE / "voice_0.safetensors", ORACLE / "voice_1.safetensors"]


def test_speakers_and_guidance_are_kyutais_conditions() -> None:
    net = load_kyutai_lm(ORACLE / "tiny.safetensors", KyutaiConfig.read_published(VALUES), torch.float32)
    reference = load_file(ORACLE / "reference.safetensors")
    vectors, present = read_speakers(VOICES, WIDTH)
    assert vectors.shape == (1, 15, WIDTH) and present.tolist() == [[True] * 6 + [False] * 9]
    torch.testing.assert_close(net.offset(read_labels((1.0, 1.5, 2.0), 2.0)), reference["sum"])
    expected = cast(BackboneBlock, net.transformer.layers[1]).cross_attention.keys_values(reference["cross"])
    for found, wanted in zip(net.attend(vectors, present)[1], expected, strict=True):
        torch.testing.assert_close(found, wanted)


def test_one_to_five_speakers_are_given() -> None:
    for count in (0, 6):
        with pytest.raises(BadOption, match=f"{count} speakers were given; give 1 to 5"):
            read_speakers(VOICES[:1] * count, WIDTH)


@pytest.mark.parametrize(
    ("content", "says"),
    [
        ({"speaker_wavs": torch.zeros(1, 7, 3)}, r"F32 of shape \[1, 7, 3\], not F32 of \[1, 6, S\]"),
        ({"speaker_wavs": torch.zeros(6, 3)}, r"of shape \[6, 3\]"),
        ({"speaker_wavs": torch.zeros(1, 6, 1001)}, "of shape"),
        ({"speaker_wavs": torch.zeros(1, 6, 3, dtype=torch.int32)}, "is I32"),
        ({"speaker_wavs": torch.full((1, 6, 3), float("nan"))}, "not finite"),
        ({"speaker_wavs": torch.zeros(1, 6, 4)}, "another number of vectors"),
        ({"other": torch.zeros(1)}, "holds no speaker_wavs"),
    ],
)
def test_a_file_that_does_not_fit_is_refused(content: dict[str, Tensor], says: str, tmp_path: Path) -> None:
    save_file(content, tmp_path / "voice.safetensors")
    with pytest.raises(BadVoice, match=says):
        read_speakers([VOICES[0], tmp_path / "voice.safetensors"], WIDTH)


def test_a_missing_file_is_refused(tmp_path: Path) -> None:
    with pytest.raises(BadVoice, match="there is no file"):
        read_speakers([tmp_path / "absent.safetensors"], WIDTH)
