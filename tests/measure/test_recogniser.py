"""The recogniser and aligner on real recordings (LJSpeech) and on a teacher that prints where its words end."""

import shutil
import subprocess
import sys

import numpy as np
import pytest
from needs import data_folder, needs

from studio.core.clips import read_wav, to_int16
from studio.measure.boundaries import boundary_score
from studio.measure.recogniser import RATE_HZ, Recogniser, align_all, at_16k, transcribe_all
from studio.measure.wer import corpus_errors, word_errors

CLIPS = ("LJ001-0002", "LJ001-0004", "LJ001-0006")


@pytest.fixture(scope="module")
def clips():
    """(text, int16 samples, rate) of three real recordings whose words are all in the dictionary."""
    folder = data_folder()
    soundfile = pytest.importorskip("soundfile")
    lines = (folder / "ljspeech_sentences.txt").read_text(encoding="utf-8").splitlines()
    texts = dict(line.split("|", 1) for line in lines)
    out = []
    for name in CLIPS:
        samples, rate_hz = soundfile.read(folder / "ljspeech_clips" / f"{name}.flac")
        out.append((texts[name], to_int16(samples), rate_hz))
    return out


@pytest.fixture(scope="module")
def recogniser():
    return Recogniser()


def test_real_speech_is_mostly_understood_in_any_order_and_process(clips, recogniser):
    sounds = [(pcm, rate_hz) for _, pcm, rate_hz in clips]
    heard = [recogniser.transcribe(*sound) for sound in sounds]
    assert corpus_errors([word_errors(text, words) for (text, *_), words in zip(clips, heard, strict=True)]).rate < 0.4
    assert recogniser.transcribe(*sounds[0]) == heard[0], "an answer depends on what came before"
    done = []
    assert transcribe_all(sounds, workers=2, on_done=lambda: done.append(1)) == heard
    assert len(done) == len(sounds)


def test_words_of_a_real_recording_lie_in_order_and_inside_it(clips, recogniser):
    for text, pcm, rate_hz in clips:
        words = recogniser.align(pcm, rate_hz, text)
        assert words is not None
        assert len(words) == len(text.replace("-", " ").split())
        edges = [edge for word in words for edge in (word.start_s, word.end_s)]
        assert edges == sorted(edges)
        assert edges[-1] <= len(pcm) / rate_hz + 0.02
        voiced = [0.03 < word.end_s - word.start_s < 1.3 for word in words]
        assert np.mean(voiced) > 0.95


def test_a_pause_put_into_a_recording_moves_the_words_after_it(clips, recogniser):
    text, pcm, rate_hz = clips[1]
    before = recogniser.align(pcm, rate_hz, text)
    cut = int(before[3].end_s * rate_hz)
    after = recogniser.align(np.concatenate([pcm[:cut], np.zeros(rate_hz // 2, np.int16), pcm[cut:]]), rate_hz, text)
    assert before[2].end_s == pytest.approx(after[2].end_s, abs=0.03)
    assert after[-1].end_s - before[-1].end_s == pytest.approx(0.5, abs=0.03)


def test_what_cannot_be_aligned_is_none(clips, recogniser):
    text, pcm, rate_hz = clips[0]
    assert recogniser.unknown("the schoeffer book") == ["schoeffer"]
    assert recogniser.align(pcm, rate_hz, "the schoeffer book") is None
    assert recogniser.align(pcm, rate_hz, "") is None
    assert recogniser.align(pcm[:0], rate_hz, text) is None
    assert recogniser.align(pcm[: rate_hz // 10], rate_hz, text) is None
    assert align_all([(pcm[:0], rate_hz)], [text]) == [None]


def test_silence_has_no_words(recogniser):
    assert recogniser.transcribe(np.zeros(0, np.int16), RATE_HZ) == ""
    assert len(recogniser.transcribe(np.zeros(RATE_HZ, np.int16), RATE_HZ).split()) <= 1


def test_the_aligner_agrees_with_flite_which_prints_its_phones(tmp_path, recogniser):
    needs(shutil.which("flite"), "flite (apt-get install flite)")
    text = "the farmer sold seven brown horses at the market"
    wav = tmp_path / "a.wav"
    command = ["flite", "-voice", "rms", "-t", text, "-psdur", "-o", str(wav)]
    printed = subprocess.run(command, capture_output=True, text=True, check=True).stdout.split()
    phones = [(one.rpartition(":")[0], float(one.rpartition(":")[2])) for one in printed]
    words = recogniser.align(*read_wav(wav), text)
    ends = [end for name, end in phones]
    score = boundary_score([word.end_s for word in words], ends, 0.03)
    assert score.precision >= 0.75, "word ends are not where phones end"
    last = next(end for name, end in reversed(phones) if name != "pau")
    assert words[-1].end_s == pytest.approx(last, abs=0.2)


@pytest.mark.parametrize("rate_hz", [8000, 22050, 24000, 48000])
def test_resampling_keeps_tones_times_and_lengths(rate_hz):
    count = rate_hz // 2 + 7
    at_s = np.arange(count) / rate_hz
    tone = (10000 * np.sin(2 * np.pi * 1000 * at_s) * np.hanning(count)).astype(np.int16)
    out = at_16k(tone, rate_hz)
    assert out.dtype == np.int16
    assert abs(len(out) - count * RATE_HZ / rate_hz) <= 1
    times_s = np.arange(len(out)) / RATE_HZ
    wanted = 10000 * np.sin(2 * np.pi * 1000 * times_s) * np.interp(times_s, at_s, np.hanning(count))
    assert np.abs(out - wanted).max() < 20


def test_importing_measure_loads_no_torch():
    names = ["wer", "recogniser", "boundaries", "spectral", "seams", "loudness", "latency", "report"]
    code = f"import sys; [__import__('studio.measure.' + n) for n in {names}]; print('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout == "False\n"
