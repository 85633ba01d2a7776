"""The contract of every recogniser: pocketsphinx, whisper with a fake model, and real whisper if STUDIO_WHISPER is set.

STUDIO_WHISPER=FOLDER adds the real weights, which are not in a checkout.
"""

import json
import os
import re
import sys

import numpy as np
import pytest
from fakewhisper import FakeWhisper

from studio.core.errors import BadFile, BadOption, NeedsPackage
from studio.measure.recognisers.registry import open_aligner, open_recogniser, transcribe_all
from studio.measure.signal import RATE_HZ
from studio.measure.wer import corpus_errors, word_errors

pytestmark = pytest.mark.slow

REAL = os.environ.get("STUDIO_WHISPER")
FILES = ("model.bin", "config.json", "tokenizer.json", "vocabulary.txt")


@pytest.fixture
def weight_folder(tmp_path):
    """A folder that looks like whisper's weights."""
    for name in FILES:
        (tmp_path / name).write_bytes(name.encode())
    return tmp_path


@pytest.fixture
def fake(monkeypatch):
    """faster-whisper's model and its library's random numbers, scripted."""
    standing_in = FakeWhisper()
    monkeypatch.setattr("faster_whisper.WhisperModel", standing_in.model)
    monkeypatch.setattr("ctranslate2.set_random_seed", standing_in.set_random_seed)
    return standing_in


@pytest.fixture(params=["pocketsphinx", "whisper over a fake", *(["whisper"] if REAL else [])])
def recogniser(request):
    if request.param == "whisper over a fake":
        request.getfixturevalue("fake")
        return open_recogniser(f"whisper:{request.getfixturevalue('weight_folder')}")
    return open_recogniser(f"whisper:{REAL}" if request.param == "whisper" else request.param)


def doubtful(pcm: np.ndarray) -> np.ndarray:
    """Reversed speech with a click, which has no words."""
    backwards = pcm[::-1].copy()
    backwards[:40] = 32767
    return backwards


def test_same_sound_gives_the_same_answer_in_any_order(recogniser, clips):
    _, pcm, rate_hz = clips[0]
    before = recogniser.transcribe(pcm, rate_hz), recogniser.transcribe(doubtful(pcm), rate_hz)
    assert recogniser.transcribe(doubtful(pcm), rate_hz) == before[1]
    assert recogniser.transcribe(pcm, rate_hz) == before[0] != ""


def test_speech_is_mostly_understood_at_any_rate(recogniser, clips):
    text, pcm, rate_hz = clips[0]
    assert text.lower().startswith("in being comparatively modern")
    heard = [recogniser.transcribe(pcm, rate_hz), recogniser.transcribe(pcm[::2], rate_hz // 2)]
    assert corpus_errors([word_errors(text, one) for one in heard]).rate < 0.4


def test_silence_has_no_words(recogniser):
    assert recogniser.transcribe(np.zeros(0, np.int16), RATE_HZ) == ""
    assert len(recogniser.transcribe(np.zeros(RATE_HZ, np.int16), RATE_HZ).split()) <= 1
    assert isinstance(recogniser.transcribe(np.zeros(160, np.int16), 8000), str)


def test_words_have_times_if_the_model_gives_them(fake, weight_folder):
    pcm, rate_hz = np.random.default_rng(0).normal(0, 3000, RATE_HZ).astype(np.int16), RATE_HZ
    words = open_recogniser(f"whisper:{weight_folder}").words(pcm, rate_hz)
    assert [one.text for one in words] == ["In", "being", "comparatively", "modern."]
    assert words[0].start_s == 0.0 and all(one.end_s > one.start_s for one in words)
    assert open_recogniser(f"whisper:{weight_folder}").words(np.zeros(0, np.int16), RATE_HZ) == []
    (take,) = open_aligner(f"whisper:{weight_folder}")(pcm, rate_hz, "what is said does not matter to it")
    assert take == words


def test_recogniser_describes_itself(recogniser):
    about = recogniser.about
    assert set(about) == {"name", "version", "weights", "sha256"}
    assert re.fullmatch("[0-9a-f]{64}", about["sha256"])
    assert json.loads(json.dumps(about)) == about == recogniser.about


def test_several_processes_answer_in_order(clips):
    clips = clips[:2]
    sounds = [(pcm, rate_hz) for _, pcm, rate_hz in clips]
    alone = [open_recogniser("pocketsphinx").transcribe(*sound) for sound in sounds]
    done = []
    assert transcribe_all(sounds, "pocketsphinx", workers=2, on_done=lambda: done.append(1)) == alone
    assert len(done) == len(sounds)
    errors = [word_errors(text, heard) for (text, *_), heard in zip(clips, alone, strict=True)]
    assert corpus_errors(errors).rate < 0.4


def test_weights_are_loaded_once_and_again_only_for_doubtful_sounds(fake, weight_folder, clips):
    _, pcm, rate_hz = clips[0]
    recogniser = open_recogniser(f"whisper:{weight_folder}")
    assert fake.loads == 0
    assert recogniser.transcribe(pcm, rate_hz) == recogniser.transcribe(pcm, rate_hz)
    assert fake.loads == 1
    assert "no no" not in recogniser.transcribe(doubtful(pcm), rate_hz)
    assert fake.loads == 2


def test_weights_are_identified_by_sha256(weight_folder):
    first = open_recogniser(f"whisper:{weight_folder}").about
    (weight_folder / "model.bin").write_bytes(b"others")
    other = open_recogniser(f"whisper:{weight_folder}").about
    assert first["sha256"] != other["sha256"]
    assert first["weights"] == weight_folder.name


def test_weights_come_from_the_hub_cache_before_a_download(monkeypatch, weight_folder):
    asked = []

    def download(name, *, local_files_only=False):
        asked.append((name, local_files_only))
        if name == "small.en" and local_files_only:
            raise FileNotFoundError("not in the cache")
        return str(weight_folder)

    monkeypatch.setattr("faster_whisper.download_model", download)
    assert open_recogniser("whisper").about["weights"] == "base"
    assert open_recogniser("whisper:small.en").about["weights"] == "small.en"
    assert asked == [("base", True), ("small.en", True), ("small.en", False)]


def test_errors_say_what_to_do(monkeypatch, tmp_path, weight_folder):
    def nothing(name, *, local_files_only=False):
        raise FileNotFoundError("no hub\nsecond line")

    with pytest.raises(BadOption, match="there is no recogniser 'sphinx'; take one of whisper, pocketsphinx"):
        open_recogniser("sphinx")
    with pytest.raises(BadOption, match="takes no weights"):
        open_recogniser("pocketsphinx:small")
    with pytest.raises(BadFile, match="neither a folder nor a name"):
        open_recogniser("whisper:bse")
    with pytest.raises(BadFile, match="there is no folder"):
        open_recogniser(f"whisper:{tmp_path / 'none'}")
    (tmp_path / "empty").mkdir()
    with pytest.raises(BadFile, match=r"holds no model\.bin and no config\.json"):
        open_recogniser(f"whisper:{tmp_path / 'empty'}")
    (weight_folder / "tokenizer.json").unlink()
    with pytest.raises(BadFile, match=r"holds no tokenizer\.json"):
        open_recogniser(f"whisper:{weight_folder}")
    monkeypatch.setattr("faster_whisper.download_model", nothing)
    with pytest.raises(BadFile, match=r"cannot be fetched \(no hub\).*--recogniser pocketsphinx"):
        open_recogniser("whisper")
    monkeypatch.setitem(sys.modules, "faster_whisper", None)
    with pytest.raises(NeedsPackage, match=r"streaming-tts-studio\[eval\]"):
        open_recogniser("whisper")


def test_damaged_weights_are_named(weight_folder):
    with pytest.raises(BadFile, match="cannot be read"):
        open_recogniser(f"whisper:{weight_folder}").transcribe(np.ones(RATE_HZ, np.int16), RATE_HZ)
