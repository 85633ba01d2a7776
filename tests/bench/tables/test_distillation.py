"""A table with a distilled net: its inputs are made first and once; the teacher's speech is fake."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file
from tinyfeatures import tiny_sentence, write_tiny_features, write_tiny_vocoder

from studio.bench.tables import nets
from studio.bench.tables.definition import read_table
from studio.bench.tables.nets import TableWorkspace, make, prepare
from studio.bench.tables.run import TableSetting, plan
from studio.core.errors import BadFile
from studio.measure.recognisers.base import Sound
from studio.train.distillation import DistillationCounts

WORDS = ["then", "the", "apple,", "tea."]
BASE = """
name = "base"
title = "A small one"
temperature = 0.5
seed = 5
[corpus]
speakers = ["one", "two"]
shard_sentences = 3
validation_shards = 1
[fit]
family = "FAMILY"
steps = STEPS
peak_rate = 0.004
warmup_share = 0.1
decay_share = 0.3
batch_tokens = 300
max_frames = 200
join_share = 0.0
noise_share = 0.0
cross_weight = 0.1
stop_weight = 0.3
MORE
[fit.config]
encoder_layers = 1
decoder_layers = 1
width = 32
heads = 2
hidden = 64
speakers = 2
"""
RECIPES = {
    "t5": ("t5", 2, ""),
    "s5": ("s5", 2, "look_ahead = [2]\naux_weight = 0.1"),
    "imsd": ("s5", 1, "look_ahead = [2]\naux_weight = 0.0\n[fit.distill]\nmini_batches = 2"),
}
TABLE = """
paper = "888"
title = "before and after"
nets = [
  { name = "teacher", recipe = "t5.toml" },
  { name = "before", recipe = "s5.toml" },
  { name = "after", recipe = "imsd.toml", after = "before", teacher = "teacher" },
]
[[parts]]
place = "Table I"
measure = "wer"
differs = "all of it"
rows = [
  { name = "before", net = "before", paper = { wer = 0.2 } },
  { name = "after", net = "after", paper = { wer = 0.1 } },
]
claims = [{ says = "It helps.", better = "after", worse = "before" }]
"""


def hear(sounds: Sequence[Sound]) -> list[str]:
    raise AssertionError("the teacher's speech is faked")


@pytest.fixture
def shop(tmp_path) -> TableWorkspace:
    torch.set_num_threads(1)
    for folder in ("features", "recipes"):
        (tmp_path / folder).mkdir()
    write_tiny_features(tmp_path / "features", lambda speaker, seed: tiny_sentence(speaker, seed, WORDS))
    write_tiny_vocoder(tmp_path / "vocoders")
    for name, (family, steps, more) in RECIPES.items():
        written = BASE.replace("FAMILY", family).replace("STEPS", str(steps)).replace("MORE", more)
        (tmp_path / "recipes" / f"{name}.toml").write_text(written, encoding="utf-8")
    (tmp_path / "888.toml").write_text(TABLE, encoding="utf-8")
    (tmp_path / "taught.txt").write_text("tea.\nthen.\n", encoding="utf-8")
    return TableWorkspace(
        work=tmp_path / "work",
        features=tmp_path / "features",
        vocoders=tmp_path / "vocoders",
        teacher_texts=tmp_path / "taught.txt",
        device="cpu",
        threads=1,
        recipes=tmp_path / "recipes",
    )


def test_distilled_net_is_made_from_the_nets_before_it(shop, tmp_path, monkeypatch):
    asked: list[tuple[list[str], list[str]]] = []

    def speak(engine, names, texts, out: Path, seed, how) -> DistillationCounts:
        assert how.transcribe is hear and names == {"one": "one", "two": "two"}
        asked.append(([card.name for card in engine.cards()], [*texts]))
        out.mkdir(parents=True)
        write_tiny_features(out, lambda speaker, seed: tiny_sentence(speaker, seed, WORDS[::-1]))
        return DistillationCounts(2, 2)

    monkeypatch.setattr(nets, "distil", speak)
    started: list[tuple[str, str | None]] = []
    fit = nets.run

    def counted(fitting, features, state, device, threads, start, like):
        started.append((fitting.settings.family, None if start is None else start.parent.name))
        return fit(fitting, features, state, device, threads, start, like)

    monkeypatch.setattr(nets, "run", counted)
    table = read_table("888", tmp_path, shop.recipes)
    recipes = prepare(shop, table, 1)
    for _ in range(2):
        for net in table.nets:
            make(shop, table, net, 0, recipes, hear)
    before, after = (nets._state(shop, table, table.net(name), 0, recipes) for name in ("before", "after"))
    assert started == [("t5", None), ("s5", None), ("s5", before.name)], "each is fitted once, the last from the second"
    assert asked == [(["teacher"], ["tea.", "then."])]
    one, other = (load_file(state / "s5.safetensors") for state in (before, after))
    assert one.keys() == other.keys() and not torch.equal(one["levels_out.weight"], other["levels_out.weight"])
    assert {path.name for path in shop.voices.iterdir()} == {"teacher", "before", "after"}
    (tmp_path / "taught.txt").write_text("tea.\n", encoding="utf-8")
    assert nets._state(shop, table, table.net("after"), 0, recipes) != after, "other texts give another net"
    assert nets._state(shop, table, table.net("before"), 0, recipes) == before


def test_distillation_rows_need_texts_for_the_teacher(shop, tmp_path):
    setting = TableSetting(name="888", shop=shop, texts=tmp_path / "taught.txt", count=1, tables=tmp_path)
    whole = plan(setting)
    assert [*whole["nets"]] == ["teacher", "before", "after"] and len(whole["rows"]) == 2
    assert [*plan(replace(setting, only="after"))["nets"]] == ["teacher", "before", "after"], "and its inputs"
    without = plan(replace(setting, shop=replace(shop, teacher_texts=None)))
    assert [*without["nets"]] == ["before"] and [row[1] for row in without["rows"]] == ["before"]
    with pytest.raises(BadFile, match="cannot be read"):
        plan(replace(setting, shop=replace(shop, teacher_texts=tmp_path / "none.txt")))
