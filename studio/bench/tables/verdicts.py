"""Figures of each row, and whether a claim of the paper holds here."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any

from studio.bench.tables.definition import FIGURES, Claim, Part
from studio.bench.tables.measures import read_errors
from studio.measure.bootstrap import BootstrapInterval
from studio.measure.wer import WordErrors, bootstrap_difference, bootstrap_rate

Rows = Mapping[str, Sequence[Mapping[str, Any]]]  # measurements of each row, one per seed

HOLDS, TURNED, UNSURE, OPEN = "as in the paper", "opposite", "inconclusive", "not measured"


def figures_of(part: Part, measured: Sequence[Mapping[str, Any]]) -> dict[str, dict[str, Any]]:
    """Figures of a row: the mean over seeds and each seed's value; word errors with an interval."""
    if not measured:
        return {}
    if part.measure == "wer":
        errors = [read_errors(one) for one in measured]
        pooled = bootstrap_rate([one for each in errors for one in each])
        return {"wer": asdict(pooled) | {"seeds": [bootstrap_rate(each, repeats=1).value for each in errors]}}
    names = FIGURES[part.measure]
    seeds = {name: [one["figures"][name] for one in measured] for name in names}
    return {name: {"value": sum(each) / len(each), "seeds": each} for name, each in seeds.items()}


def verdict(part: Part, claim: Claim, rows: Rows) -> dict[str, Any]:
    """Whether a claim's difference has the same sign here; ``gain`` is positive if it has."""
    sign = 1.0 if FIGURES[part.measure][claim.figure] else -1.0
    better, worse = (part.row(name).paper[claim.figure] for name in (claim.better, claim.worse))
    out: dict[str, Any] = {"says": claim.says, "better": claim.better, "worse": claim.worse, "figure": claim.figure}
    out["paper"] = sign * (better - worse)
    ours = [rows.get(name, ()) for name in (claim.better, claim.worse)]
    if not all(ours):
        return out | {"gain": None, "holds": OPEN}
    gain = _gain(part, claim.figure, ours, sign)
    if gain.low > 0.0:
        holds = HOLDS
    elif gain.high < 0.0:
        holds = TURNED
    else:
        holds = UNSURE
    return out | {"gain": asdict(gain), "holds": holds}


def _gain(part: Part, figure: str, ours: Sequence[Sequence[Mapping[str, Any]]], sign: float) -> BootstrapInterval:
    """Gain of the row that the paper calls better, with an interval if available."""
    if part.measure == "wer":
        count = min(map(len, ours))  # shared seeds
        better, worse = ([one for each in rows[:count] for one in read_errors(each)] for rows in ours)
        return _flipped(better, worse)
    values = [[one["figures"][figure] for one in rows] for rows in ours]
    means = [sum(each) / len(each) for each in values]
    gain = sign * (means[0] - means[1])
    apart = [sign * (a - b) for a in values[0] for b in values[1]]  # all pairs of seeds
    return BootstrapInterval(gain, min(apart), max(apart))


def _flipped(better: list[WordErrors], worse: list[WordErrors]) -> BootstrapInterval:
    return bootstrap_difference(worse, better)
