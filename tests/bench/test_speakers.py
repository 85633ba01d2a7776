"""A teacher's speakers are measured: what is printed is what was put in."""

import numpy as np
import pytest
from train.fake_kokoro import FakeKokoro

from studio.bench.evaluation.speakers import bands_db, compare_speakers
from studio.core.errors import BadText
from studio.measure.signal.loudness import active_level_db
from studio.train.teachers.kokoro import Kokoro

TEXTS = ["The old harbour was quiet.", "Nobody came at all, I think."]


@pytest.fixture
def teacher() -> Kokoro:
    teacher = Kokoro()
    teacher.__dict__["net"] = FakeKokoro()
    return teacher


def test_figures_of_speakers(teacher, capsys):
    heard = iter([TEXTS, ["The old harbour was quite.", TEXTS[1]]])
    levels = []

    def predict(pcm, rate_hz):
        levels.append(active_level_db(pcm, rate_hz))
        return 4.0 + 0.1 * (len(levels) % 2)

    figures = compare_speakers(teacher, ["af_heart", "am_michael"], TEXTS, lambda sounds: next(heard), predict)
    first, second = figures["speakers"]
    assert (first["speaker"], first["texts"], first["wer"]) == ("af_heart", 2, 0.0)
    assert second["wer"] == pytest.approx(1 / 11)
    assert first["mos"] == pytest.approx(4.05) and first["mos_least"] == pytest.approx(4.0)
    assert first["gain_db"] == pytest.approx(-18 - np.mean(levels[:2]))
    assert 1 < first["words_each_s"] < 12 and first["pitch_hz"][1] <= first["pitch_hz"][0] <= first["pitch_hz"][2]
    assert "af_heart" in capsys.readouterr().out


def test_bands_are_measured_against_speech():
    """Two equal tones: the one at 5 kHz stands as high in its band of 2 kHz as 1 kHz in the 2.7 kHz of speech."""
    at = np.arange(48_000) / 24_000
    sound = 0.1 * np.sin(2 * np.pi * 1000 * at) + 0.1 * np.sin(2 * np.pi * 5000 * at)
    four, *rest = bands_db(sound, 24_000)
    assert four == pytest.approx(10 * np.log10(2.7 / 2.0), abs=0.3)
    assert max(rest) < -60


def test_a_speaker_that_says_nothing(teacher):
    with pytest.raises(BadText, match="af_heart"):
        compare_speakers(teacher, ["af_heart"], ["漢字"], lambda sounds: [], lambda pcm, rate_hz: 0.0)
