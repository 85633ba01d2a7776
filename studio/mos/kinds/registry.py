"""The kinds of listening tests."""

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from studio.core.errors import BadOption
from studio.mos.campaign.config import CampaignConfig, load_template, template_names
from studio.mos.campaign.design import Unit
from studio.mos.kinds.base import (
    AnswerMark,
    BadAnswer,
    CountedAnswer,
    StimulusStock,
    abx_units,
    choice_marks,
    mushra_units,
    page_units,
    pair_units,
    pair_units_with_reference,
    score_marks,
    single_units,
    units_with_reference,
)
from studio.mos.kinds.tables import (
    MATCH,
    asking_tables,
    choice_tables,
    comparison_tables,
    identity_tables,
    latency_tables,
    score_tables,
    screened_answers,
    screened_tables,
)
from studio.mos.stats.columns import ScoreScale
from studio.mos.stats.equivalence import check_margin
from studio.mos.store.tables import AnswerCreate

_Answers = Sequence[CountedAnswer]
_Requirement = tuple[Callable[[CampaignConfig], bool], str, str]  # check of the settings, error message, hint


@dataclass(frozen=True)
class Kind:
    """One kind of listening test."""

    name: str
    title: str
    about: str = ""  # one sentence for experimenters
    requirements: tuple[_Requirement, ...] = ()  # conditions on the settings
    # all units to rate; raises BadFile naming missing stimuli
    assign: Callable[[StimulusStock, CampaignConfig], list[Unit]] = single_units
    # marks of an answer; the second argument is the number of rated slots; raises BadAnswer
    validate: Callable[[CampaignConfig, int, AnswerCreate], list[AnswerMark]] = lambda config, slots, answer: (
        score_marks(config, range(slots), answer)
    )
    # tables with intervals, JSON-safe; the last argument is the campaign's seed
    tables: Callable[[CampaignConfig, _Answers, int], dict[str, Any]] = lambda config, answers, _: _question_tables(
        config, answers
    )
    is_relative: bool = False  # a score compares the second sound with the first
    has_duplicates: bool = False  # a trial may contain the same sound twice, so clips are blinded
    needs_anchors: bool = False  # low-pass anchors are derived from the reference
    has_post_screening: bool = False  # raters are excluded by their scores of the hidden reference and the mid anchor
    required_plays: int = 1  # plays of a sound per answer
    # balanced orders of questions asked one after another, as ids separated by spaces; empty if asked at once. A rater
    # keeps one order for a whole session
    orders: tuple[str, ...] = ()
    is_live: bool = False  # spoken while the rater types; clips only set the level
    is_standing: bool = False  # runs without end: one trial at a time, typed texts are the scripts

    def check(self, config: CampaignConfig) -> None:
        """Raises BadOption if the settings do not fit the kind."""
        for is_met, what, hint in self.requirements:
            if not is_met(config):
                raise BadOption(what, hint)
        self.check_margins(config)

    def check_margins(self, config: CampaignConfig) -> None:
        """Raises BadOption for a margin without a score (or a choice) to apply to, or wider than a scale."""
        score, share = config.margins.score, config.margins.share
        if share is not None and (not config.choices or self.name == "abx"):
            raise BadOption("margins.share needs a test of preference", "set margins.score, or take it out")
        if score is not None and not config.questions:
            raise BadOption("margins.score needs a question with a scale", "set margins.share, or take it out")
        for question in config.questions if score is not None else ():
            scale = ScoreScale(question.low, question.high)
            check_margin(score or 0.0, scale if self.is_relative else scale.difference_scale)

    def analysed_answers(self, config: CampaignConfig, answers: _Answers) -> _Answers:
        """The answers used for means after the gates: all, unless the kind has a post-screening."""
        return screened_answers(answers, config.questions[0]) if self.has_post_screening else answers

    def analyse(self, config: CampaignConfig, answers: _Answers, *, seed: int = 0) -> dict[str, Any]:
        """Tables with intervals, JSON-safe."""
        return self.tables(config, answers, seed)

    def screen(self, config: CampaignConfig) -> dict[str, Any]:
        """Page data of the questions; equal for every trial, so it does not reveal a system."""
        return {
            "kind": self.name,
            "prompt": config.prompt,
            "questions": [asdict(q) for q in config.questions],
            "choices": list(config.choices),
            "must_listen": config.must_listen,
            "text_after": config.text_after,
        } | ({"max_chars": config.arena.max_chars} if self.is_standing else {})


def _question_tables(config: CampaignConfig, answers: _Answers) -> dict[str, Any]:
    return {"questions": {q.id: score_tables(answers, q) for q in config.questions}}


def _p835_tables(config: CampaignConfig, answers: _Answers, _seed: int) -> dict[str, Any]:
    """Tables of each scale, and the effect of the question order."""
    questions = sorted(config.questions, key=lambda q: _P835_SCALES.index(q.id))
    return {
        "questions": {q.id: score_tables(answers, q) for q in questions},
        "asking": {q.id: asking_tables(answers, q) for q in questions},
    }


def _comparison_tables(config: CampaignConfig, answers: _Answers, _seed: int) -> dict[str, Any]:
    """Tables of every question, with signs corrected for the presented order."""
    return {"comparisons": {q.id: comparison_tables(answers, q, config.baseline) for q in config.questions}}


def _live_tables(config: CampaignConfig, answers: _Answers, seed: int) -> dict[str, Any]:
    """Preferences and Elo, the scores of every question, and both against latency."""
    scores = _question_tables(config, answers) if config.questions else {}
    return {"choices": choice_tables(answers, seed), **scores, "latency": latency_tables(answers, config.questions)}


def _one_choice(question: str = "preference") -> Callable[[CampaignConfig, int, AnswerCreate], list[AnswerMark]]:
    return lambda config, _slots, answer: choice_marks(config, answer, question)


def _live_marks(config: CampaignConfig, slots: int, answer: AnswerCreate) -> list[AnswerMark]:
    """One choice, and one score per question and voice."""
    marks = choice_marks(config, answer.model_copy(update={"scores": []}))
    if config.questions:
        return marks + score_marks(config, range(slots), answer.model_copy(update={"choices": []}))
    if answer.scores:
        raise BadAnswer("this test asks for a choice alone", "send no scores")
    return marks


def _asks_only(config: CampaignConfig, low: int, high: int) -> bool:
    """Whether there are questions, all on this scale, and no choices."""
    return (
        bool(config.questions) and not config.choices and all((q.low, q.high) == (low, high) for q in config.questions)
    )


def _may_choose_a_or_b(config: CampaignConfig) -> bool:
    return {"a", "b"} <= set(config.choices)


def _is_forced_choice(config: CampaignConfig) -> bool:
    return set(config.choices) == {"a", "b"} and not config.questions


_P835_SCALES = ("SIG", "BAK", "OVRL")
_LIVE_CHOICES: _Requirement = (
    _may_choose_a_or_b,
    "a live test needs the choices a and b",
    "set choices; questions may stand beside them",
)

_KINDS = (
    Kind(  # ITU-T P.800; any number of questions (two in paper 000)
        "acr",
        "Absolute category rating (MOS)",
        "Raters hear one sound at a time and score it, 1 to 5 for instance; the mean is the MOS.",
        ((lambda c: bool(c.questions), "an ACR test needs a question", "add one with its scale"),),
    ),
    Kind(  # ITU-T P.835, one listening per scale; the order of the first two is balanced
        "p835",
        "Speech signal, background and overall (P.835)",
        "Raters hear a sound in noise three times and score speech, background and the whole, each from 1 to 5.",
        (
            (
                lambda c: sorted(q.id for q in c.questions) == sorted(_P835_SCALES) and _asks_only(c, 1, 5),
                f"P.835 asks {', '.join(_P835_SCALES)}, each from 1 to 5",
                "keep these three questions, and no choices",
            ),
        ),
        tables=_p835_tables,
        required_plays=len(_P835_SCALES),
        orders=("SIG BAK OVRL", "BAK SIG OVRL"),
    ),
    Kind(  # ITU-T P.800, annex D: a reference, then another version; null pairs are duplicates
        "dcr",
        "Degradation category rating (DMOS)",
        "Raters hear a reference, then another version, and say how much worse that one is, 1 to 5.",
        (
            (
                lambda c: _asks_only(c, 1, 5),
                "a degradation is rated from 1 to 5",
                "set a question of that scale, and no choices",
            ),
        ),
        units_with_reference,
        has_duplicates=True,
    ),
    Kind(  # ITU-T P.800, annex E: the second of two sounds against the first
        "ccr",
        "Comparison category rating (CMOS)",
        "Raters hear two versions in turn and say how the second compares with the first, -3 to +3.",
        (
            (
                lambda c: bool(c.questions) and not c.choices and all(q.low == -q.high for q in c.questions),
                "a comparison has scales from -N to N and no choices",
                "set a question from -3 to 3",
            ),
        ),
        pair_units_with_reference,
        lambda config, _slots, answer: score_marks(config, [1], answer),
        _comparison_tables,
        is_relative=True,
    ),
    Kind(  # paper 001, with a tie and 'both bad' if the campaign allows them
        "ab",
        "Pair preference (AB)",
        "Raters hear two versions and choose the one that they prefer; gives shares and an Elo ladder.",
        (
            (
                lambda c: _may_choose_a_or_b(c) and not c.questions,
                "a preference test needs the choices a and b and no scales",
                "set choices",
            ),
        ),
        pair_units,
        _one_choice(),
        lambda _config, answers, seed: {"choices": choice_tables(answers, seed)},
    ),
    Kind(  # speaker similarity in paper 002
        "similarity",
        "Similarity to a reference (forced choice)",
        "Raters hear a reference and two others, and choose the one that is more like it; no tie.",
        ((_is_forced_choice, "a forced choice has the choices a and b, nothing else", "set choices to a and b"),),
        lambda stock, config: pair_units(stock, config, has_reference=True),
        _one_choice(),
        lambda _config, answers, seed: {"choices": choice_tables(answers, seed)},
    ),
    Kind(  # identification of X, which is A or B: is a difference audible?
        "abx",
        "Can a difference be heard (ABX)",
        "Raters hear A, B and X, which is one of the two, and say which: can a difference be heard at all?",
        ((_is_forced_choice, "X is a or b, nothing else", "set choices to a and b, and no questions"),),
        abx_units,
        _one_choice(MATCH),
        lambda _config, answers, _seed: {"identity": identity_tables(answers)},
        has_duplicates=True,
    ),
    Kind(  # paper 002: all systems of a script on one page, without a reference
        "scale",
        "All systems on one page (MUSHRA-style)",
        "Raters score every version of a script on one page, each by a slider of 1 to 100.",
        ((lambda c: len(c.questions) == 1, "a page of systems asks exactly one question", "keep one"),),
        page_units,
    ),
    Kind(  # ITU-R BS.1534-3: all systems, a hidden reference and low-pass anchors beside an open reference
        "mushra",
        "MUSHRA with hidden reference and anchors",
        "Raters score all versions of a script beside an open reference, 0 to 100; hidden reference, two anchors.",
        (
            (
                lambda c: len(c.questions) == 1 and _asks_only(c, 0, 100),
                "a MUSHRA page asks one question of 0 to 100",
                "keep one, and no choices",
            ),
        ),
        mushra_units,
        tables=lambda config, answers, _: screened_tables(answers, config.questions[0]),
        has_duplicates=True,
        needs_anchors=True,
        has_post_screening=True,
    ),
    Kind(  # one voice speaks while the rater types, the other gets the same keystrokes replayed
        "live",
        "Live typing (pair preference)",
        "Raters type to two voices that speak while they type, and choose the one that they would rather type to.",
        (_LIVE_CHOICES,),
        pair_units,
        _live_marks,
        _live_tables,
        is_live=True,
    ),
    Kind(  # a standing live test: one battle at a time, on the pair that reduces the ladder's error most
        "arena",
        "Arena (live pair preference, standing)",
        "Visitors type, two hidden voices speak it live, a vote reveals their names; a public ladder without an end.",
        (
            _LIVE_CHOICES,
            (
                lambda c: not c.questions,
                "an arena asks for a choice alone",
                "set no questions; a live test may have them",
            ),
            (
                lambda c: not c.stop.is_active,
                "an arena has no end, so no stopping rule",
                "take stop.half_width and stop.decided out",
            ),
            (
                lambda c: not (c.repeats or c.gates.training or c.gates.traps or c.gates.golds),
                "an arena gives one battle at a time",
                "set no repeats, training, traps or golds",
            ),
        ),
        pair_units,
        _live_marks,
        _live_tables,
        is_live=True,
        is_standing=True,
    ),
)
KINDS = {kind.name: kind for kind in _KINDS}


def template_titles() -> dict[str, str]:
    """Titles of the templates on pages, by template name, in the order of the kinds.

    Titles of templates of the same kind include their question ids.
    """
    configs = {name: load_template(name) for name in template_names()}
    counts = Counter(config.kind for config in configs.values())
    titles = dict[str, str]()
    for name, config in sorted(configs.items(), key=lambda one: [*KINDS].index(one[1].kind)):
        title = kind_of(config.kind).title
        asked = ", ".join(question.id for question in config.questions)
        titles[name] = title if counts[config.kind] == 1 else f"{title}: {asked}"
    return titles


def kind_of(name: str) -> Kind:
    """A kind by its name. Raises BadOption."""
    if name not in KINDS:
        raise BadOption(f"no kind of test is called {name!r}", f"there are {', '.join(sorted(KINDS))}")
    return KINDS[name]
