"""Damaged shards and states raise one error that names the file."""

import json
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from tinyfeatures import tensors_changed, tiny_recipe
from typer.testing import CliRunner

from studio.cli import cli
from studio.core.clips import write_wav
from studio.core.errors import BadFile, StudioError
from studio.core.folders import RECIPES
from studio.train.corpus.asr_filter import filter_corpus
from studio.train.distillation import lines_of
from studio.train.families.registry import training_for
from studio.train.features import read_features, write_features
from studio.train.fit.loop import BatchPrefetcher, run
from studio.train.fit.resources import lock_state_folder
from studio.train.fit.training import rate_share, sample_levels
from studio.train.recipes.recipe import CorpusRecipe, read_recipe

CPU = torch.device("cpu")
LARK = RECIPES / "lark.toml"
VOCODER = ("vocoder", "--corpus", "nothing", "--state", "state", "--export", "x.safetensors", "--recipe", LARK)


@pytest.mark.parametrize(
    "change",
    [
        lambda t: t.pop("silence"),
        lambda t: t.update(silence=t["silence"][:0]),
        lambda t: t.update(levels=t["levels"][:, :79]),
        lambda t: t.update(levels=t["levels"][:-1]),
        lambda t: t.update(levels=torch.full_like(t["levels"], 200)),
        lambda t: t.update(levels=t["levels"].float()),
        lambda t: t.update(levels=t["levels"].bfloat16()),
        lambda t: t.update(phones=torch.full_like(t["phones"], 200)),
        lambda t: t.update(phones=t["phones"].float()),
        lambda t: t.update(phones=t["phones"].to(torch.int64) - 5),
        lambda t: t.update(frames=-t["frames"]),
        lambda t: t.update(frames=t["frames"].float() + 0.5),
        lambda t: t.update(word_ends=t["word_ends"].flip(0)),
        lambda t: t.update(word_ends=-t["word_ends"]),
        lambda t: t.update(word_ends=t["word_ends"] + 100),
        lambda t: t.update(word_ends=t["word_ends"][:-1]),
    ],
)
def test_shard_without_sentences_is_named(made, change):
    path = made / "features" / "one-001.safetensors"
    tensors_changed(path, change)
    with pytest.raises(BadFile, match=r"one-001\.safetensors holds no features.*studio train features"):
        read_features(path)


@pytest.mark.parametrize("data", [b"", b"junk", b"\x80\x04.", None])
def test_shard_without_tensors_is_named(made, data):
    path = made / "features" / "one-001.safetensors"
    path.write_bytes(path.read_bytes()[:300] if data is None else data)
    with pytest.raises(BadFile, match=r"one-001\.safetensors holds no features"):
        fitting = training_for(tiny_recipe("t5"))
        run(fitting, made / "features", made / "other", CPU, threads=1)


@pytest.mark.parametrize("what", ["junk", "nothing", "half", "another recipe's", "unknown keys", "no number"])
def test_state_that_cannot_be_resumed_is_named(made, what):
    path = made / "state" / "checkpoint.pt"
    saved = torch.load(path, weights_only=True)
    if what == "junk":
        path.write_bytes(b"junk")
    elif what == "nothing":
        path.write_bytes(b"")
    elif what == "half":
        path.write_bytes(path.read_bytes()[:5000])
    elif what == "another recipe's":
        torch.save(saved | {"fitter": {"other": torch.zeros(1)}}, path)
    elif what == "unknown keys":
        torch.save(saved | {"at": {"unheard_of": 1}}, path)
    else:
        torch.save(saved | {"fitter": {name: tensor * float("nan") for name, tensor in saved["fitter"].items()}}, path)
    with pytest.raises(BadFile, match=r"checkpoint\.pt is damaged, or of another recipe.*--state"):
        run(training_for(tiny_recipe("t5")), made / "features", made / "state", CPU, threads=1)


def test_training_without_sentences_is_refused(made):
    held_back = replace(tiny_recipe("t5"), corpus=replace(tiny_recipe("t5").corpus, validation_shards=2))
    with pytest.raises(BadFile, match=r"features leaves no sentence to train on.*validation_shards"):
        run(training_for(held_back), made / "features", made / "other", CPU, threads=1)


def test_errors_of_worker_processes_are_reported(made):
    (made / "features" / "one-001.safetensors").write_bytes(b"junk")
    ahead = BatchPrefetcher(training_for(tiny_recipe("t5")), made / "features", 1)
    try:
        with pytest.raises(BadFile, match=r"one-001\.safetensors holds no features"):
            next(ahead.batches(0))
    finally:
        ahead.close()


def test_constant_rate_and_greedy_sampling_are_allowed(made):
    steady = replace(tiny_recipe("t5", decay_share=0.0, own_share=1.0), temperature=0.0)
    assert rate_share(0.9, steady.voice_fit()) == 1.0
    assert run(training_for(steady), made / "features", made / "other", CPU, threads=1).is_file()
    logits = torch.tensor([[0.0, 3.0, 1.0], [2.0, 0.0, 1.0]])
    assert sample_levels(logits, 0.0).tolist() == [1, 0]


def test_state_belongs_to_one_training_at_a_time(made):
    with lock_state_folder(made / "state"), pytest.raises(BadFile, match=r"another training is at work in .*--state"):
        run(training_for(tiny_recipe("t5")), made / "features", made / "state", CPU, threads=1)
    assert run(training_for(tiny_recipe("t5")), made / "features", made / "state", CPU, threads=1).is_file()


def test_killed_training_releases_its_state(made):
    code = "import sys, time; from pathlib import Path; from studio.train.fit.resources import lock_state_folder\n"
    code += "with lock_state_folder(Path(sys.argv[1])):\n    print('in', flush=True)\n    time.sleep(60)"
    with subprocess.Popen([sys.executable, "-c", code, made / "state"], stdout=subprocess.PIPE) as other:
        assert other.stdout is not None and other.stdout.readline() == b"in\n"
        with pytest.raises(BadFile, match="another training"), lock_state_folder(made / "state"):
            pass
        other.kill()
    with lock_state_folder(made / "state"):
        pass


def test_state_of_another_family_with_equal_shapes_is_named(made):
    """n-gram RichTTS does not resume from RichTTS, which would end at once with its weights lost."""
    sizes = {"layers": 1, "width": 32, "heads": 2, "hidden": 64, "speakers": 2}
    of = {}
    for name in ("richtts", "ngram-richtts"):
        said = read_recipe(RECIPES / f"{name}-tiny.toml")
        corpus = CorpusRecipe(["one", "two"], 3, 1)
        of[name] = replace(said, corpus=corpus, fit=replace(said.voice_fit(), config=sizes, steps=2))
    run(training_for(of["richtts"]), made / "features", made / "other", CPU, threads=1)
    with pytest.raises(BadFile, match=r"checkpoint\.pt is damaged, .* of the family 'richtts'"):
        run(training_for(of["ngram-richtts"]), made / "features", made / "other", CPU, threads=1)


LABEL = {
    "wav": "0000.wav",
    "speaker": "one",
    "kind": "prose",
    "text": "Hi there.",
    "words": ["hi", "there."],
    "word_ends_s": [0.4, 0.9],
    "phones": [["pau", 0.1], ["h", 0.4], ["dh", 0.9]],
}


def shard_of(folder: Path, lines: bytes, samples: int = 24_000) -> Path:
    shard = folder / "corpus" / "one-000"
    shard.mkdir(parents=True)
    noise = np.random.default_rng(0).normal(size=samples) * 3000
    write_wav(shard / "0000.wav", noise.astype(np.int16), 24_000)
    (shard / "labels.jsonl").write_bytes(lines)
    return folder / "corpus"


def encoded(corpus: Path, out: Path) -> Path:
    assert write_features(corpus, out, workers=1) == 1
    return out / "one-000.safetensors"


@pytest.mark.parametrize(
    "change",
    [
        {"wav": "../0000.wav"},
        {"wav": 5},
        {"speaker": None},
        {"kind": []},
        {"words": []},
        {"words": "hi"},
        {"words": ["hi"]},
        {"word_ends_s": []},
        {"word_ends_s": ["a", "b"]},
        {"word_ends_s": [float("nan"), 1.0]},
        {"word_ends_s": [-1.0, 1.0]},
        {"phones": []},
        {"phones": [["h"]]},
        {"phones": [["h", float("inf")]]},
    ],
    ids=str,
)
def test_invalid_label_is_named(tmp_path, change):
    corpus = shard_of(tmp_path, json.dumps(LABEL).encode() + b"\n" + json.dumps(LABEL | change).encode() + b"\n")
    with pytest.raises(BadFile, match=r"line 2 of .*labels\.jsonl is damaged: .*make it again"):
        write_features(corpus, tmp_path / "out", workers=1)


@pytest.mark.parametrize("lines", [b"{\n", b"[1]\n", b"\xff\n"])
def test_unreadable_labels_are_named(tmp_path, lines):
    with pytest.raises(BadFile, match=r"labels\.jsonl is damaged"):
        write_features(shard_of(tmp_path, lines), tmp_path / "out", workers=1)


@pytest.mark.parametrize("samples", [0, 10])
def test_clip_without_a_frame_is_named(tmp_path, samples):
    corpus = shard_of(tmp_path, json.dumps(LABEL).encode(), samples)
    with pytest.raises(BadFile, match=rf"0000\.wav holds {samples} samples"):
        write_features(corpus, tmp_path / "out", workers=1)


@pytest.mark.parametrize("lines", [b"", json.dumps(LABEL | {"word_ends_s": [0.4, 9.0]}).encode()])
def test_shard_without_usable_sentences_is_readable(tmp_path, lines):
    """A word that ends beyond its sound once made an unreadable shard."""
    sentences, silence = read_features(encoded(shard_of(tmp_path, lines), tmp_path / "out"))
    assert sentences == [] and len(silence)


def test_label_may_lack_its_kind(tmp_path):
    lines = json.dumps({name: value for name, value in LABEL.items() if name != "kind"}).encode()
    assert len(read_features(encoded(shard_of(tmp_path, lines), tmp_path / "out"))[0]) == 1


@pytest.mark.parametrize(
    ("command", "message"),
    [
        (("features", "--corpus", "nothing", "--out", "out"), "nothing holds no finished shard"),
        (("features", "--corpus", "nothing", "--out", "out", "--workers", "0"), "--workers"),
        (("hear", "--corpus", "nothing"), "nothing holds no finished shard"),
        (("bpe", "--texts", "none.jsonl", "--out", "bpe.json"), "no text with a word"),
        (("corpus", "--sentences", "none.jsonl", "--out", "out", "--recipe", LARK), "no sentence that can be spoken"),
        (("fit", "--features", "nothing", "--state", "out", "--recipe", LARK, "--threads", "-4"), "--threads"),
        ((*VOCODER, "--threads", "-1"), "--threads"),
        ((*VOCODER, "--device", "banana"), "there is no device 'banana'; it is auto, cpu or cuda"),
        (VOCODER, "nothing has no sound of over 56 frames"),
    ],
    ids=lambda one: " ".join(map(str, one)) if isinstance(one, tuple) else "",
)
def test_command_with_nothing_to_do_says_so(tmp_path, monkeypatch, command, message):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "nothing").mkdir()
    (tmp_path / "none.jsonl").write_bytes(b"")
    done = CliRunner().invoke(cli, ["train", *map(str, command)])
    said = done.output if isinstance(done.exception, SystemExit) else str(done.exception)
    assert isinstance(done.exception, (StudioError, SystemExit)) and done.exit_code, done.exception
    assert message in said
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize("lines", [b"[1]\n", b"{\n", b"\xff\n", b'{"clip": "a", "heard": 1}\n'])
def test_damaged_recognition_cache_is_named(tmp_path, lines):
    corpus = shard_of(tmp_path, b"")
    (corpus / "heard.jsonl").write_bytes(lines)
    with pytest.raises(BadFile, match=r"heard\.jsonl is damaged: .*remove it"):
        filter_corpus(corpus, lambda sounds: [""] * len(sounds), sample=1)


def test_invalid_texts_are_not_skipped(tmp_path):
    (tmp_path / "none.txt").write_bytes(b"\n")
    with pytest.raises(BadFile, match=r"none\.txt holds no texts"):
        lines_of(tmp_path / "none.txt")
