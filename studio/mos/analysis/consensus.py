"""How far each rater's answers go with the others', and what leaving out those who do not would change."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from studio.mos.analysis.stopping_rule import estimates
from studio.mos.campaign.config import CampaignConfig, Gates
from studio.mos.kinds.base import Judged
from studio.mos.kinds.registry import kind_of
from studio.mos.stats.consensus import Consensus, Marks, consensus

_WORTH = {"a": 1.0, "b": -1.0, "tie": 0.0, "both_bad": 0.0}
_Row = tuple[str, tuple[str, ...], str, float, bool]  # rater, what was judged, question, value, signed


def consensus_of(config: CampaignConfig, answers: Sequence[Judged], pool: set[str]) -> dict[str, Consensus]:
    """Of every rater who answered test screens; ``pool`` are those whose answers make the consensus.

    In an ABX test what is right is known, so nobody is measured by the others.
    """
    rows = [row for answer in answers for row in _marks(config, answer)]
    raters, rater = np.unique([r[0] for r in rows], return_inverse=True)
    keys = {key: code for code, key in enumerate(dict.fromkeys(r[1] for r in rows))}
    groups = {question: code for code, question in enumerate(dict.fromkeys(r[2] for r in rows))}
    marks = Marks(
        np.array([r[3] for r in rows], np.float64),
        rater.astype(np.int64),
        np.array([keys[r[1]] for r in rows], np.int64),
        np.array([groups[r[2]] for r in rows], np.int64),
        np.array([r[4] for r in rows], np.bool_),
    )
    found = consensus(marks, np.array([name in pool for name in raters.tolist()], np.bool_))
    return dict(zip(raters.tolist(), found, strict=True))


def with_and_without(whole: Mapping[str, Any], kept: Mapping[str, Any]) -> list[dict[str, Any]]:
    """The estimates of two analyses side by side: of everybody, and without those whom the gate fails."""
    beside = dict(estimates(kept))
    return [{"name": name, "everybody": dict(i), "kept": beside.get(name)} for name, i in estimates(whole)]


def rules(gates: Gates) -> dict[str, Any]:
    """What was set beforehand."""
    return {
        "by": gates.consensus_by,
        "minimum": gates.min_consensus,
        "answers": gates.consensus_answers,
        "required": gates.consensus_required,
    }


def _marks(config: CampaignConfig, answer: Judged) -> Iterable[_Row]:
    item = (answer.item,) if config.gates.consensus_by == "stimulus" else ()
    scales = {q.id: (q.low, q.high) for q in config.questions}
    pair = tuple(sorted(answer.systems))
    turned = 1.0 if tuple(answer.systems) == pair else -1.0  # values are in favour of the first of the two by name
    relative = kind_of(config.kind).relative
    for (question, slot), value in answer.scores.items():
        low, high = scales[question]
        if relative:  # how the second compares with the first
            yield answer.rater, (question, *pair, *item), question, -turned * value / max(-low, high), True
        else:
            share = (value - low) / (high - low)
            yield answer.rater, (question, answer.systems[slot], *item), question, share, False
    if (outcome := answer.outcomes.get("preference")) is not None:
        yield answer.rater, ("preference", *pair, *item), "preference", turned * _WORTH[outcome], True
