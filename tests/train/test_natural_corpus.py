"""A tiny natural corpus from texts to a fitted net, with a fake net in the real teacher; resumable."""

import shutil
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from train.fake_kokoro import FakeKokoro

from studio.core.errors import BadFile
from studio.engine.tokenizers import dmel
from studio.measure.signal import active_level_db
from studio.train.corpus import asr_filter, shards, synthesis
from studio.train.corpus.texts import CorpusText, HeldOut, draw_texts, write_texts
from studio.train.families.registry import training_for
from studio.train.features import PHONES, read_features, write_features
from studio.train.fit.loop import run
from studio.train.recipes.recipe import Recipe, read_held_out, read_recipe
from studio.train.teachers import kokoro, registry

ASSETS = Path(__file__).parents[2] / "assets"
TEXTS = ASSETS / "texts"
PROSE = [f"The {what} was quiet in the morning, but nobody slept." for what in ("harbour", "old town", "road", "sea")]
KINDS = {"prose": 2, "short": 2, "question": 1, "words": 1}
SHARD = sum(KINDS.values())


@pytest.fixture(scope="module")
def folder(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("natural")
    for part in ("noun", "verb", "adj", "adv"):
        (folder / f"data.{part}").write_text("")
    return folder


@pytest.fixture
def natural(small: Recipe) -> Recipe:
    """The shipped corpus recipe with two speakers, two shards of each, and a tiny net."""
    wren = read_recipe(ASSETS / "voices" / "wren" / "recipe.toml").corpus
    stages = [(wren.speakers, 1), (["af_bella"], 1), (wren.speakers, 1)]
    return replace(small, corpus=replace(wren, kinds=KINDS, shard_sentences=SHARD, stages=stages))


@pytest.fixture(autouse=True)
def faked(monkeypatch) -> FakeKokoro:
    """The teacher ``fake``: the real one over a net without weights."""
    teacher = kokoro.Kokoro()
    net = teacher.__dict__["net"] = FakeKokoro()
    registry.open_teacher.cache_clear()
    monkeypatch.setitem(registry.TEACHERS, "fake", lambda weights: teacher)
    return net


def test_texts_to_weights(folder, natural, faked):
    held_out = HeldOut(read_held_out(natural, TEXTS))
    texts, spoken, encoded = folder / "texts.jsonl", folder / "corpus", folder / "features"
    assert write_texts(draw_texts(PROSE, folder, KINDS, 5, held_out, natural.seed), texts) == 5 * SHARD
    assert synthesis.synthesise_corpus(natural, texts, TEXTS, spoken, 1, "fake") == 5
    names = ["af_bella-000", "af_heart-000", "am_michael-000", "af_heart-001", "am_michael-001"]
    assert [p.name for p in shards.shards(spoken)] == names
    assert [s for s, _ in faked.asked][::SHARD] == ["af_heart", "am_michael", "af_bella", "af_heart", "am_michael"]

    kept = (spoken / "af_heart-000" / "labels.jsonl").read_bytes()
    before = (spoken / "am_michael-001" / "labels.jsonl").read_bytes()
    shutil.rmtree(spoken / "am_michael-001")
    (spoken / ".am_michael-001.part").mkdir()  # left by a stopped run
    asked = len(faked.asked)
    assert synthesis.synthesise_corpus(natural, texts, TEXTS, spoken, 1, "fake") == 5
    assert len(faked.asked) == asked + SHARD  # one shard was synthesised again, identically
    assert (spoken / "am_michael-001" / "labels.jsonl").read_bytes() == before
    assert (spoken / "af_heart-000" / "labels.jsonl").read_bytes() == kept

    assert write_features(spoken, encoded, workers=1) == 5
    for shard in shards.shards(spoken):
        sentences, silence = read_features(encoded / f"{shard.name}.safetensors")
        for sentence, label in zip(sentences, shards.labels(shard), strict=True):
            frames = dmel.TIME_BASE.frame_of_time(label["phones"][-1][1])
            pcm = shards.read_sound(shard / label["wav"])
            assert frames == len(dmel.encode(torch.from_numpy(pcm.astype(np.float32) / 32768)))
            assert sentence.word_ends == [round(40 * e) for e in label["word_ends_s"]]
            assert len(sentence.levels) == min(frames, sentence.word_ends[-1] + 4) == len(sentence.phones)
            assert PHONES[sentence.phones[sentence.word_ends[0] - 1]] not in ("pau", "other")
            assert label["kind"] in KINDS and abs(pcm).max() <= 0.95 * 32768
        assert len(silence) and silence.mean() < sentences[0].levels.mean()
    weights = run(training_for(natural), encoded, folder / "state", torch.device("cpu"), threads=1)
    assert weights.is_file()


def test_gain_and_peaks(tmp_path, natural, faked):
    """One gain per speaker; a clip that would pass full scale gets less."""
    texts = tmp_path / "texts.jsonl"
    write_texts([CorpusText("prose", f"{s} Again and again.") for s in PROSE], texts)
    levels = []
    for gain_db, loud in ((0.0, 0.2), (6.0, 0.2), (6.0, 0.8)):
        faked.loud = loud
        corpus = replace(natural.corpus, stages=[(["af_heart"], 1)], shard_sentences=4, gain_db={"af_heart": gain_db})
        out = tmp_path / f"{gain_db}-{loud}"
        synthesis.synthesise_corpus(replace(natural, corpus=corpus), texts, TEXTS, out, 1, "fake")
        pcm = shards.read_sound(out / "af_heart-000" / "0000.wav")
        levels.append((active_level_db(pcm, shards.RATE_HZ), np.abs(pcm).max() / 32768))
    assert levels[1][0] - levels[0][0] == pytest.approx(6.0, abs=0.1)
    assert levels[2][1] == pytest.approx(0.95, abs=0.01)


def test_held_out_and_too_few_texts_are_refused(tmp_path, natural):
    texts = tmp_path / "texts.jsonl"
    write_texts([CorpusText("prose", (TEXTS / "eval.txt").read_text().splitlines()[0])], texts)
    with pytest.raises(BadFile, match="held out"):
        synthesis.synthesise_corpus(natural, texts, TEXTS, tmp_path / "out", 1, "fake")
    write_texts([CorpusText("prose", PROSE[0])], texts)
    with pytest.raises(BadFile, match="1 texts for 30"):
        synthesis.synthesise_corpus(natural, texts, TEXTS, tmp_path / "out", 1, "fake")


def test_misheard_clips_are_excluded(tmp_path, natural):
    """All of a kind are recognised if a sample is wrong; short ones and carriers are judged by length and loudness."""
    corpus = replace(natural.corpus, stages=[(["af_heart"], 1)], shard_sentences=9)
    texts, out = tmp_path / "texts.jsonl", tmp_path / "corpus"
    carriers = [CorpusText("words", "Say harbor, then weather."), CorpusText("words", "From tower to valley.")]
    questions = [CorpusText("question", f"Is the {w} old or new?") for w in ("road", "sea", "town")]
    write_texts([*carriers, *questions, *(CorpusText("prose", p) for p in PROSE)], texts)
    synthesis.synthesise_corpus(replace(natural, corpus=corpus), texts, TEXTS, out, 1, "fake")
    shard = out / "af_heart-000"
    quiet = shards.read_sound(shard / "0001.wav") // 200
    shards.write_wav(shard / "0001.wav", quiet, shards.RATE_HZ)
    written = {shards.read_sound(shard / x["wav"]).tobytes(): x["text"] for x in shards.all_labels(shard)}
    heard: list[str] = []

    def transcribe(sounds):
        made = [
            written[pcm.tobytes()].replace("old or new", "cold and blue").replace("nobody", "no body")
            for pcm, _ in sounds
        ]
        heard.extend(made)
        return made

    found = asr_filter.filter_corpus(out, transcribe, sample=1)
    assert vars(found["words"]) == {"clips": 2, "transcribed": 0, "wrong": 0, "implausible": 1}
    assert vars(found["question"]) == {"clips": 3, "transcribed": 3, "wrong": 3, "implausible": 0}
    assert vars(found["prose"]) == {"clips": 4, "transcribed": 1, "wrong": 0, "implausible": 0}  # homophones: no error
    assert (shard / shards.LEFT_OUT).read_text().split() == ["0001.wav", "0002.wav", "0003.wav", "0004.wav"]
    assert [x["kind"] for x in shards.labels(shard)] == ["words", "prose", "prose", "prose", "prose"]
    assert len(heard) == 4
    with (out / "heard.jsonl").open("a") as file:
        file.write('{"clip": "half a li')  # a stopped run
    asr_filter.filter_corpus(out, transcribe, sample=2)
    assert len(heard) == 5  # earlier recognition results are stored
    assert write_features(out, tmp_path / "features", workers=1) == 1
    assert len(read_features(tmp_path / "features" / "af_heart-000.safetensors")[0]) == 5


def test_homophones_with_rare_spellings_are_kept():
    label = {"text": "The night knew.", "phones": [[p, 0.1] for p in ("<", *"ðəˈnˈIt", " ", *"nˈu", ".", ">")]}
    assert asr_filter.difference(label, "The knight new.") == 0.0
    assert asr_filter.difference(label, "The moon.") > asr_filter.MAX_DIFFERENCE
    assert asr_filter.difference(label, "") == 1.0
    clock = {"text": "At 4:05 a.m.", "phones": [[p, 0.1] for p in "æt fˈɔɹ ˈO fˈIv ˌA ˈɛm"]}
    assert asr_filter.difference(clock, "at 405 AM") == 0.0
