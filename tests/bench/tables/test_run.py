"""A table from definition to page on a synthetic corpus: real trainings, voices and speech, a fake recogniser."""

import json
import re
import shutil
import zlib
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.torch import load_file
from tinyfeatures import tiny_sentence, write_tiny_features, write_tiny_vocoder
from typer.testing import CliRunner

from studio.bench import material
from studio.bench.summary import summarise
from studio.bench.tables import figures, nets, run
from studio.bench.tables.figures import show
from studio.bench.tables.nets import TableWorkspace
from studio.bench.tables.run import TableSetting, make_table, plan
from studio.cli import cli
from studio.core.errors import BadOption
from studio.core.folders import RECIPES, TABLES
from studio.measure.recognisers.base import Sound
from studio.measure.report import as_markdown, plain, write_result
from studio.train.teachers.registry import open_teacher

WORDS = ["the", "apple,", "then", "tea."]
TEXTS = ["the apple, then tea.", "then the tea."]
RECIPE = """
name = "base"
title = "A small one"
temperature = 0.5
seed = 5
[corpus]
speakers = ["one", "two"]
shard_sentences = 3
validation_shards = 1
[fit]
family = "{family}"
steps = 3
peak_rate = 0.004
warmup_share = 0.1
decay_share = 0.3
batch_tokens = 600
max_frames = 200
join_share = 0.5
noise_share = 0.3
phone_weight = 0.4
eos_weight = 1.0
[fit.config]
layers = 1
width = 32
heads = 2
hidden = 64
speakers = 2
longest_word_frames = 8
"""
TABLE = """
paper = "777"
title = "whole texts and pieces"
[[nets]]
name = "full"
recipe = "full.toml"
[[nets]]
name = "pieces"
recipe = "pieces.toml"
[[nets]]                # the same as full: not fitted twice
name = "again"
recipe = "full.toml"
[[nets]]
name = "ones"
recipe = "pieces.toml"
change.fit = { pieces = [1], config = { width = 48 } }
[[parts]]
place = "Table I"
measure = "wer"
differs = "all of it"
rows = [
  { name = "teacher", reference = "teacher", paper = { wer = 0.01 } },
  { name = "dMel", reference = "dmel" },
  { name = "theirs alone", paper = { wer = 0.5 } },
  { name = "full", net = "full", options = { mode = "whole" }, paper = { wer = 0.03 } },
  { name = "full, n=1", net = "full", options = { mode = "ngram", n = 1 }, paper = { wer = 0.7 } },
  { name = "pieces, n=1", net = "pieces", options = { n = 1 }, paper = { wer = 0.6 } },
  { name = "ones, n=1", net = "ones", options = { n = 1 }, paper = { wer = 0.6 } },
  { name = "again", net = "again", paper = { wer = 0.03 } },
]
claims = [
  { says = "Whole texts are best.", better = "full", worse = "full, n=1" },
  { says = "Training on pieces helps.", better = "pieces, n=1", worse = "full, n=1" },
  { says = "Theirs is better than pieces.", better = "theirs alone", worse = "pieces, n=1" },
]
[[parts]]
place = "Table II"
measure = "queries"
rows = [
  { name = "full", net = "full", load = LOAD, paper = { first_ms = 9.0 } },
]
[[parts]]
place = "Table III"
measure = "cascade"
rows = [
  { name = "full", net = "full", load = { first_word_ms = 30.0, word_ms = 5.0 }, paper = { e2e_ms = 7.0 } },
]
""".replace("LOAD", '{ per_s = 4.0, seconds = 0.5, places = 4, kind = "short", arrivals = "fixed" }')


class FakeRecogniser:
    """Recognises one of two texts, deterministically per sound; can be made to fail."""

    def __init__(self) -> None:
        self.heard = 0
        self.most = 10_000
        self.about = {"name": "ear", "version": "1", "weights": "none", "sha256": "e" * 64}

    def transcribe_all(self, sounds: Sequence[Sound], *, recogniser, workers, on_done) -> list[str]:
        found = []
        for pcm, _ in sounds:
            if self.heard >= self.most:
                raise KeyboardInterrupt
            self.heard += 1
            found.append([*TEXTS, "tea"][zlib.crc32(pcm.tobytes()) % 3])
            on_done()
        return found


@pytest.fixture
def ear(monkeypatch) -> FakeRecogniser:
    made = FakeRecogniser()
    monkeypatch.setattr(material, "transcribe_all", made.transcribe_all)
    monkeypatch.setattr(material, "open_recogniser", lambda name: made)

    def teacher(self, speaker: str, texts: Sequence[str]) -> list[material.TeacherSpeech | None]:
        """Speaks the second text with a word changed, as ``two``."""
        pcm = np.random.default_rng(1).normal(0, 3000, 24_000).astype(np.int16)
        said = material.TeacherSpeech(Path(), {}, pcm)
        return [None if speaker == "two" and text == TEXTS[1] else said for text in texts]

    monkeypatch.setattr(material.EvaluationRun, "teacher", teacher)
    return made


@pytest.fixture
def setting(tmp_path) -> TableSetting:
    torch.set_num_threads(1)
    for folder in ("features", "recipes", "tables"):
        (tmp_path / folder).mkdir()
    write_tiny_features(tmp_path / "features", lambda speaker, seed: tiny_sentence(speaker, seed, WORDS))
    write_tiny_vocoder(tmp_path / "vocoders")
    for name, family in (("full", "richtts"), ("pieces", "ngram-richtts")):
        (tmp_path / "recipes" / f"{name}.toml").write_text(RECIPE.format(family=family), encoding="utf-8")
    (tmp_path / "tables" / "777.toml").write_text(TABLE, encoding="utf-8")
    (tmp_path / "texts.txt").write_text("\n".join(TEXTS), encoding="utf-8")
    shop = TableWorkspace(
        work=tmp_path / "work",
        features=tmp_path / "features",
        vocoders=tmp_path / "vocoders",
        device="cpu",
        threads=1,
        recipes=tmp_path / "recipes",
    )
    return TableSetting(
        name="777", shop=shop, texts=tmp_path / "texts.txt", count=2, tables=tmp_path / "tables", quiet=True
    )


@pytest.fixture
def fits(monkeypatch) -> list[str]:
    """The fitted families in order."""
    found: list[str] = []
    fit = nets.run

    def counted(fitting, *rest):
        found.append(fitting.settings.family)
        return fit(fitting, *rest)

    monkeypatch.setattr(nets, "run", counted)
    return found


def flat(printed: str) -> str:
    """Without the frame and line breaks of a table."""
    return re.sub(r"[\s│┃]+", " ", printed)


def changed(setting: TableSetting, **to) -> TableSetting:
    return TableSetting(**{**vars(setting), **to})


def rows_of(setting: TableSetting) -> dict[Path, int]:
    return {path: path.stat().st_mtime_ns for path in setting.shop.work.glob("rows/777/*.json")}


def test_table_is_made_interrupted_and_resumed(setting, ear, fits, tmp_path):
    ear.most = 7
    with pytest.raises(KeyboardInterrupt):
        make_table(setting)
    first = rows_of(setting)
    assert 0 < len(first) < 9 and fits == ["richtts"], "rows are written as they finish"
    ear.most = 10_000
    out = make_table(setting)
    assert fits == ["richtts", "ngram-richtts", "ngram-richtts"], "a net is fitted once under any name"
    assert {path: rows_of(setting)[path] for path in first} == first and len(rows_of(setting)) == 9
    table, load, cascade = out["parts"]
    ours = {row["name"]: row["ours"] for row in table["rows"]}
    assert ours["theirs alone"] == {} and set(ours["full"]["wer"]) >= {"value", "low", "high", "seeds"}
    assert ours["again"] == ours["full"], "the same net"
    assert out["recogniser"]["name"] == "ear" and out["nets"]["full"] == {"family": "richtts", "steps": 3, "seed": 5}
    assert [one["holds"] for one in table["claims"]][2] == "not measured"
    assert load["rows"][0]["ours"]["x_real_time"]["value"] > 0 and load["rows"][0]["paper"] == {"first_ms": 9.0}
    ended = {name: one["value"] for name, one in cascade["rows"][0]["ours"].items()}
    assert ended["e2e_ms"] == pytest.approx(ended["llm_ms"] + ended["first_ms"])
    assert ended["llm_ms"] >= 35.0 and ended["first_ms"] > 0, (
        "it reads its whole text first: the second reply has 3 words"
    )
    kept = json.loads(next(path for path in rows_of(setting) if "ones-n-1" in path.name).read_text())
    assert {speaker: len(each) for speaker, each in kept["each"].items()} == {"one": 2, "two": 1}
    assert kept["git_sha"] and kept["versions"] and kept["options"] == {"n": 1}
    heard, again = ear.heard, rows_of(setting)
    assert plain(make_table(setting)) == plain(out) and ear.heard == heard and rows_of(setting) == again
    printed = flat(as_markdown(show, plain(out)))
    assert "Table I of paper 777: whole texts and pieces" in printed and "theirs alone" in printed
    assert "Claims of Table I" in printed and "pieces helps." in printed and "not measured" in printed
    write_result("table-777", out, tmp_path / "results")
    summarise(tmp_path / "results", tmp_path / "docs" / "README.md")
    page = (tmp_path / "docs" / "paper-777.md").read_text(encoding="utf-8")
    assert "Table I" in page and "studio" in page and "theirs alone" in page
    assert "paper-777.md" in (tmp_path / "docs" / "README.md").read_text(encoding="utf-8")


def test_changed_inputs_of_a_row_remake_it(setting, ear, fits):
    only = changed(setting, only="full, n=1", is_taught=False)
    make_table(only)
    (path,) = rows_of(setting)
    before = json.loads(path.read_text())
    assert [len(each) for each in before["each"].values()] == [2, 2], "without the teacher every text counts"
    make_table(only)
    assert json.loads(path.read_text())["key"] == before["key"] and fits == ["richtts"]
    ear.about = {**ear.about, "sha256": "f" * 64}
    make_table(only)
    assert json.loads(path.read_text())["key"] != before["key"] and fits == ["richtts"]
    longer = TableWorkspace(**{**vars(setting.shop), "steps": 4})
    out = make_table(changed(only, shop=longer))
    assert fits == ["richtts", "richtts"] and out["nets"]["full"]["steps"] == 4


def test_seeds_are_separate_trainings(setting, ear, fits):
    out = make_table(changed(setting, seeds=2, only="n=1", is_taught=False))
    assert fits == ["richtts"] * 2 + ["ngram-richtts"] * 4
    assert {name: one["seed"] for name, one in out["nets"].items()}["ones-1"] == 6
    (row,) = [one for one in out["parts"][0]["rows"] if one["name"] == "ones, n=1"]
    assert len(row["ours"]["wer"]["seeds"]) == 2
    assert "each of 2 seeds" in flat(as_markdown(show, plain(out)))


GOING_ON = """
paper = "778"
title = "from a voice"
[[nets]]
name = "on"
voice = "full"
change.fit = { steps = 2, peak_rate = 0.0 }
[[nets]]
name = "alike"
recipe = "pieces.toml"
like = "full"
change.fit = { steps = 2, peak_rate = 0.0 }
[[parts]]
place = "Table I"
measure = "wer"
rows = [{ name = "on", net = "on", paper = { wer = 0.1 } }, { name = "alike", net = "alike", options = { n = 1 } }]
"""


def test_net_continues_from_a_voice(setting, ear, fits, tmp_path):
    """With its weights and recipe; from another family it takes the layers only. Another voice gives another net."""
    make_table(changed(setting, only="full", without="n=1", is_taught=False))
    shipped = tmp_path / "shipped"
    shutil.copytree(setting.shop.voices / "full", shipped / "full")
    (setting.tables / "778.toml").write_text(GOING_ON, encoding="utf-8")
    shop = TableWorkspace(**{**vars(setting.shop), "shipped": shipped})
    going_on = changed(setting, name="778", shop=shop, is_taught=False)
    out = make_table(going_on)
    assert out["nets"] == {
        "on": {"family": "richtts", "steps": 2, "seed": 5},
        "alike": {"family": "ngram-richtts", "steps": 2, "seed": 5},
    }
    full, on = (load_file(shop.voices / name / "richtts.safetensors") for name in ("full", "on"))
    alike = load_file(shop.voices / "alike" / "ngram-richtts.safetensors")
    assert all(torch.equal(on[name], full[name]) for name in full)
    layers = [name for name in full if name.startswith("decoder.") and full[name].ndim == 2]
    assert layers and all(torch.equal(alike[name], full[name]) for name in layers)
    assert fits == ["richtts", "richtts", "ngram-richtts"]
    make_table(going_on)
    assert len(fits) == 3, "it is not fitted twice"
    for wrong, why in (
        ('voice = "full"\nrecipe = "full.toml"', "has a recipe and a voice, or neither"),
        ('voice = "nobody"', "is of no voice 'nobody'"),
        ('voice = "../full"', "is of no voice"),
    ):
        (setting.tables / "778.toml").write_text(GOING_ON.replace('voice = "full"', wrong), encoding="utf-8")
        with pytest.raises(BadOption, match=why):
            make_table(going_on)


def test_queries_arrive_at_a_share_of_the_rate(setting, ear, monkeypatch):
    asked = list[tuple[float, ...]]()
    really = figures.bench_queries
    monkeypatch.setattr(figures, "bench_queries", lambda load: (asked.append(load.rates), really(load))[1])
    only = changed(setting, only="full", without="n=1", is_taught=False)
    whole, slow = make_table(only), make_table(changed(only, rate_share=0.5))
    assert asked == [(4.0,), (2.0,)], "another rate is measured separately"
    assert (whole["rate_share"], slow["rate_share"]) == (1.0, 0.5)
    said = "at 0.5 times the rate that the table names"
    assert said in flat(as_markdown(show, plain(slow))) and said not in flat(as_markdown(show, plain(whole)))


def test_voice_of_a_table_stores_its_recipe(setting, ear):
    make_table(changed(setting, only="ones", is_taught=False))
    folder = setting.shop.voices / "ones"
    recipe = (folder / "recipe.toml").read_text(encoding="utf-8")
    assert 'name = "ones"' in recipe and "pieces = [1]" in recipe and "width = 48" in recipe
    assert json.loads((folder / "card.json").read_text(encoding="utf-8"))["config"]["width"] == 48


def test_plan_trains_nothing(setting, ear, fits):
    found = plan(setting)
    assert fits == [] and ear.heard == 0 and not setting.shop.work.exists()
    assert [row[1] for row in found["rows"]][:3] == ["teacher", "dMel", "full"] and "theirs alone" not in str(found)
    rest = plan(changed(setting, without="ones"))
    assert "ones" in found["nets"] and "ones" not in rest["nets"]
    assert [row for row in found["rows"] if "ones" not in row[1]] == rest["rows"] != []
    for ask in (make_table, plan):
        with pytest.raises(BadOption, match=r"of ours with 'nobody' in its name; .* or use one of 'teacher', 'dM"):
            ask(changed(setting, only="nobody"))


def test_plan_lists_initial_weights_and_missing_inputs(setting, tmp_path, monkeypatch):
    begun = plan(replace(setting, name="000", tables=TABLES, shop=replace(setting.shop, recipes=RECIPES)))["nets"]
    assert begun["speakstream"]["begins_from"] == "wren" and begun["richtts"]["begins_from"] == "layers of wren"
    assert begun["speakstream"]["steps"] > 0
    monkeypatch.delenv("STUDIO_KOKORO", raising=False)
    open_teacher.cache_clear()
    bare = replace(setting.shop, recipes=RECIPES, features=tmp_path / "none", vocoders=tmp_path / "none")
    told = plan(replace(setting, name="001", tables=TABLES, shop=bare))["lacking"]
    for one in ("none has no features of af_heart", "none has no vocoder", "set STUDIO_KOKORO"):
        assert any(one in line for line in told), (one, told)
    told = plan(replace(setting, name="001", tables=TABLES, shop=bare, texts=tmp_path / "none.txt"))["lacking"]
    assert any("none.txt" in line for line in told)


def test_command_lists_and_plans(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    listed = CliRunner().invoke(cli, ["train", "table"], catch_exceptions=False)
    assert "001  S5-TTS by look-ahead and without its masks, beside T5-TTS" in listed.output
    planned = CliRunner().invoke(cli, ["train", "table", "001", "--plan", "--json"], catch_exceptions=False)
    assert json.loads(planned.output)["nets"]["s5-no-masks"]["steps"] == 3000
    shown = CliRunner().invoke(cli, ["train", "table", "004", "--plan"], catch_exceptions=False)
    assert "tacotron-overlap-8" in shown.output and "non-incremental, long" in shown.output
    assert "Missing: work/vocoders has no vocoder hifigan for tacotron-overlap-4" in " ".join(shown.output.split())
    (tmp_path / "vocoders").mkdir()
    (tmp_path / "vocoders" / "hifigan.safetensors").touch()
    for speaker in ("af_heart", "am_michael"):
        (tmp_path / f"{speaker}-000.safetensors").touch()
    there = CliRunner().invoke(cli, ["train", "table", "004", "--plan", "--vocoders", "vocoders", "--features", "."])
    assert there.exit_code == 0 and "Missing" not in there.output
    nameless = CliRunner().invoke(cli, ["train", "table", "--plan"])
    assert isinstance(nameless.exception, BadOption) and "name it: 000, 001" in str(nameless.exception)
    assert not (tmp_path / "work").exists()


def test_row_key_depends_on_all_inputs():
    """Names that look alike have files of their own."""
    assert run._slug("m=1, n=1") != run._slug("m=1 n=1") and run._slug("S1, m=5").startswith("s1-m-5-")
