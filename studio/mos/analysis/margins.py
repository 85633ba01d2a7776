"""Non-inferiority and equivalence of the systems of a test, from its tables of results, with sentences to quote."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, replace
from typing import Any

from studio.mos.campaign.config import Margins
from studio.mos.stats.columns import ScoreScale
from studio.mos.stats.equivalence import MarginTest, margin_test, with_holm_verdicts
from studio.mos.stats.interval import Interval
from studio.mos.stats.preference import SHARE_SCALE

_Pair = tuple[str, str, Interval]  # a, b, interval of a against b


def margin_results(
    tables: Mapping[str, Any],
    questions: Sequence[Mapping[str, Any]],
    margins: Margins,
    baseline: str | None = None,
    anchors: Iterable[str] = (),
) -> list[dict[str, Any]]:
    """Tests with a margin as JSON values: one entry for each question with scores, and one for the preference.

    Args:
        tables: result of ``Kind.analyse``.
        questions: with ``id``, ``low`` and ``high``.
        margins: those of the campaign, or those that its owner requests for this call.
        baseline: the system that the others are tested against; None tests every pair.
        anchors: systems that are not tested.

    Raises BadOption for a margin that no difference on its scale can exceed.
    """
    entries: list[dict[str, Any]] = []
    skipped = set(anchors)

    def add(name: str, margin: float, pairs: Iterable[_Pair], scale: ScoreScale, null: float, unit: str) -> None:
        tests = [_oriented(*pair, margin, scale, null, baseline) for pair in pairs if not skipped & {*pair[:2]}]
        tests = with_holm_verdicts([t for t in tests if baseline in (None, t.b)])
        if tests:
            about = {"name": name, "unit": unit, "margin": margin, "baseline": baseline}
            entries.append(about | {"pairs": [asdict(t) | {"sentence": sentence(t, unit)} for t in tests]})

    for question in questions if margins.score is not None else ():
        assert margins.score is not None, "checked"
        scale, name = ScoreScale(question["low"], question["high"]), question["id"]
        unit = "points" if scale.high - scale.low > _STEPS else "steps"
        if (table := tables.get("questions", {}).get(name, {"n": 0}))["n"]:
            pairs = [(d["a"], d["b"], Interval(**d["interval"])) for d in table["differences"]]
            add(name, margins.score, pairs, scale.difference_scale, 0.0, unit)
        if (table := tables.get("comparisons", {}).get(name, {"n": 0}))["n"]:
            pairs = [(p["a"], p["b"], Interval(**p["cmos"]["two_way"])) for p in table["pairs"]]
            add(name, margins.score, pairs, scale, 0.0, unit)
    choices = tables.get("choices", {"n": 0})
    if margins.share is not None and choices["n"]:
        pairs = [(p["a"], p["b"], Interval(**p["share"])) for p in choices["pairs"]["two_way"]]
        add("preference", margins.share, pairs, SHARE_SCALE, 0.5, "share")
    return entries


_STEPS = 20  # longest scale whose unit is called a step; longer scales have points


def _oriented(
    a: str, b: str, interval: Interval, margin: float, scale: ScoreScale, null: float, baseline: str | None
) -> MarginTest:
    """The test of a pair; the baseline is always ``b``."""
    if a == baseline:
        interval = replace(interval, mean=2 * null - interval.mean, low=interval.high, high=interval.low)
        low, high = (None if end is None else 2 * null - end for end in (interval.low, interval.high))
        a, b, interval = b, a, replace(interval, low=low, high=high)
    return margin_test(a, b, interval, margin, scale, null)


def sentence(test: MarginTest, unit: str) -> str:
    """The result as one sentence to quote, with the difference and its interval."""
    a, b, margin = test.a, test.b, amount(test.margin, unit)
    low, high = test.interval.low, test.interval.high
    if low is None or high is None:
        return f"{a} and {b}: no interval, so nothing is shown about a margin of {margin}."
    ends = f"90% interval {amount(low, unit, True)} to {amount(high, unit, True)}"
    measured = f"the difference is {amount(test.interval.mean, unit, True)} ({ends})"
    verdicts = {
        "worse": f"{a} is worse than {b} by more than {margin}",
        "better": f"{a} is better than {b} by more than {margin}",
        "equivalent": f"{a} and {b} are equivalent within {margin}",
        "not_worse": f"{a} is no worse than {b} by more than {margin}",
        "not_better": f"{b} is no worse than {a} by more than {margin}",
        "undecided": f"Neither {a} nor {b} is shown to be no worse than the other by more than {margin}",
    }
    p = {
        "equivalent": test.p_equivalent_holm,
        "not_worse": test.p_not_worse_holm,
        "not_better": test.p_not_better_holm,
    }.get(test.verdict)
    p_text = "" if p is None else "; p < 0.001" if p < 0.001 else f"; p = {p:.3f}"
    return f"{verdicts[test.verdict]}: {measured}{p_text}."


def amount(value: float, unit: str, is_signed: bool = False) -> str:
    """A difference with its unit: ``+0.12 steps``, ``-3.1 points``, ``+4.0 percentage points`` of the votes."""
    sign = "+" if is_signed else ""
    if unit == "share":
        return f"{100 * value:{sign}.1f} percentage points"
    number = f"{value:{sign}.1f}" if unit == "points" else f"{value:{sign}.2f}"
    return f"{number} {unit}"
