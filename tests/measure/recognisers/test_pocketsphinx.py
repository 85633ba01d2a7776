"""The aligner on real recordings (LJSpeech) and on a teacher that prints where its words end."""

import shutil
import subprocess

import numpy as np
import pytest
from needs import needs

from studio.core.sound_files import read_mono
from studio.measure.recognisers.pocketsphinx import PocketSphinx, align_all, dictionary_words
from studio.measure.word_timing import boundary_score


@pytest.fixture(scope="module")
def recogniser():
    return PocketSphinx()


def test_words_of_a_recording_are_in_order_and_inside_it(clips, recogniser):
    for text, pcm, rate_hz in clips:
        words = recogniser.align(pcm, rate_hz, text)
        assert words is not None
        assert len(words) == len(text.replace("-", " ").split())
        edges = [edge for word in words for edge in (word.start_s, word.end_s)]
        assert edges == sorted(edges)
        assert edges[-1] <= len(pcm) / rate_hz + 0.02
        voiced = [0.03 < word.end_s - word.start_s < 1.3 for word in words]
        assert np.mean(voiced) > 0.95


def test_inserted_pause_moves_the_words_after_it(clips, recogniser):
    text, pcm, rate_hz = clips[1]
    before = recogniser.align(pcm, rate_hz, text)
    cut = int(before[3].end_s * rate_hz)
    after = recogniser.align(np.concatenate([pcm[:cut], np.zeros(rate_hz // 2, np.int16), pcm[cut:]]), rate_hz, text)
    assert before[2].end_s == pytest.approx(after[2].end_s, abs=0.03)
    assert after[-1].end_s - before[-1].end_s == pytest.approx(0.5, abs=0.03)


@pytest.mark.parametrize(
    "text, words",
    [
        ("Printing, in the ONLY sense!", ["printing", "in", "the", "only", "sense"]),
        (
            "It\u2019s the rock 'n' roll of well-known dogs'",
            ["it's", "the", "rock", "n", "roll", "of", "well", "known", "dogs"],
        ),
        ("  ...  ", []),
    ],
)
def test_words_in_dictionary_spelling(text, words):
    assert dictionary_words(text) == words


def test_unalignable_text_gives_none(clips, recogniser):
    text, pcm, rate_hz = clips[0]
    assert recogniser.unknown("the schoeffer book") == ["schoeffer"]
    assert recogniser.align(pcm, rate_hz, "the schoeffer book") is None
    assert recogniser.align(pcm, rate_hz, "") is None
    assert recogniser.align(pcm[:0], rate_hz, text) is None
    assert recogniser.align(pcm[: rate_hz // 10], rate_hz, text) is None
    assert align_all([(pcm[:0], rate_hz)], [text]) == [None]


def test_aligner_agrees_with_the_phones_of_flite(tmp_path, recogniser):
    needs(shutil.which("flite"), "flite (apt-get install flite)")
    text = "the farmer sold seven brown horses at the market"
    wav = tmp_path / "a.wav"
    command = ["flite", "-voice", "rms", "-t", text, "-psdur", "-o", str(wav)]
    printed = subprocess.run(command, capture_output=True, text=True, check=True).stdout.split()
    phones = [(one.rpartition(":")[0], float(one.rpartition(":")[2])) for one in printed]
    words = recogniser.align(*read_mono(wav), text)
    ends = [end for name, end in phones]
    score = boundary_score([word.end_s for word in words], ends, 0.03)
    assert score.precision >= 0.75, "ends of words are not ends of phones"
    last = next(end for name, end in reversed(phones) if name != "pau")
    assert words[-1].end_s == pytest.approx(last, abs=0.2)
