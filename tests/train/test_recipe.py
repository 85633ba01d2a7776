"""Recipes and tables are user input: errors are reported before training starts."""

import re
import shutil
from pathlib import Path

import pytest
import torch
from typer.testing import CliRunner

from studio.bench.tables.definition import read_table
from studio.cli import cli
from studio.core.cards import read_card
from studio.core.errors import BadFile, BadOption, StudioError
from studio.core.folders import RECIPES, TABLES, VOICES
from studio.train.families.registry import training_for
from studio.train.fit.loop import run
from studio.train.pack import learned_from
from studio.train.recipes.recipe import read_recipe, vocoder_settings

EVERY = [*RECIPES.glob("*.toml"), *VOICES.glob("*/recipe.toml")]


def changed(tmp_path: Path, *changes: tuple[str, str], of: str = "ist-tiny") -> Path:
    text = (RECIPES / f"{of}.toml").read_text(encoding="utf-8")
    for old, new in changes:
        text, count = re.subn(rf"(?m)^{old}.*$", new.replace("\\", r"\\"), text, count=1)
        assert count == 1, old
    path = tmp_path / "recipe.toml"
    path.write_text(text, encoding="utf-8")
    return path


@pytest.mark.parametrize("path", EVERY, ids=[f"{path.parent.name}-{path.stem}" for path in EVERY])
def test_shipped_recipes_are_readable(path):
    assert read_recipe(path).corpus.speakers


@pytest.mark.parametrize(
    ("key", "line", "message"),
    [
        ("steps =", 'steps = "many"', r"\[fit\] steps cannot be 'many'; it is a whole number from 1"),
        ("steps =", "steps = -1", r"\[fit\] steps cannot be -1; it is a whole number from 1 to"),
        ("steps =", "steps = 0", "steps cannot be 0"),
        ("steps =", "steps = true", "steps cannot be True"),
        ("peak_rate =", "peak_rate = nan", "peak_rate cannot be nan; it is a number from 0 to 1"),
        ("own_share =", "own_share = 1.5", "own_share cannot be 1.5; it is a number from 0 to 1"),
        ("seed =", 'seed = "x"', r"\[recipe\] seed cannot be 'x'"),
        (
            "seed =",
            "seed = -1",
            r"\[recipe\] seed cannot be -1; it is a whole number from 0 to 9,223,372,036,854,775,807",
        ),
        ("seed =", "seed = 99999999999999999999999999", "seed cannot be 9999.*; it is a whole number from 0"),
        ("name =", 'name = "../../x"', r"a voice cannot be called '\.\./\.\./x'"),
        ("speakers = \\[", "speakers = []", r"speakers is \[\]; it lists one or more"),
        ("speakers = \\[", 'speakers = ["a", "a"]', "each once"),
        ("speakers = \\[", 'speakers = "ab"', "speakers cannot be 'ab'; it is a list of values, each text"),
        ("shard_sentences =", "shard_sentences = 0", "has empty shards"),
        ("family =", 'family = ["s5"]', r"family \['s5'\] cannot be trained"),
        (
            "prompt_frames =",
            "prompt_frames = 1979-05-27",
            "prompt_frames cannot be .*; it is a list of values, each a whole number",
        ),
        (
            "prompt_frames =",
            "prompt_frames = [60]",
            r"prompt_frames cannot be \[60\]; it is two lengths, \[fewest, most\]",
        ),
        ("prompt_frames =", "prompt_frames = [120, 60]", r"prompt_frames cannot be \[120, 60\]; it is two lengths"),
        ("temperature =", "temperature = -1.0", r"\[recipe\] temperature cannot be -1.0; it is a number from 0 to 2"),
        ("temperature =", "temperature = nan", "temperature cannot be nan"),
        ("own_share =", '"\\u001b[31mx" = 1', r"unknown keys: \\x1b\[31mx;"),
        ("layers =", "layers = 1000000000", "layers cannot be 1000000000; it is a whole number from 1 to 256"),
        ("width =", 'width = "x"', "width cannot be 'x'"),
        ("width =", "width = -1", "width cannot be -1"),
        ("heads =", "heads = 0", "heads cannot be 0"),
        ("heads =", "depth = 3", "unknown keys: depth"),
    ],
)
def test_wrong_type_or_range_is_named(tmp_path, key, line, message):
    with pytest.raises(BadOption, match=message):
        training_for(read_recipe(changed(tmp_path, (key, line))))


@pytest.mark.parametrize("text", ['fit = "x"', "corpus = 3", "fit = 3", "[fit]\nfamily = 1", "[fit]\nwindows = 3"])
def test_recipe_of_another_kind_is_refused(tmp_path, text):
    path = tmp_path / "recipe.toml"
    path.write_text('[corpus]\nspeakers = ["a"]\nshard_sentences = 1\nvalidation_shards = 0\n', encoding="utf-8")
    whole = f"{text}\n{path.read_text()}" if "corpus" not in text else text
    path.write_text(whole, encoding="utf-8")
    with pytest.raises(BadOption, match=r"is 3; it is an object|cannot be trained"):
        read_recipe(path)


@pytest.mark.parametrize(
    ("key", "line", "message"),
    [
        ("n =", "n = []", r"n cannot be \[\]; it lists one or more numbers of words, 1 to 6"),
        ("n =", "n = [1, 2, 3, 4, 5, 7]", "n cannot be .*, 7.*1 to 6"),
        ("n_weights =", "n_weights = [0.5, 0.5]", "n_weights cannot be .*for each of the 6 of n"),
        ("n_weights =", "n_weights = [nan, 1, 0, 0, 0, 0]", "n_weights cannot be .nan"),
        ("n_weights =", "n_weights = [-1, 2, 0, 0, 0, 0]", "n_weights cannot be .-1.*from 0 up"),
        ("n_weights =", "n_weights = [0, 0, 0, 0, 0, 0]", "n_weights cannot be .*add up to 1"),
        ("look_ahead =", "look_ahead = [0, 1, 2, 3, 4, 6]", "look_ahead cannot be .*numbers of words, 0 to 5"),
        ("look_ahead_weights =", "look_ahead_weights = []", "look_ahead_weights cannot be"),
        ("flush_share =", "flush_share = 1.5", "flush_share cannot be 1.5; it is a number from 0 to 1"),
    ],
)
def test_impossible_windows_are_refused(tmp_path, key, line, message):
    with pytest.raises(BadOption, match=rf"\[fit.windows\] {message}"):
        read_recipe(changed(tmp_path, (key, line), of="speakstream-tiny"))


@pytest.mark.parametrize("said", ["[]", "[4]", "[-1]"])
def test_look_aheads_beyond_the_window_are_refused(tmp_path, said):
    with pytest.raises(BadOption, match=r"\[fit\] look_ahead cannot be .* from 1 to 3, or 0 for all"):
        read_recipe(changed(tmp_path, ("look_ahead =", f"look_ahead = {said}"), of="s5-tiny"))


def test_recipe_without_a_fit_fits_nothing():
    with pytest.raises(BadOption, match=r"'ten-speakers' trains no voice; add a \[fit\]"):
        training_for(read_recipe(RECIPES / "ten-speakers.toml"))


@pytest.mark.parametrize("heads", [3, 128])
@pytest.mark.parametrize("family", ["speakstream", "s5", "ist", "dsm"])
def test_heads_that_do_not_divide_the_width_are_refused(tmp_path, family, heads):
    recipe = read_recipe(changed(tmp_path, ("heads =", f"heads = {heads}"), of=f"{family}-tiny"))
    with pytest.raises(BadOption, match=f"{heads} heads cannot share a width of 128; .*an even whole number"):
        training_for(recipe)


@pytest.mark.parametrize(
    ("family", "key", "line"),
    [("speakstream", "width =", "width = 100000"), ("tacotron", "speakers = \\d", "speakers = 2\nkernel = 200000")],
)
def test_oversized_net_is_refused_before_allocation(tmp_path, family, key, line):
    recipe = read_recipe(changed(tmp_path, (key, line), of=f"{family}-tiny"))
    with pytest.raises(BadOption, match=r"would have [\d,]+ parameters; it may have 2,000,000,000"):
        training_for(recipe)


def test_net_larger_than_memory_is_refused(tmp_path, monkeypatch):
    (tmp_path / "meminfo").write_text("MemTotal: 9000 kB\nMemAvailable: 2000 kB\n", encoding="ascii")
    monkeypatch.setattr("studio.train.fit.resources._MEMINFO", tmp_path / "meminfo")
    with pytest.raises(BadOption, match=r"parameters need \d\.\d MB of memory; 2\.0 MB are free"):
        training_for(read_recipe(RECIPES / "speakstream-tiny.toml"))
    (tmp_path / "meminfo").write_text("MemAvailable: 10000 kB\n", encoding="ascii")
    fitting = training_for(read_recipe(RECIPES / "speakstream-tiny.toml"))
    with pytest.raises(BadOption, match=r"need 17\.\d MB of memory; 10\.2 MB are free"):
        run(fitting, tmp_path, tmp_path / "state", torch.device("cpu"))


def test_nested_lists_are_no_recipe_and_no_table(tmp_path):
    nested = f"a = {'[' * 100_000}"
    (tmp_path / "recipe.toml").write_text(nested, encoding="utf-8")
    with pytest.raises(BadFile, match="cannot be read: it is nested too deeply"):
        read_recipe(tmp_path / "recipe.toml")
    (tmp_path / "9.toml").write_text(nested, encoding="utf-8")
    with pytest.raises(BadFile, match="cannot be read: it is nested too deeply"):
        read_table("9", tmp_path)


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ('name = "ist"', 'name = "../../escaped"', r"no net can be called '\.\./\.\./escaped'"),
        ('voice = "linnet"', 'recipe = "../voices/finch/recipe.toml"', r"no recipe '\.\./voices"),
        ('voice = "linnet"', 'recipe = "/etc/passwd"', "no recipe '/etc/passwd'"),
        ('voice = "linnet"', 'voice = "../x"', r"of no voice '\.\./x'"),
        ('voice = "linnet"', "recipe = 3", r"\[nets\] recipe cannot be 3; it is text"),
        ('name = "ist"', 'name = ["q"]', r"\[nets\] name cannot be \['q'\]"),
        ('measure = "wer"', 'measure = ["wer"]', r"measure cannot be \['wer'\]; it is one of"),
        ('paper = "003"', 'paper = "003"\nparts = [1]', "cannot be read"),
    ],
)
def test_invalid_table_is_refused(tmp_path, old, new, message):
    shutil.copytree(TABLES, tmp_path / "tables")
    path = tmp_path / "tables" / "003.toml"
    text = path.read_text(encoding="utf-8")
    assert old in text
    path.write_text(text.replace(old, new, 1), encoding="utf-8")
    with pytest.raises(StudioError, match=message):
        read_table("003", tmp_path / "tables")


@pytest.mark.parametrize("name", ["nets", "parts"])
def test_table_lists_tables(tmp_path, name):
    (tmp_path / "9.toml").write_text(f'paper = "9"\ntitle = "one"\n{name} = [1]\n', encoding="utf-8")
    with pytest.raises(BadOption, match=rf"\[table\] {name} cannot be \[1\]; it is a list of tables"):
        read_table("9", tmp_path)


@pytest.mark.parametrize(
    ("said", "message"),
    [
        ("stepz = 3", r"\[vocoders.mine\] has unknown keys: stepz; known are"),
        ('steps = "x"', r"\[vocoders.mine\] steps cannot be 'x'; it is a whole number"),
    ],
)
def test_invalid_vocoder_settings_are_refused(tmp_path, said, message):
    recipe = changed(tmp_path, ("\\[fit\\]", f"[vocoders.mine]\n{said}\n[fit]"))
    folders = [f"--{name}={tmp_path / name}" for name in ("corpus", "state", "export")]
    done = CliRunner().invoke(cli, ["train", "vocoder", f"--recipe={recipe}", "--name=mine", *folders])
    assert isinstance(done.exception, BadOption) and re.search(message, str(done.exception))


def test_vocoder_names_are_printed_safely(tmp_path):
    recipe = changed(tmp_path, ("\\[fit\\]", '[vocoders."\\u001b[31mred"]\n[fit]'))
    with pytest.raises(BadOption, match=r"it has \\x1b\[31mred$"):
        vocoder_settings(read_recipe(recipe), "none")


@pytest.mark.parametrize("name", [path.parent.name for path in VOICES.glob("*/recipe.toml")])
def test_card_of_a_shipped_voice_names_its_corpus(name):
    folder = VOICES / name
    corpus = read_recipe(folder / "recipe.toml").corpus
    said = read_card(folder).learned_from
    assert said == learned_from(corpus)
    learned, _, referred = said.partition("References alone: ")
    unseen = {called for called, speaker in corpus.named().items() if speaker in corpus.unseen}
    for called, speaker in corpus.named().items():
        there, elsewhere = (referred, learned) if called in unseen else (learned, referred)
        assert f"{called}: Kokoro-82M's {speaker} " in there and speaker not in elsewhere
    assert ("by the voice wren" in said) is (name != "wren")
