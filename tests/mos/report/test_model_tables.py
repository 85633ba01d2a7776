"""The ordinal model beside the means: its numbers in every format, or the reason why there are none."""

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest
from mos.rated import MOS, PAGE, PAIRS, a_world, campaign, rate
from mos.world import World

from studio.mos.analysis.results import analysed_answers, results
from studio.mos.kinds.tables import ratings_of
from studio.mos.report.models import second_opinion_tables
from studio.mos.report.page import html
from studio.mos.report.tables import latex, markdown
from studio.mos.stats.columns import ScoreScale
from studio.mos.stats.ordinal import OrdinalResult, ordinal_model


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    """Scores of two questions by four raters, pairs, a page of systems on a long scale, and scores of one rater."""
    folder = tmp_path_factory.mktemp("opinions")
    world = a_world(folder)
    for name, config, raters in (("mos", MOS, 4), ("alone", MOS, 1), ("pairs", PAIRS, 1), ("page", PAGE, 2)):
        campaign(world, folder / name, replace(config, raters_per_stimulus=4), name)
        for k in range(raters):
            rate(world, f"rater {k}", name)
    yield world
    world.store.close()


def results_of(world: World, name: str) -> dict[str, Any]:
    return world.read(results, name, everyone=True)


def test_tables_print_the_model(world: World) -> None:
    found = results_of(world, "mos")
    answers = world.read(analysed_answers, "mos")
    for at, question in enumerate(("naturalness", "coherence")):
        said: OrdinalResult = ordinal_model(ratings_of(answers, question, ScoreScale(1, 5)))
        expected, apart = second_opinion_tables(found)[2 * at : 2 * at + 2]
        assert expected.caption == f"{question}: a second opinion, by an ordinal mixed model"
        for row in expected.rows:
            mean, location = said.systems[row[0]], said.locations[row[0]]
            assert mean.low is not None and mean.high is not None
            assert row[2] == f"{mean.mean:.2f} [{mean.low:.2f}, {mean.high:.2f}]"
            assert row[3].replace("−", "-").startswith(f"{location.mean:.2f} [")
        assert [row[0] for row in apart.rows] == ["heron − osprey", "heron − teal", "osprey − teal"]
        assert apart.rows[0][1].replace("−", "-") == f"{said.differences[0].interval.mean:.2f}"
        assert any("raters" in note and "1.81" in note for note in expected.notes)
        assert any("Only 4 raters" in note for note in expected.notes)


@pytest.mark.parametrize("form", [html, latex, markdown])
def test_every_format_has_the_model_beside_the_means(world: World, form: Any) -> None:
    text = form(results_of(world, "mos"))
    assert text.count("by an ordinal mixed model") == 2 and text.count("differences by the ordinal model") == 2
    assert "Cumulative logit mixed model" in text


def test_reason_for_a_missing_model_is_printed(world: World) -> None:
    [naturalness, coherence] = second_opinion_tables(results_of(world, "alone"))
    for table in (naturalness, coherence):
        assert [row[2:] for row in table.rows] == [["–", "–"]] * 3
        assert table.notes == ["No model: the answers are of 1 rater and 3 scripts."]


@pytest.mark.parametrize("name", ["pairs", "page"])
def test_choices_and_long_scales_have_no_model(world: World, name: str) -> None:
    found = results_of(world, name)
    assert found["second_opinion"] == {} and second_opinion_tables(found) == []
    assert "second opinion" not in html(found)
