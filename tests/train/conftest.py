"""The shipped recipe, made small."""

from dataclasses import replace
from pathlib import Path

import pytest

from studio.train.recipes.recipe import Recipe, read_recipe

RECIPE = Path(__file__).parents[2] / "assets" / "recipes" / "lark.toml"


@pytest.fixture
def recipe() -> Recipe:
    """What made the shipped voice."""
    return read_recipe(RECIPE)


@pytest.fixture
def small(recipe: Recipe) -> Recipe:
    """The same with a tiny net and three sentences a shard."""
    assert recipe.fit is not None
    fit = replace(recipe.fit, config={"layers": 1, "width": 32, "heads": 2, "hidden": 64, "speakers": 2}, steps=6)
    return replace(recipe, corpus=replace(recipe.corpus, shard_sentences=3), fit=fit)
