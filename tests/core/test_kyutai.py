"""What Kyutai's ``config.json`` says of how a model speaks."""

import json
from pathlib import Path
from typing import Any

import pytest

from studio.core.errors import BadVoice
from studio.core.kyutai import PUBLISHED, KyutaiSettings

TINY: dict[str, Any] = json.loads((Path(__file__).parents[1] / "oracles" / "kyutai_lm" / "tiny.json").read_text())
VALUES = TINY | {"tts_config": {"audio_delay": 1.28, "second_stream_ahead": 2}}


def test_settings_are_read() -> None:
    assert KyutaiSettings.read(VALUES) == KyutaiSettings(16, 2, (1.0, 1.5, 2.0))
    guidance, padding = KyutaiSettings.read(VALUES).options()
    assert guidance.choices == ("1", "1.5", "2") and guidance.default == "2" and padding.default == 1
    assert [one.name for one in PUBLISHED.options()] == ["cfg", "padding", "language"]
    named = KyutaiSettings.read(VALUES | {"tokenizer_name": "tokenizer_spm_8k_en_fr_audio.model"})
    assert named.languages == ("en", "fr") and named.options()[2].choices == ("en", "fr")
    assert KyutaiSettings.read(VALUES | {"tokenizer_name": "spm_fr.model"}).languages == ("fr",)
    assert PUBLISHED.options()[0].choices == ("1", "1.5", "2", "2.5", "3", "3.5", "4")
    alone = KyutaiSettings.read(VALUES | {"tts_config": {"audio_delay": 0}, "demux_second_stream": False})
    assert (alone.delay_steps, alone.look_ahead_words) == (0, 0)


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"tts_config": {"second_stream_ahead": 2}}, "audio_delay is None, no time up to 10"),
        ({"tts_config": {"audio_delay": -1}}, "audio_delay is -1"),
        ({"tts_config": 3}, "audio_delay is None"),
        ({"tts_config": {"audio_delay": 1.28, "second_stream_ahead": "2"}}, "second_stream_ahead is '2', no number"),
        ({"tts_config": {"audio_delay": 1.28}}, "contradict each other"),
        ({"conditioners": {"control": {}}}, "lists no strengths"),
        ({"conditioners": {"cfg": {"lut": {"possible_values": ["strong"]}}}}, "lists no strengths"),
        ({"conditioners": {"cfg": {"lut": {"possible_values": []}}}}, "lists 0 strengths"),
    ],
)
def test_a_configuration_of_another_model_is_refused(change: dict[str, Any], says: str) -> None:
    with pytest.raises(BadVoice, match=says):
        KyutaiSettings.read(VALUES | change)
