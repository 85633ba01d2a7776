"""Reports print the numbers of the statistics, escape all text and load nothing."""

import re
import time
import tracemalloc
from collections.abc import Iterator
from dataclasses import asdict, replace
from html.parser import HTMLParser
from itertools import combinations
from typing import Any, get_args

import numpy as np
import pytest
from mos.rated import CHECKED, MOS, NASTY, PAGE, PAIRS, a_world, campaign, rate
from mos.stats.games import played
from mos.world import World

from studio.mos.analysis.answers import load_answers
from studio.mos.analysis.results import results
from studio.mos.campaign.config import Question, StopRule
from studio.mos.kinds.tables import ratings_of, votes_of
from studio.mos.report.cells import confidence, latex_text, markdown_text
from studio.mos.report.charts import histogram
from studio.mos.report.design import design_rows
from studio.mos.report.page import html
from studio.mos.report.tables import detail_tables, latex, markdown, paper_tables, stopping_rule_text
from studio.mos.sessions.campaigns import find_campaign
from studio.mos.stats import elo, means, preference
from studio.mos.stats.columns import ScoreScale, Votes
from studio.mos.stats.interval import Interval
from studio.ui.vote_figures import ladder as figure_of

TITLE = "<script>alert(1)</script> & 100% of $x_1$ | `a` {b} \\c"
RATERS = 6


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    """Rated campaigns of three kinds, and an unrated one."""
    folder = tmp_path_factory.mktemp("reports")
    world = a_world(folder)
    texts = replace(MOS.texts, title=TITLE)
    checked = replace(CHECKED, gates=replace(CHECKED.gates, golds=0))
    nasty = Question("naturalness", f"How {TITLE}?", 1, 5)
    campaign(world, folder / "a", replace(checked, texts=texts, questions=[nasty, MOS.questions[1]]), "mos", ("trap",))
    campaign(world, folder / "b", replace(PAIRS, texts=texts, prompt=TITLE), "pairs")
    campaign(world, folder / "c", replace(PAGE, stop=StopRule(90.0)), "page")
    campaign(world, folder / "d", replace(MOS, stop=StopRule(0.1)), "empty")
    for name in ("mos", "pairs", "page"):
        for k in range(RATERS):
            rate(world, f"PID-{k}", name, comment=NASTY)
    yield world
    world.store.close()


@pytest.fixture(scope="module")
def found(world: World) -> dict[str, dict[str, Any]]:
    """Results of all raters, by campaign."""
    with world.store.read() as session:
        return {
            n: results(session, find_campaign(session, n), everyone=True) for n in ("mos", "pairs", "page", "empty")
        }


def answers(world: World, name: str) -> Any:
    with world.store.read() as session:
        row = find_campaign(session, name)
        assert row.id is not None
        return load_answers(session, row.id, everyone=True)


class Page(HTMLParser):
    """The tags, attributes and text of a page."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.attributes: list[tuple[str, str | None]] = []
        self.text = ""
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.attributes += attrs

    def handle_data(self, data: str) -> None:
        self.text += data


def printed(interval: Interval, digits: int) -> str:
    """Both ends if they are not symmetric about the mean."""
    assert interval.low is not None and interval.high is not None and interval.half_width is not None
    if interval.high + interval.low == pytest.approx(2 * interval.mean):
        return f"{interval.mean:.{digits}f} ± {interval.half_width:.{digits}f}"
    return f"{interval.mean:.{digits}f} [{interval.low:.{digits}f}, {interval.high:.{digits}f}]"


def test_means_equal_the_statistics(world: World, found: dict[str, Any]) -> None:
    [table] = paper_tables(found["mos"])
    assert table.columns == ["System", "naturalness (1-5)", "coherence (1-5)", "ratings"]
    asked = ("naturalness", "coherence")
    by = {q: means.by_system(ratings_of(answers(world, "mos"), q, ScoreScale(1, 5))) for q in asked}
    assert [row[0] for row in table.rows] == ["heron", "osprey", "teal"]
    for system, *cells, ratings in table.rows:
        assert cells == [printed(by[q][system], 2) for q in by]
        assert ratings == str(by["coherence"][system].n)


def test_every_stimulus_is_listed_by_script_and_system(world: World, found: dict[str, Any]) -> None:
    table = next(t for t in detail_tables(found["mos"]) if t.caption == "naturalness: every stimulus")
    by = means.by_stimulus(ratings_of(answers(world, "mos"), "naturalness", ScoreScale(1, 5)))
    assert table.columns[:2] == ["Script", "System"]
    assert [(row[0], row[1]) for row in table.rows] == sorted((item, system) for system, item in by)
    for item, system, mean, *_ in table.rows:
        assert mean == f"{by[system, item].mean:.2f}"


def test_page_of_systems_prints_one_standard_error_and_the_interval(world: World, found: dict[str, Any]) -> None:
    [table] = paper_tables(found["page"])
    ratings = ratings_of(answers(world, "page"), "quality", ScoreScale(1, 100))
    plain, both = means.by_system(ratings, "plain"), means.by_system(ratings)
    for system, error, interval, _ in table.rows:
        assert error == f"{plain[system].mean:.1f} ± {plain[system].se:.1f}"
        assert interval == printed(both[system], 1)
    assert "one standard error" in table.columns[1] and "95% interval" in table.columns[2]


def test_preferences_and_elo_equal_the_statistics(world: World, found: dict[str, Any]) -> None:
    shares, ladder, differences = paper_tables(found["pairs"])
    votes = votes_of(answers(world, "pairs"))
    assert votes.item is not None
    for row, pair in zip(shares.rows, preference.pairwise_preferences(votes), strict=True):
        n = pair.share.n
        counts = (pair.wins_a, pair.ties, pair.both_bad, pair.wins_b)
        assert row[:6] == [pair.a, pair.b, *(f"{100 * c / n:.1f}%" for c in counts)]
        assert pair.share.low is not None and pair.share.high is not None and pair.p is not None
        assert row[6:8] == [f"{pair.share.mean:.1%} [{pair.share.low:.1%}, {pair.share.high:.1%}]", f"{pair.p:.3f}"]
        assert row[8] == f"{pair.p_holm:.3f}"
    report = elo.elo_report(votes, "gamma")
    systems = report["systems"]
    best = sorted(systems, key=lambda name: -systems[name]["elo"])
    assert [row[0] for row in ladder.rows] == best
    for name, score, interval, *_ in ladder.rows:
        assert score == f"{systems[name]['elo']:.0f}"
        assert interval == f"[{systems[name]['lo']:.0f}, {systems[name]['hi']:.0f}]"
    assert "a0 = 0.1, rate b0 = 0.1" in ladder.notes[0] and "c = 2000" in ladder.notes[0]
    assert "by rater and script" in ladder.notes[0] and any("Of the votes: ties" in note for note in ladder.notes)
    assert len(differences.rows) == len(report["differences"]) == 3
    assert "3 scripts" in " ".join(shares.notes)  # and the caveat for so few raters


def test_undefeated_system_is_marked_in_tables_charts_and_notes(found: dict[str, Any]) -> None:
    votes = played("heron>osprey", "heron>teal", "osprey>teal", "teal>osprey")
    pairs = {
        m: [asdict(p) for p in preference.pairwise_preferences(votes, m)] for m in get_args(preference.ShareMethod)
    }
    reports = {m: elo.elo_report(votes, m) for m in ("gamma", "mle", "dsm", "davidson", "posterior")}
    choices = found["pairs"]["tables"]["choices"]
    choices = choices | {"pairs": pairs, "elo": reports | {"by_rater": elo.elo_report(votes, clusters="by_rater")}}
    results = found["pairs"] | {"tables": {"choices": choices}}
    ladder = next(t for t in paper_tables(results) if t.caption == "Elo")
    assert ladder.rows[0][:2] == ["heron", "–"] and ladder.rows[0][2].startswith("undefeated, above ")
    text = Page(html(results)).text
    assert text.count("undefeated, above ") >= 3  # the charts for desktop and phone, the table
    assert text.count("heron: undefeated by the systems outside its group") == 2  # beside the chart, below the table
    assert "undefeated, above" in markdown(results) and "undefeated, above" in latex(results)
    drawn = figure_of(results).data[0]
    assert drawn.marker.symbol[0] == "triangle-right"
    assert "%{text}" in drawn.texttemplate[0] and drawn.text[0].startswith("undefeated, above ")


def test_unbalanced_scripts_are_noted(found: dict[str, Any]) -> None:
    whole = found["mos"]["tables"]["questions"]
    assert not any("on the same scripts" in note for t in paper_tables(found["mos"]) for note in t.notes)
    table = whole["naturalness"]
    one, *others = table["differences"]
    one = one | {"left_out": 2, "interval": one["interval"] | {"items": 1}}
    questions = whole | {"naturalness": table | {"differences": [one, *others]}}
    results = found["mos"] | {"tables": {"questions": questions}}
    [means] = paper_tables(results)
    assert any("Scripts with ratings: heron 3, osprey 3, teal 3." in note for note in means.notes)
    differences = next(t for t in detail_tables(results) if t.caption == "naturalness: differences")
    assert differences.columns[-1] == "common scripts" and [row[-1] for row in differences.rows] == ["1", "3", "3"]


@pytest.mark.parametrize("name", ["mos", "pairs", "page", "empty"])
def test_html_loads_nothing_runs_nothing_and_escapes_text(name: str, found: dict[str, Any]) -> None:
    text = html(found[name])
    page = Page(text)
    allowed = {"html", "head", "meta", "title", "style", "body", "main", "h1", "h2", "h3", "p", "dl", "div", "dt", "dd"}
    allowed |= {"section", "figure", "figcaption", "table", "caption", "thead", "tbody", "tr", "th", "td", "details"}
    allowed |= {"summary", "span", "svg", "line", "text", "circle", "rect"}
    assert set(page.tags) <= allowed
    assert not {k for k, _ in page.attributes if k.startswith("on") or k in ("src", "href", "srcset")}
    assert not re.search(r"https?://|@import|url\(", text)
    assert "default-src 'none'" in text
    assert found[name]["title"] in page.text
    assert text.count("<h1>") == 1


def test_html_has_every_section(found: dict[str, Any]) -> None:
    page = Page(html(found["mos"]))
    for part in ("naturalness", "coherence", "Distribution of scores", "Raters", "Design and methods", "Codebook"):
        assert part in page.text
    for fact in (
        "Seed of the assignment",
        "9 usable raters for each unit",
        "clustered by rater and script",
        "response_ms",
    ):
        assert fact in page.text
    assert "heard_ms" in page.text and "traps answered correctly" in page.text
    choices = Page(html(found["pairs"]))
    for part in ("Elo", "Probability of being better", "Wins", "a0 = 0.1, b0 = 0.1, c = 2000", "Votes by side"):
        assert part in choices.text
    assert "No answers yet" in Page(html(found["empty"])).text


@pytest.mark.parametrize("name", ["mos", "pairs", "page", "empty"])
def test_report_identifies_no_rater(name: str, found: dict[str, Any]) -> None:
    for text in (html(found[name]), latex(found[name]), markdown(found[name])):
        assert "PID-" not in text
        assert "HYPERLINK" not in text
        assert not re.search(r"\b1 (raters|answers)\b", text)


def test_latex_is_balanced_and_escaped(found: dict[str, Any]) -> None:
    text = latex(found["mos"])
    assert text.count(r"\begin{table}") == text.count(r"\end{table}") == 5  # means, each with the model
    assert r"\begin{tabular}{lccc}" in text
    assert r"$\pm$" in text
    assert "±" not in text
    mean = r"\d\.\d\d (\$\\pm\$ \d\.\d\d|\[\d\.\d\d, \d\.\d\d\])"
    assert re.search(rf"heron & {mean} & {mean} & \d+ \\\\", text)
    for special in "%&#_$":
        assert latex_text(special) == f"\\{special}"
    assert latex_text("a\\b{c}") == r"a\textbackslash{}b\{c\}"
    assert latex(found["empty"]).startswith("% empty")


def test_markdown_escapes_text(found: dict[str, Any]) -> None:
    text = markdown(found["pairs"])
    assert "<script" not in text
    assert markdown_text("a|b*c*<i>\n_d_") == r"a\|b\*c\*&lt;i&gt; \_d\_"
    table = [line for line in text.splitlines() if line.startswith("|")]
    assert len({re.sub(r"\\\|", "", line).count("|") for line in table[:5]}) == 1
    assert f"## {detail_tables(found['pairs'])[0].caption}" in text


def test_stopping_rule_state_is_reported(found: dict[str, Any]) -> None:
    assert stopping_rule_text(found["mos"]) is None
    assert (
        stopping_rule_text(found["page"])
        == "Stopping rule (every 95% interval at most ±90): reached. First look at 20 finished raters."
    )
    assert str(stopping_rule_text(found["empty"])).endswith("no answers yet.")
    tight = found["page"] | {"rule": found["page"]["rule"] | {"half_width": 0.01}}
    assert "not reached by 3 of 3" in str(stopping_rule_text(tight))


def test_missing_numbers_are_dashes_with_reasons(found: dict[str, Any]) -> None:
    """One rater gives no interval and one-sided votes no maximum likelihood; neither prints a number."""
    row = {"elo": None, "lo": None, "hi": None, "state": None}
    lost = found["pairs"]["tables"]["choices"]["elo"]["mle"]
    lost = lost | {"systems": dict.fromkeys(lost["systems"], row), "reason": "heron never lost", "differences": []}
    choices = found["pairs"]["tables"]["choices"]
    choices = choices | {"elo": dict.fromkeys(choices["elo"], lost)}
    less = found["pairs"] | {"tables": {"choices": choices}}
    assert "heron never lost" in html(less)
    assert "None" not in Page(html(less)).text
    assert "nan" not in markdown(less)


def test_report_of_a_million_votes_and_thirty_systems_is_fast(found: dict[str, Any]) -> None:
    rng, size, n = np.random.default_rng(0), 30, 1_000_000
    a = rng.integers(size, size=n)
    b = (a + 1 + rng.integers(size - 1, size=n)) % size
    outcome, rater, item = rng.integers(4, size=n).astype(np.uint8), rng.integers(300, size=n), rng.integers(40, size=n)
    votes = Votes(a, b, outcome, rater, names(size), raters(300), item, names(40))
    counts = {"wins_a": 900, "wins_b": 800, "ties": 300, "both_bad": 298}
    share = {"mean": 0.5, "low": 0.48, "high": 0.52, "n": 2298, "raters": 300, "items": 40}
    pairs = [
        {"a": x, "b": y, **counts, "share": share, "p": 0.5, "p_holm": 1.0} for x, y in combinations(votes.systems, 2)
    ]
    choices = {
        "n": n,
        "names": votes.systems,
        "pairs": dict.fromkeys(get_args(preference.ShareMethod), pairs),
        "elo": dict.fromkeys(found["pairs"]["tables"]["choices"]["elo"], elo.elo_report(votes)),
        "constants": {"a0": 0.1, "b0": 0.1, "c": 2000.0},
        "sides": {"a": 1, "b": 2, "tie": 3, "both_bad": 4},
    }
    large = found["pairs"] | {"tables": {"choices": choices}, "raters": 300}
    tracemalloc.start()
    began = time.process_time()
    text = html(large) + latex(large) + markdown(large)
    took_s, peak = time.process_time() - began, tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert took_s < 2.0
    assert peak < 50e6
    assert len(text) < 3_000_000


def names(count: int) -> list[str]:
    return [f"system-{k:02}" for k in range(count)]


def raters(count: int) -> list[str]:
    return [f"r{k}" for k in range(count)]


def test_no_probability_is_rounded_to_certainty() -> None:
    assert [confidence(p) for p in (None, 0.0001, 0.01, 0.5, 0.99, 0.995)] == [
        "\N{EN DASH}", "< 1%", "1%", "50%", "99%", "> 99%"
    ]  # fmt: skip


def test_design_lists_what_is_on_without_empty_braces(found: dict[str, Any]) -> None:
    design = found["mos"]["design"] | {"gates": {"level": True, "pace": True, "traps": 1, "golds": 0}}
    assert dict(design_rows(found["mos"] | {"design": design}))["Gates"] == "level, pace, traps 1"
    assert "{}" not in Page(html(found["mos"])).text


def test_tens_of_a_long_scale_do_not_run_together() -> None:
    drawn = histogram([1] * 101, 0, "heron")
    assert re.findall(r'text-anchor="middle">(\d+)<', drawn) == ["0", "20", "40", "60", "80", "100"]
    assert len(re.findall(r'text-anchor="middle">', histogram([1] * 5, 1, "heron"))) == 5
