"""Table definitions: shipped ones are valid and match their papers; invalid ones are refused."""

from pathlib import Path

import pytest

from studio.bench.tables.definition import FIGURES, TableDefinition, read_table, table_names
from studio.bench.tables.nets import TableWorkspace, prepare
from studio.core.errors import BadFile, BadOption
from studio.core.folders import RECIPES
from studio.core.options import merge_options
from studio.engine.families.base import family_info
from studio.train.families.registry import training_for, without_teacher
from studio.train.recipes.recipe import read_recipe

PRINTED = [  # paper, part, row, figure: as printed
    ("000", 0, "XTTS-V2, n=1", "wer", 2.2228),
    ("000", 0, "RichTTS, n=1", "wer", 0.6818),
    ("000", 0, "RichTTS, whole text", "wer", 0.0328),
    ("000", 0, "n-gram RichTTS, n=5", "wer", 0.0664),
    ("000", 0, "SpeakStream S1, m=5, n=1", "wer", 0.0338),
    ("000", 0, "SpeakStream S1, m=6, n=6", "wer", 0.0430),
    ("000", 0, "SpeakStream S2, m=6, n=4", "wer", 0.0614),
    ("000", 1, "SpeakStream S1, m=5, n=1", "first_ms", 45.0),
    ("001", 0, "S5-TTS, k=3", "wer", 0.0727),
    ("001", 0, "T5-TTS, full context", "wer", 0.0320),
    ("001", 1, "without the encoder's mask", "wer", 0.4015),
    ("001", 3, "T5-TTS, after the whole sentence", "e2e_ms", 728.0),
    ("001", 3, "S5-TTS with distillation, k=2", "e2e_ms", 343.0),
    ("002", 0, "batch of 64", "x_real_time", 137.3),
    ("002", 1, "no look-ahead stream", "wer", 0.0351),
    ("003", 0, "6:24", "wer", 0.0890),
    ("003", 0, "whole text", "wer", 0.0416),
    ("004", 0, "incremental, overlap 4, mixed", "rtf", 0.087),
    ("004", 0, "non-incremental, long", "last_ms", 1405.51),
]


@pytest.mark.parametrize(("paper", "part", "row", "figure", "value"), PRINTED)
def test_figures_equal_the_papers(paper, part, row, figure, value):
    assert read_table(paper).parts[part].row(row).paper[figure] == pytest.approx(value)


def shop(tmp_path: Path, **changes) -> TableWorkspace:
    vocoders = tmp_path / "vocoders"
    vocoders.mkdir(exist_ok=True)
    for name in ("sourcefilter", "hifigan"):
        (vocoders / f"{name}.safetensors").touch()
    for speaker in ("af_heart", "am_michael"):
        (tmp_path / f"{speaker}-000.safetensors").touch()
    bpe = tmp_path / "bpe.json"
    bpe.touch()
    return TableWorkspace(
        **{"work": tmp_path / "work", "features": tmp_path, "vocoders": vocoders, "bpe": bpe, **changes}
    )


@pytest.mark.parametrize("name", ["000", "001", "002", "003", "004"])
def test_every_shipped_table_is_valid(name, tmp_path):
    assert name in table_names()
    table = read_table(name)
    recipes = prepare(shop(tmp_path), table, seeds=2)
    assert {*recipes} == {f"{net.name}{end}" for net in table.nets for end in ("", "-1")}
    used = {row.net for part in table.parts for row in part.rows}
    assert used - {""} == {net.name for net in table.nets}, "every net is in a row"
    for net in table.nets:
        first, second = recipes[net.name], recipes[f"{net.name}-1"]
        assert second.seed == first.seed + 1 and second.fit == first.fit
        size = sum(p.numel() for p in training_for(without_teacher(first)).module.net.parameters())
        assert size <= (6e6 if net.voice or net.like else 1e6), "tiny, or of a shipped voice"
    for part in table.parts:
        assert part.claims and part.differs
        for row in part.rows:
            if row.net:
                family = recipes[row.net].fit.family
                merge_options(family_info(family).options, row.options, {})


def test_net_has_the_changes_of_its_table(tmp_path):
    recipes = prepare(shop(tmp_path, steps=7), read_table("001"), seeds=1)
    assert {one.fit.steps for one in recipes.values()} == {7}
    assert recipes["s5-k2-imsd"].fit.look_ahead == [2] and recipes["s5-k2-imsd"].fit.distill.hidden_weight == 10.0
    assert recipes["s5-k3"].fit.look_ahead == [3] and recipes["s5"].fit.look_ahead == [1, 2, 3]
    masks = {
        name: [one.fit.config.get(f"{side}_mask", True) for side in ("encoder", "decoder")]
        for name, one in recipes.items()
    }
    assert masks["s5-k2"] == [True, True] and masks["s5-no-masks"] == [False, False]
    assert masks["s5-no-encoder-mask"] == [False, True] and masks["s5-no-decoder-mask"] == [True, False]
    windows = prepare(shop(tmp_path), read_table("000"), seeds=1)["speakstream-s2-m5"].fit.windows
    assert (windows.n, windows.look_ahead, windows.s2_share) == ([1], [4], 1.0)


GOOD = """
paper = "9"
title = "one"
nets = [{ name = "a", recipe = "richtts-tiny.toml" }]
[[parts]]
place = "Table 1"
measure = "wer"
rows = [{ name = "x", net = "a", paper = { wer = 0.1 } }, { name = "y", net = "a", paper = { wer = 0.2 } }]
claims = [{ says = "x is better.", better = "x", worse = "y" }]
"""


def read(tmp_path: Path, text: str) -> TableDefinition:
    (tmp_path / "9.toml").write_text(text, encoding="utf-8")
    return read_table("9", tmp_path)


def test_claim_is_about_the_first_figure_by_default(tmp_path):
    (part,) = read(tmp_path, GOOD).parts
    assert part.claims[0].figure == "wer" == next(iter(FIGURES["wer"]))


@pytest.mark.parametrize(
    ("old", "new", "told"),
    [
        ('recipe = "richtts-tiny.toml"', 'recipe = "none.toml"', "no recipe 'none.toml'"),
        ('measure = "wer"', 'measure = "ear"', "measure cannot be 'ear'; it is one of wer, queries, cascade"),
        ('net = "a", paper = { wer = 0.1 }', 'net = "b", paper = { wer = 0.1 }', "of no net 'b'; there are a"),
        ("{ wer = 0.1 }", "{ mos = 4.0 }", "no figure 'mos'"),
        ('name = "y"', 'name = "x"', "'x' twice"),
        ('worse = "y"', 'worse = "z"', "of no rows or figures"),
        ('better = "x", worse = "y"', 'better = "y", worse = "x"', "figures do not say 'x is better.'"),
        ('net = "a", paper = { wer = 0.1 }', 'reference = "ear", paper = { wer = 0.1 }', "cannot have the reference"),
        ('title = "one"', 'title = "one"\nloud = 1', "unknown keys: loud"),
        ('toml" }]', 'toml", teacher = "a" }]', "taught by no nets before it"),
        ('toml" }]', 'toml", after = "a", teacher = "a" }]', "taught by no nets before it"),
        ('measure = "wer"\nrows', 'measure = "queries"\nrows', "no figure 'wer'"),
    ],
)
def test_invalid_tables(tmp_path, old, new, told):
    assert old in GOOD
    with pytest.raises(BadOption, match=told):
        read(tmp_path, GOOD.replace(old, new))


QUERIES = 'load = { per_s = 1.0, seconds = 2.0, places = 4, kind = "short", arrivals = "fixed" }'
CASCADE = "load = { first_word_ms = 100.0, word_ms = 20.0 }"


@pytest.mark.parametrize(
    ("measure", "good", "changes"),
    [
        (
            "queries",
            QUERIES,
            [("places = 4", "places = 4.5"), (", seconds = 2.0", ""), ("per_s = 1.0", "per_s = 1.0, more = 1")],
        ),
        ("cascade", CASCADE, [("= 20.0", '= "20"'), (", word_ms = 20.0", ""), ("= 20.0", "= 20.0, per_s = 1.0")]),
    ],
)
def test_load_tables_are_complete(tmp_path, measure, good, changes):
    text = f"""
paper = "9"
title = "one"
nets = [{{ name = "a", recipe = "richtts-tiny.toml" }}]
[[parts]]
place = "Table 1"
measure = "{measure}"
rows = [{{ name = "x", net = "a", {good} }}]
"""
    read(tmp_path, text)
    for old, new in changes:
        assert old in text
        with pytest.raises(BadOption, match="does not say its load"):
            read(tmp_path, text.replace(old, new))


def test_missing_inputs_are_named_before_training(tmp_path):
    with pytest.raises(BadOption, match="there is no table '42'; there are 000, 001"):
        read_table("42")
    (tmp_path / "8.toml").write_text("= 1", encoding="utf-8")
    with pytest.raises(BadFile, match="cannot be read"):
        read_table("8", tmp_path)
    here = shop(tmp_path)
    (here.vocoders / "hifigan.safetensors").unlink()
    with pytest.raises(BadFile, match=r"no vocoder hifigan for tacotron-overlap-4.*--name hifigan"):
        prepare(here, read_table("004"), 1)
    with pytest.raises(BadFile, match=r"none has no features of af_heart; .*studio train features"):
        prepare(shop(tmp_path, features=tmp_path / "none"), read_table("004"), 1)
    with pytest.raises(BadOption, match=r"needs a byte-pair encoding.*--bpe"):
        prepare(shop(tmp_path, bpe=None), read(tmp_path, GOOD.replace("richtts-tiny", "ist-tiny")), 1)


def test_nets_of_a_table_share_their_training(tmp_path):
    two = GOOD.replace("nets = [", 'nets = [{ name = "b", recipe = "tacotron-tiny.toml" }, ')
    with pytest.raises(BadOption, match="not of the same speakers, unseen shards and steps"):
        prepare(shop(tmp_path), read(tmp_path, two), 1)
    assert len(prepare(shop(tmp_path, steps=5), read(tmp_path, two), 1)) == 2


def test_nets_continued_from_a_voice_have_their_own_steps(tmp_path):
    """The voice's steps are not repeated; a net that is only initialised from it has none."""
    on = '{ name = "b", voice = "wren", change = { fit = { steps = 7 } } }, '
    table = GOOD.replace("nets = [", f"nets = [{on}")
    found = prepare(shop(tmp_path), read(tmp_path, table), 1)
    assert [found[name].fit.steps for name in ("a", "b")] == [read_recipe(RECIPES / "richtts-tiny.toml").fit.steps, 7]
    other = on.replace('"b"', '"c"')
    for wrong in (other.replace("7", "8"), other.replace("fit =", "corpus = { validation_shards = 2 }, fit =")):
        with pytest.raises(BadOption, match="not of the same speakers, unseen shards and steps"):
            prepare(shop(tmp_path), read(tmp_path, GOOD.replace("nets = [", f"nets = [{on}{wrong}")), 1)


@pytest.mark.parametrize(
    ("change", "told"),
    [
        ('seed = "x"', r"net 'a': \[recipe\] seed cannot be 'x'; it is a whole number from 0"),
        ("seed = -2", r"net 'a': \[recipe\] seed cannot be -2; it is a whole number from 0"),
        ('fit = "x"', r"net 'a': \[fit\] family"),
        ("fit = { windows = { n = [1] } }", r"changes \[windows\], which richtts-tiny.toml has not"),
        ("fit = { steps = { x = 1 } }", r"net 'a' changes \[steps\], which richtts-tiny.toml has not"),
        ("fit = { config = { width = 33 }, steps = 0 }", r"net 'a': \[fit\] steps cannot be 0"),
    ],
)
def test_invalid_change_is_refused(tmp_path, change, told):
    odd = GOOD.replace('recipe = "richtts-tiny.toml" }', f'recipe = "richtts-tiny.toml", change = {{ {change} }} }}')
    with pytest.raises(BadOption, match=told):
        prepare(shop(tmp_path), read(tmp_path, odd), 1)
