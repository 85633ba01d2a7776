"""The shipped recipe in small, and a tiny voice with all its inputs."""

import shutil
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from tinyfeatures import tiny_recipe, write_tiny_features, write_tiny_vocoder

from studio.train.families.registry import training_for
from studio.train.fit.loop import run
from studio.train.pack import pack_voice
from studio.train.recipes.recipe import Recipe, read_recipe

RECIPE = Path(__file__).parents[2] / "assets" / "recipes" / "lark.toml"


@pytest.fixture
def recipe() -> Recipe:
    """The recipe of the shipped voice."""
    return read_recipe(RECIPE)


@pytest.fixture
def small(recipe: Recipe) -> Recipe:
    """The same with a tiny net and three sentences per shard."""
    assert recipe.fit is not None
    fit = replace(recipe.fit, config={"layers": 1, "width": 32, "heads": 2, "hidden": 64, "speakers": 2}, steps=6)
    return replace(recipe, corpus=replace(recipe.corpus, shard_sentences=3), fit=fit)


@pytest.fixture(scope="module")
def trained(tmp_path_factory) -> Path:
    """Features, a state, a vocoder and a packed voice."""
    root = tmp_path_factory.mktemp("damaged")
    write_tiny_features(root / "features")
    run(training_for(tiny_recipe("t5")), root / "features", root / "state", torch.device("cpu"), threads=1)
    pack_voice(tiny_recipe("t5"), root / "state", write_tiny_vocoder(root / "vocoders"), root / "voices")
    return root


@pytest.fixture
def made(trained, tmp_path) -> Path:
    """A copy of the same for a test to damage."""
    return Path(shutil.copytree(trained, tmp_path / "made"))


@pytest.fixture(scope="session")
def features(tmp_path_factory) -> Path:
    """Two shards of three sentences of each of two speakers, one of them for validation."""
    return write_tiny_features(tmp_path_factory.mktemp("features"))
