"""Building blocks of the test kinds: stimuli and their units, answers and their marks."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import combinations

from studio.core.errors import BadFile, BadOption, StudioError
from studio.mos.campaign.config import CampaignConfig
from studio.mos.campaign.design import Unit
from studio.mos.store.tables import AnswerCreate


class BadAnswer(StudioError):
    """An answer does not fit its trial and was not stored."""

    code = "bad_answer"


@dataclass(frozen=True)
class StimulusStock:
    """A campaign's stimuli: ids of scripts, of systems by role, and the stimulus of each (script, system)."""

    items: Sequence[int]
    systems: Sequence[int]
    references: Sequence[int]
    baseline: int | None
    stimuli: Mapping[tuple[int, int], int]
    anchors: Sequence[int] = ()
    names: Mapping[int, str] = field(default_factory=dict[int, str])  # script names, for messages
    system_names: Mapping[int, str] = field(default_factory=dict[int, str])
    is_unscored: bool = False  # True for training, traps and golds: they may lack the reference


@dataclass(frozen=True)
class AnswerMark:
    """A validated score or choice to store."""

    question: str
    slot: int | None = None
    value: int | None = None
    low: int = 0
    high: int = 0
    outcome: str | None = None


@dataclass(frozen=True, slots=True)
class CountedAnswer:
    """A counted answer for the analysis."""

    rater: str
    item: str
    systems: Sequence[str]  # name of the system in each rated slot, in slot order
    scores: Mapping[tuple[str, int], float]  # by (question, slot); integers in a campaign
    outcomes: Mapping[str, str]  # by question: a | b | tie | both_bad, sides as shown
    reference: str | None = None  # system of the open reference, or of X; None without one
    mid_anchor: str | None = None  # the campaign's mid anchor (MUSHRA); None without one
    tags: tuple[str, ...] = ()  # of the script
    question_order: tuple[str, ...] = ()  # question ids in their order if asked one after another; else empty
    # per slot in a live test: ms from the arrival of the required words to the first sound; else empty
    latencies_ms: tuple[float | None, ...] = ()


def score_marks(config: CampaignConfig, slots: Sequence[int], answer: AnswerCreate) -> list[AnswerMark]:
    """Marks of an answer that scores every question of these slots exactly once. Raises BadAnswer."""
    if answer.choices:
        raise BadAnswer("this test asks for scores, not for a choice", "send scores")
    marks: list[AnswerMark] = []
    wanted = {(q.id, slot): q for q in config.questions for slot in slots}
    for score in answer.scores:
        question = wanted.pop((score.question, score.slot), None)
        if question is None:
            raise BadAnswer(
                f"no question {score.question!r} is open for slot {score.slot}", "answer each question once"
            )
        if not question.low <= score.value <= question.high:
            raise BadAnswer(
                f"the score {score.value} is outside the scale", f"it goes from {question.low} to {question.high}"
            )
        marks.append(AnswerMark(score.question, score.slot, score.value, question.low, question.high))
    if wanted:
        raise BadAnswer(f"{len(wanted)} of the questions are not answered", "answer every question of every sound")
    return marks


def choice_marks(config: CampaignConfig, answer: AnswerCreate, question: str = "preference") -> list[AnswerMark]:
    """The mark of an answer with exactly one choice. Raises BadAnswer."""
    if answer.scores or len(answer.choices) != 1 or answer.choices[0].question != question:
        raise BadAnswer("this test asks for one choice", f"send one choice for the question {question!r}")
    outcome = answer.choices[0].outcome
    if outcome not in config.choices:
        raise BadAnswer(f"{outcome!r} cannot be chosen here", f"choose {', '.join(config.choices)}")
    return [AnswerMark(question, outcome=outcome)]


def single_units(stock: StimulusStock, _config: CampaignConfig) -> list[Unit]:
    """One unit per stimulus; systems may lack scripts."""
    systems = [*stock.systems, *stock.references]
    present = [(item, system) for item in stock.items for system in systems if (item, system) in stock.stimuli]
    return [_unit(stock, item, (system,)) for item, system in present]


def units_with_reference(stock: StimulusStock, config: CampaignConfig) -> list[Unit]:
    """One unit per stimulus with its open reference, including reference against reference (null pairs).

    Raises BadFile if a script lacks the reference, BadOption unless there is exactly one.
    """
    reference = _one_reference(stock)
    _check_complete(stock, config, must=[] if reference is None else [reference])
    return _with_reference(stock, single_units(stock, config), reference)


def pair_units(stock: StimulusStock, config: CampaignConfig, has_reference: bool = False) -> list[Unit]:
    """One unit per script and pair of systems, with an open reference if ``has_reference``.

    Raises BadFile: a script lacks a system (unless the test is ``incomplete``), or the reference; BadOption: fewer than
    two systems, the required baseline is missing, or there is not exactly one reference.
    """
    if len(stock.systems) < 2:
        raise BadOption("a pair needs two systems", "add one")
    if config.pairs == "baseline" and stock.baseline is None:
        what = f"the baseline {config.baseline!r} is not one of the systems"
        raise BadOption(what, "set baseline to a system's name")
    reference = _one_reference(replace(stock, is_unscored=False)) if has_reference else None
    pairs = [pair for pair in combinations(stock.systems, 2) if config.pairs == "all" or stock.baseline in pair]
    _check_complete(stock, config, stock.systems, must=[] if reference is None else [reference])
    units = [_unit(stock, item, pair) for item in stock.items for pair in pairs if _has_all(stock, item, pair)]
    return _with_reference(stock, units, reference)


def pair_units_with_reference(stock: StimulusStock, config: CampaignConfig) -> list[Unit]:
    """``pair_units`` where the reference counts as a system."""
    return pair_units(replace(stock, systems=[*stock.systems, *stock.references], references=[]), config)


def abx_units(stock: StimulusStock, config: CampaignConfig) -> list[Unit]:
    """Two units per script and pair, one with each system as X, so that the quotas balance X."""
    return [
        replace(unit, key=f"{unit.key}~{x}", reference=stock.stimuli[unit.item_id, x])
        for unit in pair_units_with_reference(stock, config)
        for x in unit.systems
    ]


def page_units(stock: StimulusStock, config: CampaignConfig) -> list[Unit]:
    """One unit per script with all systems. Raises BadFile if a script lacks a system.

    In an ``incomplete`` test a page has the systems with a sound of its script; reference and anchors are required.
    """
    systems = (*stock.systems, *stock.references)
    _check_complete(stock, config, stock.systems, must=(*stock.references, *stock.anchors))
    pages = [(item, tuple(s for s in systems if (item, s) in stock.stimuli)) for item in stock.items]
    return [_unit(stock, item, present) for item, present in pages]


def mushra_units(stock: StimulusStock, config: CampaignConfig) -> list[Unit]:
    """``page_units`` with anchors, a hidden and an open reference. Raises BadOption unless there is one reference."""
    reference = _one_reference(stock)
    pages = page_units(replace(stock, systems=[*stock.systems, *stock.anchors]), config)
    return _with_reference(stock, pages, reference)


def _with_reference(stock: StimulusStock, units: list[Unit], reference: int | None) -> list[Unit]:
    return units if reference is None else [replace(u, reference=stock.stimuli[u.item_id, reference]) for u in units]


def _one_reference(stock: StimulusStock) -> int | None:
    if len(stock.references) == 1:
        return stock.references[0]
    if stock.is_unscored and not stock.references:
        return None
    raise BadOption(f"the test needs one reference system, there are {len(stock.references)}", "mark one as reference")


def _unit(stock: StimulusStock, item: int, systems: tuple[int, ...]) -> Unit:
    return Unit(
        key=f"{item}:{'+'.join(map(str, systems))}",
        item_id=item,
        stimuli=tuple(stock.stimuli[item, s] for s in systems),
        systems=systems,
        reference=None,
    )


def _has_all(stock: StimulusStock, item: int, systems: Iterable[int]) -> bool:
    return all((item, system) in stock.stimuli for system in systems)


def _check_complete(
    stock: StimulusStock, config: CampaignConfig, systems: Iterable[int] = (), must: Iterable[int] = ()
) -> None:
    """Raises BadFile if a script lacks one of ``systems`` (unless the test is incomplete) or of ``must``."""
    needed = [*must, *(() if config.incomplete else systems)]
    missing = [(i, s) for i in stock.items for s in needed if (i, s) not in stock.stimuli]
    if missing:
        item, system = missing[0]
        raise BadFile(
            f"{len(missing)} {'sound is' if len(missing) == 1 else 'sounds are'} missing, the first of the script "
            f"{stock.names.get(item, item)!r} by the system {stock.system_names.get(system, system)!r}",
            "every system must say every script in this kind of test, unless it may lack some (incomplete = true)",
        )
