"""From sentences to a fitted net with the real teachers, resumable at every stage; and corpora of recordings."""

import json
import shutil
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import soundfile
import torch
from needs import needs
from praatio import textgrid
from praatio.data_classes.interval_tier import IntervalTier

from studio.core.errors import BadFile, BadOption
from studio.core.sound_files import read_mono
from studio.train.corpus import shards, synthesis
from studio.train.corpus.shards import import_recordings
from studio.train.families.registry import training_for
from studio.train.features import encode_label, read_features, write_features
from studio.train.fit.loop import run
from studio.train.recipes.recipe import read_held_out, read_recipe
from studio.train.teachers.port import AlignedSpeech, spoken_words
from studio.train.teachers.programs import Programs, align_phones

TEXTS = Path(__file__).parents[2] / "assets" / "texts"
SENTENCES = [
    "The old harbour was quiet in the morning.",
    "She didn't answer, but she smiled at once.",
    "It's the gardener's well known trick, I'm told.",
    "Rain fell on the roof all through the night.",
    "We walked home slowly, talking of nothing.",
    "The baker opens before the sun is up.",
    "A letter came for you, but it had no stamp.",
    "Nobody knew where the music came from.",
    "He counted the coins twice and frowned.",
    "The train was late again; we waited.",
    "Open the window, please, it is warm.",
    "They planted an apple tree behind the barn.",
]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A small corpus, synthesised and encoded once."""
    for program in ("festival", "flite"):
        needs(shutil.which(program), f"the system package {program}")
    folder = tmp_path_factory.mktemp("train")
    (folder / "sentences.txt").write_text("\n".join(f"id{i}|{s}" for i, s in enumerate(SENTENCES)))
    return folder


def test_text_to_weights_resumably(folder, small):
    spoken, encoded, state = folder / "corpus", folder / "features", folder / "state"
    assert synthesis.synthesise_corpus(small, folder / "sentences.txt", TEXTS, spoken, workers=2) == 4
    assert [p.name for p in shards.shards(spoken)] == ["rms-000", "slt-000", "rms-001", "slt-001"]
    untouched = (spoken / "slt-000" / "labels.jsonl").stat().st_mtime_ns
    shutil.rmtree(spoken / "rms-001")
    (spoken / ".rms-001.part").mkdir()  # left by a stopped run
    assert synthesis.synthesise_corpus(small, folder / "sentences.txt", TEXTS, spoken, workers=1) == 4
    assert (spoken / "slt-000" / "labels.jsonl").stat().st_mtime_ns == untouched
    assert write_features(spoken, encoded, workers=2) == 4
    weights = run(training_for(small), encoded, state, torch.device("cpu"), threads=1)
    lines = [json.loads(line) for line in (state / "metrics.jsonl").read_text().splitlines()]
    assert "validation" in lines[-1] and weights.is_file()
    done = lines[-1]["step"]
    before = weights.read_bytes()
    assert (
        run(training_for(small), encoded, state, torch.device("cpu"), threads=1).read_bytes() == before
    )  # nothing left to do
    longer = small.fit.__class__(**{**vars(small.fit), "steps": 9})
    run(training_for(replace(small, fit=longer)), encoded, state, torch.device("cpu"), threads=1)
    last = json.loads((state / "metrics.jsonl").read_text().splitlines()[-1])["step"]
    assert (done, last) == (6, 9)


@pytest.mark.parametrize("speaker", ["slt", "rms"])
def test_word_ends_match_the_sound(speaker, folder):
    """Speech is loud just before the last word's end and quiet after it; ends are ordered and within the sound."""
    made = Programs().speak(speaker, SENTENCES[:4])
    for taught, text in zip(made, SENTENCES, strict=False):
        assert taught is not None and taught.text == text
        assert taught.words == spoken_words(text)
        ends = taught.word_ends_s
        assert len(ends) == len(taught.words) and (np.diff(ends) > 0).all()
        assert ends[0] > 0 and ends[-1] <= len(taught.pcm) / taught.rate_hz
        assert taught.phones[0][0] == "pau"
        start, end = taught.phones[0][1], ends[-1]
        loud = _rms(taught, start, end)
        assert _rms(taught, 0.0, start - 0.05) < 0.05 * loud
        assert _rms(taught, end + 0.1, end + 1.0) < 0.2 * loud


def _rms(taught: AlignedSpeech, start_s: float, end_s: float) -> float:
    piece = taught.pcm[int(start_s * taught.rate_hz) : int(end_s * taught.rate_hz)].astype(float)
    return float(np.sqrt((piece**2).mean())) if len(piece) else 0.0


def test_features_hold_the_spoken_text(folder, small):
    test_shard = folder / "corpus" / "slt-000"
    needs(test_shard.is_dir(), "the corpus of the first test of this file")
    sentences, silence = read_features(folder / "features" / "slt-000.safetensors")
    assert [s.words for s in sentences] == [spoken_words(t) for t in SENTENCES[0:6:2]]
    for s, label in zip(sentences, shards.labels(test_shard), strict=True):
        pcm, rate_hz = read_mono(test_shard / label["wav"])
        assert len(s.levels) <= len(pcm) / rate_hz * 40 and len(s.levels) == len(s.phones)
        assert s.word_ends[-1] <= len(s.levels) <= s.word_ends[-1] + 4
        assert s.phones[0] == 0 and s.phones[2] != 0  # speech starts in the second or third frame
    assert silence.shape[1] == 80 and silence.mean() < sentences[0].levels.mean()


def test_words_of_plain_text():
    assert spoken_words('He said, "It\'s well-known" (I think)... yes!') == (
        ["he", "said,", "it's", "well", "known", "i", "think.", "yes!"]
    )


def test_phones_of_two_lexicons_are_aligned():
    words = [["dh", "ax"], ["ae", "p", "ax", "l"]]
    assert align_phones(words, ["pau", "dh", "iy", "pau", "ae", "p", "ax", "l", "pau"]) == (
        [None, 0, 0, None, 1, 1, 1, 1, None]
    )
    assert align_phones(words, ["s", "t", "r", "ao", "ng"]) is None


def test_evaluation_sentences_are_never_trained_on(recipe, tmp_path):
    held_out = read_held_out(recipe, TEXTS)
    assert len(held_out) == 200
    some = (TEXTS / "eval.txt").read_text().splitlines()[:3]
    plans = synthesis.plan_shards([*some, *SENTENCES], recipe.corpus, held_out)
    assert sorted(t.text for p in plans for t in p.texts) == sorted(SENTENCES)
    shutil.copy(TEXTS / "eval.txt", tmp_path / "eval.txt")
    with (tmp_path / "eval.txt").open("a") as file:
        file.write("One more line.\n")
    with pytest.raises(BadFile, match="sha256"):
        read_held_out(recipe, tmp_path)


@pytest.mark.parametrize(
    ("text", "message"),
    [("name = 'x'\nsurprise = 1\n[corpus]\n", r"\[corpus\] is not complete"), ("nonsense", "cannot be read")],
)
def test_recipes_are_strict(tmp_path, text, message):
    path = tmp_path / "recipe.toml"
    path.write_text(text)
    with pytest.raises((BadOption, BadFile), match=message):
        read_recipe(path)


RECORDED = ["The harbour was quiet, and cold.", "Nobody came."]


@pytest.fixture(scope="module")
def taught():
    """Two sentences with known times."""
    needs(shutil.which("festival"), "the system package festival")
    return list(Programs().speak("slt", RECORDED))


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
    (tmp_path / "metadata.csv").write_text("".join(f"LJ001-000{i}|raw|{t}\n" for i, t in enumerate(RECORDED)))
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


def test_libritts_with_separate_texts_and_a_speaker_in_the_name(taught, tmp_path):
    folder = tmp_path / "19" / "198"
    folder.mkdir(parents=True)
    for i, made in enumerate(taught):
        stem = f"19_198_{i:06}"
        soundfile.write(folder / f"{stem}.flac", made.pcm, made.rate_hz)
        (folder / f"{stem}.normalized.txt").write_text(RECORDED[i] if i == 0 else "Somebody else came.")
        write_grid(tmp_path / "grids" / "19" / f"{stem}.TextGrid", made)
    assert import_recordings(tmp_path, tmp_path / "grids", tmp_path / "corpus") == (1, 1)
    assert [p.name for p in shards.shards(tmp_path / "corpus")] == ["19-000"]


def test_bad_corpora_are_named(taught, tmp_path):
    with pytest.raises(BadFile, match="no WAV or FLAC"):
        import_recordings(tmp_path, tmp_path, tmp_path / "out")
    soundfile.write(tmp_path / "nameless.wav", taught[0].pcm, taught[0].rate_hz)
    with pytest.raises(BadFile, match="--speaker"):
        import_recordings(tmp_path, tmp_path, tmp_path / "out")
    (tmp_path / "nameless.txt").write_text(RECORDED[0])
    (tmp_path / "nameless.TextGrid").write_text("nonsense")
    with pytest.raises(BadFile, match="cannot be read"):
        import_recordings(tmp_path, tmp_path, tmp_path / "out", speaker="x")
