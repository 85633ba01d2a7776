"""Recordings with TextGrids: the layouts of LJSpeech and LibriTTS, made of a teacher's own speech."""

import shutil
from pathlib import Path

import numpy as np
import pytest
import soundfile
from needs import needs
from praatio import textgrid
from praatio.data_classes.interval_tier import IntervalTier

from studio.core.errors import BadFile
from studio.train.corpus import shards
from studio.train.corpus.recordings import import_recordings
from studio.train.features import encode_label
from studio.train.teachers.port import AlignedSpeech
from studio.train.teachers.programs import Programs

TEXTS = ["The harbour was quiet, and cold.", "Nobody came."]


@pytest.fixture(scope="module")
def taught():
    """Two sentences with their true times."""
    needs(shutil.which("festival"), "the system package festival")
    return list(Programs().speak("slt", TEXTS))


def write_grid(path: Path, made: AlignedSpeech) -> None:
    """As the Montreal Forced Aligner writes it: bare words, ARPAbet with stress, silences empty."""
    length = len(made.pcm) / made.rate_hz
    phones, at = [], 0.0
    for name, end in made.phones:
        label = "" if name == "pau" else {"ax": "AH0"}.get(name, name.upper() + ("1" if name[0] in "aeiou" else ""))
        phones.append((at, min(end, length), label))
        at = end
    words, at = [], made.phones[0][1]
    for word, end in zip(made.words, made.word_ends_s, strict=True):
        words.append((at, end, word.rstrip(",.")))
        at = end
    grid = textgrid.Textgrid()
    grid.addTier(IntervalTier("words", words, 0, length))
    grid.addTier(IntervalTier("phones", phones, 0, length))
    path.parent.mkdir(parents=True, exist_ok=True)
    grid.save(str(path), format="long_textgrid", includeBlankSpaces=True)


def test_ljspeech_with_a_metadata_file(taught, tmp_path):
    (tmp_path / "wavs").mkdir()
    for i, made in enumerate(taught):
        soundfile.write(tmp_path / "wavs" / f"LJ001-000{i}.wav", made.pcm, made.rate_hz)
        write_grid(tmp_path / "grids" / f"LJ001-000{i}.TextGrid", made)
    soundfile.write(tmp_path / "wavs" / "LJ001-0009.wav", np.zeros(9000, np.int16), 22_050)  # no TextGrid
    (tmp_path / "metadata.csv").write_text("".join(f"LJ001-000{i}|raw|{t}\n" for i, t in enumerate(TEXTS)))
    out = tmp_path / "corpus"
    assert import_recordings(tmp_path / "wavs", tmp_path / "grids", out, speaker="lj") == (2, 1)
    assert import_recordings(tmp_path / "wavs", tmp_path / "grids", out, speaker="lj") == (2, 1)
    shard = shards.shards(out)[0]
    assert shard.name == "lj-000"
    for label, made in zip(shards.labels(shard), taught, strict=True):
        assert label["words"] == made.words and label["speaker"] == "lj"
        assert np.allclose(label["word_ends_s"], made.word_ends_s, atol=1e-3)
        sentence, _ = encode_label(shard, label)
        truth = [round(e * 40) for e in made.word_ends_s]
        assert np.diff(sentence.word_ends).tolist() == np.diff(truth).tolist()
        assert 0 < sentence.phones.max() < 42 and sentence.phones[0] == 0


def test_libritts_with_texts_beside_and_a_speaker_in_the_name(taught, tmp_path):
    folder = tmp_path / "19" / "198"
    folder.mkdir(parents=True)
    for i, made in enumerate(taught):
        stem = f"19_198_{i:06}"
        soundfile.write(folder / f"{stem}.flac", made.pcm, made.rate_hz)
        (folder / f"{stem}.normalized.txt").write_text(TEXTS[i] if i == 0 else "Somebody else came.")
        write_grid(tmp_path / "grids" / "19" / f"{stem}.TextGrid", made)
    assert import_recordings(tmp_path, tmp_path / "grids", tmp_path / "corpus") == (1, 1)
    assert [p.name for p in shards.shards(tmp_path / "corpus")] == ["19-000"]


def test_mistakes_are_named(taught, tmp_path):
    with pytest.raises(BadFile, match="no WAV or FLAC"):
        import_recordings(tmp_path, tmp_path, tmp_path / "out")
    soundfile.write(tmp_path / "nameless.wav", taught[0].pcm, taught[0].rate_hz)
    with pytest.raises(BadFile, match="--speaker"):
        import_recordings(tmp_path, tmp_path, tmp_path / "out")
    (tmp_path / "nameless.txt").write_text(TEXTS[0])
    (tmp_path / "nameless.TextGrid").write_text("nonsense")
    with pytest.raises(BadFile, match="cannot be read"):
        import_recordings(tmp_path, tmp_path, tmp_path / "out", speaker="x")
