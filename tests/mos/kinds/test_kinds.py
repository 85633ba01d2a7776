"""Kinds of test: the screens they make, the settings and the answers they accept."""

from collections import Counter
from dataclasses import replace
from itertools import combinations
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from mos.world import AB, ACR

from studio.core.errors import BadFile, BadOption
from studio.mos.campaign.config import CampaignConfig, Question
from studio.mos.campaign.design import AssignmentCounts, UnitTable, assign_units
from studio.mos.kinds.base import AnswerMark, BadAnswer, StimulusStock
from studio.mos.kinds.registry import KINDS, kind_of
from studio.mos.store.tables import AnswerCreate, ChoiceCreate, ScoreCreate

SIMILARITY = replace(AB, kind="similarity", choices=["a", "b"])
SCALE = replace(ACR, kind="scale", questions=[Question("quality", "How good?", 1, 100)])
CCR = replace(ACR, kind="ccr", questions=[Question("quality", "B against A?", -3, 3)])
DCR = replace(ACR, kind="dcr", questions=[Question("degradation", "How bad?", 1, 5)])
P835 = replace(ACR, kind="p835", questions=[Question(q, "", 1, 5) for q in ("SIG", "BAK", "OVRL")])
ABX = replace(AB, kind="abx", choices=["a", "b"])
LIVE = replace(AB, kind="live")
ARENA = replace(AB, kind="arena")
MUSHRA = replace(ACR, kind="mushra", questions=[Question("quality", "How good?", 0, 100)])
CONFIGS = {c.kind: c for c in (ACR, P835, AB, SIMILARITY, SCALE, CCR, DCR, ABX, MUSHRA, LIVE, ARENA)}
TRIAL = "ab" * 12


def stock(items: int = 3, systems: int = 3, references: int = 0, baseline: int | None = None) -> StimulusStock:
    """Systems 0.., references 90.., a stimulus for each script and system."""
    names = [*range(systems), *range(90, 90 + references)]
    there = {(i, s): i * 100 + s for i in range(items) for s in names}
    return StimulusStock(range(items), range(systems), range(90, 90 + references), baseline, there)


def without(full: StimulusStock, item: int, system: int) -> StimulusStock:
    """The stock with one sound missing."""
    return replace(full, stimuli={k: v for k, v in full.stimuli.items() if k != (item, system)})


def scores(*marks: tuple[str, int, int]) -> AnswerCreate:
    return AnswerCreate(trial=TRIAL, scores=[ScoreCreate(question=q, slot=s, value=v) for q, s, v in marks])


def choice(*outcomes: str, question: str = "preference") -> AnswerCreate:
    return AnswerCreate(trial=TRIAL, choices=[ChoiceCreate(question=question, outcome=o) for o in outcomes])  # type: ignore[arg-type]


def test_every_kind_is_known_by_its_name() -> None:
    """Each takes its own settings; no other name is known."""
    assert set(KINDS) == set(CONFIGS)
    for name, config in CONFIGS.items():
        assert kind_of(name).name == name and kind_of(name).title
        kind_of(name).check(config)
    with pytest.raises(BadOption, match="acr"):
        kind_of("mos")


@pytest.mark.parametrize(
    ("kind", "wrong"),
    [
        ("acr", {"questions": []}),
        ("ab", {"choices": ["a", "tie"]}),
        ("ab", {"questions": ACR.questions}),
        ("similarity", {"choices": ["a", "b", "tie"]}),
        ("similarity", {"questions": ACR.questions}),
        ("scale", {"questions": []}),
        ("scale", {"questions": [Question("q", "", 1, 5), Question("r", "", 1, 5)]}),
        ("ccr", {"questions": []}),
        ("ccr", {"questions": [Question("q", "", -2, 3)]}),
        ("ccr", {"choices": ["a", "b"]}),
        ("dcr", {"questions": []}),
        ("dcr", {"questions": [Question("q", "", 1, 7)]}),
        ("dcr", {"choices": ["a", "b"]}),
        ("p835", {"questions": P835.questions[:2]}),
        ("p835", {"questions": [*P835.questions[:2], Question("OVRL", "", 1, 7)]}),
        ("p835", {"choices": ["a", "b"]}),
        ("abx", {"choices": ["a", "b", "tie"]}),
        ("abx", {"questions": ACR.questions}),
        ("mushra", {"questions": []}),
        ("mushra", {"questions": [Question("q", "", 1, 100)]}),
        ("mushra", {"choices": ["a", "b"]}),
    ],
)
def test_mismatched_settings_are_refused(kind: str, wrong: dict[str, object]) -> None:
    with pytest.raises(BadOption):
        kind_of(kind).check(replace(CONFIGS[kind], **wrong))


@settings(max_examples=30, deadline=None)
@given(st.integers(1, 5), st.integers(2, 5), st.integers(0, 1))
def test_units_cover_the_stock_once(items: int, systems: int, references: int) -> None:
    """Singles, pairs and pages: everything is rated once, under a unique key."""
    full = stock(items, systems, references)
    everyone = [*full.systems, *full.references]
    expected = {
        "acr": {(i, (s,)) for i in range(items) for s in everyone},
        "ab": {(i, pair) for i in range(items) for pair in combinations(range(systems), 2)},
        "scale": {(i, tuple(everyone)) for i in range(items)},
    }
    for kind, wanted in expected.items():
        units = kind_of(kind).assign(full, CONFIGS[kind])
        assert {(u.item_id, u.systems) for u in units} == wanted
        assert len(units) == len(wanted) == len({u.key for u in units})
        for unit in units:
            assert unit.stimuli == tuple(full.stimuli[unit.item_id, s] for s in unit.systems)
            assert unit.reference is None


def test_baseline_campaign_pairs_only_the_baseline_with_each_system() -> None:
    config = replace(AB, pairs="baseline", baseline="x")
    units = kind_of("ab").assign(stock(2, 4, baseline=2), config)
    assert {u.systems for u in units} == {(0, 2), (1, 2), (2, 3)}
    with pytest.raises(BadOption, match="baseline"):
        kind_of("ab").assign(stock(2, 4), config)


def test_similarity_plays_an_unrated_reference_beside_a_pair() -> None:
    for unit in kind_of("similarity").assign(stock(2, 3, references=1), SIMILARITY):
        assert unit.reference == unit.item_id * 100 + 90
        assert unit.reference not in unit.stimuli and len(unit.stimuli) == 2
    for references in (0, 2):
        with pytest.raises(BadOption, match="reference"):
            kind_of("similarity").assign(stock(2, 3, references=references), SIMILARITY)


@settings(max_examples=30, deadline=None)
@given(st.integers(1, 5), st.integers(2, 5))
def test_comparisons_with_a_reference_cover_the_stock_once(items: int, systems: int) -> None:
    """CCR and ABX treat the reference as a system; DCR and MUSHRA play it and rate it hidden."""
    full = replace(stock(items, systems, references=1), anchors=[70])
    full = replace(full, stimuli={**full.stimuli, **{(i, 70): i * 100 + 70 for i in range(items)}})
    everyone = [*full.systems, 90]
    duels = {(i, pair) for i in range(items) for pair in combinations(everyone, 2)}
    ccr, abx, dcr, mushra = (kind_of(k).assign(full, CONFIGS[k]) for k in ("ccr", "abx", "dcr", "mushra"))
    assert {(u.item_id, u.systems) for u in ccr} == duels and len(ccr) == len(duels)
    assert all(u.reference is None for u in ccr)
    assert {(u.item_id, u.systems) for u in abx} == duels and len(abx) == 2 * len(duels) == len({u.key for u in abx})
    for pair in duels:
        mine = [u for u in abx if (u.item_id, u.systems) == pair]
        assert {u.reference for u in mine} == set(mine[0].stimuli)
    assert {(u.item_id, u.systems) for u in dcr} == {(i, (s,)) for i in range(items) for s in everyone}
    assert [set(u.systems) for u in mushra] == [{*everyone, 70}] * items
    assert all(u.reference == u.item_id * 100 + 90 for u in (*dcr, *mushra))
    assert all(u.reference in u.stimuli for u in mushra)
    for kind in ("dcr", "mushra"):
        for references in (0, 2):
            with pytest.raises(BadOption, match="one reference"):
                kind_of(kind).assign(stock(items, systems, references), CONFIGS[kind])
        assert kind_of(kind).assign(replace(stock(1, 1), is_unscored=True), CONFIGS[kind])[0].reference is None


@pytest.mark.parametrize("seed", range(20))
def test_abx_balances_identity_and_side_of_x(seed: int) -> None:
    """Exactly, over all raters: for each pair of a script X is a or b, and first or second, equally often."""
    units = kind_of("abx").assign(stock(3, 3), ABX)
    load, rng = AssignmentCounts(), Random(seed)
    seen: Counter[tuple[int, tuple[int, ...], bool, bool]] = Counter()
    while assigned := assign_units(UnitTable(units), load, 4, 5, rng):
        for p in assigned:
            seen[
                p.unit.item_id, p.unit.systems, p.unit.reference == p.unit.stimuli[0], p.order[0] == p.unit.reference
            ] += 1
    assert set(seen.values()) == {2} and len(seen) == 3 * 3 * 4


def test_comparison_is_a_score_of_the_second_sound() -> None:
    """From -3 to 3, for slot 1 only."""
    for value in (-3, 0, 3):
        assert kind_of("ccr").validate(CCR, 2, scores(("quality", 1, value))) == [
            AnswerMark("quality", 1, value, -3, 3)
        ]
    for sent in (scores(("quality", 0, 1)), scores(("quality", 1, 4)), scores(("quality", 1, -4)), choice("a")):
        with pytest.raises(BadAnswer):
            kind_of("ccr").validate(CCR, 2, sent)


def test_missing_sounds_are_named() -> None:
    """A pair or a page needs every system for every script; a single needs nothing else."""
    lacking = without(stock(2, 3, references=1), 1, 2)
    for kind in ("ab", "similarity", "scale"):
        with pytest.raises(BadFile, match="the script 1 by the system 2"):
            kind_of(kind).assign(lacking, CONFIGS[kind])
    with pytest.raises(BadFile, match="system 90"):
        kind_of("similarity").assign(without(stock(2, 3, references=1), 0, 90), SIMILARITY)
    assert len(kind_of("acr").assign(lacking, ACR)) == 7
    with pytest.raises(BadOption, match="two systems"):
        kind_of("ab").assign(stock(2, 1), AB)


def test_scores_become_ratings_with_their_scale() -> None:
    """One per question and sound."""
    two = replace(ACR, questions=[Question("n", "", 1, 5), Question("c", "", 1, 7)])
    marks = kind_of("acr").validate(two, 1, scores(("c", 0, 7), ("n", 0, 1)))
    assert marks == [AnswerMark("c", 0, 7, 1, 7), AnswerMark("n", 0, 1, 1, 5)]
    assert len(kind_of("scale").validate(SCALE, 3, scores(*(("quality", s, 50 + s) for s in range(3))))) == 3


@pytest.mark.parametrize(
    "sent",
    [
        scores(),
        scores(("naturalness", 0, 6)),
        scores(("naturalness", 0, 0)),
        scores(("naturalness", 1, 3)),
        scores(("speed", 0, 3)),
        scores(("naturalness", 0, 3), ("naturalness", 0, 4)),
        choice("a"),
        AnswerCreate(
            trial=TRIAL,
            scores=[ScoreCreate(question="naturalness", slot=0, value=3)],
            choices=[ChoiceCreate(question="preference", outcome="a")],
        ),
    ],
)
def test_mismatched_scores_are_refused(sent: AnswerCreate) -> None:
    """Missing, doubled, out of scale, for another sound or question, or a choice."""
    with pytest.raises(BadAnswer):
        kind_of("acr").validate(ACR, 1, sent)


def test_page_needs_a_score_for_every_sound() -> None:
    """A missing one is named."""
    with pytest.raises(BadAnswer, match="1 of the questions"):
        kind_of("scale").validate(SCALE, 2, scores(("quality", 0, 50)))


@pytest.mark.parametrize(("kind", "asked"), [("ab", "preference"), ("similarity", "preference"), ("abx", "match")])
def test_choice_is_one_of_those_allowed(kind: str, asked: str) -> None:
    """Exactly one, out of the campaign's list."""
    config: CampaignConfig = CONFIGS[kind]
    for outcome in config.choices:
        marks = kind_of(kind).validate(config, 2, choice(outcome, question=asked))
        assert marks == [AnswerMark(asked, outcome=outcome)]
    wrong = [
        choice(),
        choice("a", "b"),
        choice("both_bad", question=asked),
        choice("a", question="other"),
        scores(("preference", 0, 1)),
    ]
    for sent in wrong:
        with pytest.raises(BadAnswer):
            kind_of(kind).validate(config, 2, sent)


@pytest.mark.parametrize("kind", list(CONFIGS))
def test_screen_is_the_same_for_all_systems(kind: str) -> None:
    """It is built from settings only, so it cannot reveal a system."""
    screen = kind_of(kind).screen(CONFIGS[kind])
    more = {"max_chars"} if kind == "arena" else set[str]()
    assert set(screen) == {"kind", "prompt", "questions", "choices", "must_listen", "text_after", *more}
    assert screen["kind"] == kind
