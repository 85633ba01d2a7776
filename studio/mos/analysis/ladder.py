"""The public ladder of a standing arena: aggregate figures alone, of systems and of nobody who voted."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from sqlmodel import Session, col, select

from studio.mos.analysis.quality import left_out
from studio.mos.kinds.analysis import A0, B0, C
from studio.mos.rating.campaigns import Running
from studio.mos.rating.pairing import pair_of
from studio.mos.rating.takes import scripts
from studio.mos.stats.columns import Vote, Votes, votes_from_rows
from studio.mos.stats.elo import elo_report
from studio.mos.store.tables.answers import Answer, Choice
from studio.mos.store.tables.campaigns import Campaign
from studio.mos.store.tables.raters import Rater
from studio.mos.store.tables.stimuli import System
from studio.mos.store.tables.trials import Trial


@dataclass(frozen=True)
class Step:
    """A system that is ranked.

    Attributes:
        best: the highest place that the intervals of the differences leave open; ``worst`` the lowest.
        low: of the 95% interval of ``elo``, like ``high`` None where the votes cannot say.
        state: what is known where there is no interval to both sides (``elo_report``).
    """

    name: str
    best: int
    worst: int
    elo: float
    low: float | None
    high: float | None
    state: str | None
    votes: int


@dataclass(frozen=True)
class Ladder:
    """An arena as everybody may see it.

    Attributes:
        steps: the systems with enough votes, the best first.
        unranked: votes of each system that has too few.
        undecided: share of votes that were a tie, and that were 'both bad'.
        interval: how the intervals were made.
    """

    title: str
    votes: int
    raters: int
    min_votes: int
    steps: Sequence[Step]
    unranked: Mapping[str, int]
    undecided: Mapping[str, float]
    interval: str
    notes: Sequence[str]


def ladder(session: Session, campaign: Campaign, run: Running) -> Ladder:
    """Where an arena stands, by the votes that the results count: gates leave out the same raters.

    Raises:
        BadFile, BadOption: the campaign is not whole.
    """
    votes = arena_votes(session, campaign, run)
    report = elo_report(votes, "gamma", C, A0, B0)
    played = {name: int(((votes.a == s) | (votes.b == s)).sum()) for s, name in enumerate(votes.systems)}
    least = run.config.arena.min_votes
    ranked = [name for name in sorted(played, key=lambda n: -report["systems"][n]["elo"]) if played[name] >= least]
    above = {(d["a"], d["b"]) for d in report["differences"] if d["lo"] is not None and d["lo"] > 0}
    return Ladder(
        title=run.config.texts.title,
        votes=len(votes),
        raters=report["raters"] or 0,
        min_votes=least,
        steps=[_step(name, ranked, above, report["systems"][name], played[name]) for name in ranked],
        unranked={name: played[name] for name in votes.systems if played[name] < least},
        undecided=report["undecided"],
        interval=report["interval"],
        notes=report["notes"],
    )


def arena_votes(session: Session, campaign: Campaign, run: Running) -> Votes:
    """The votes of an arena that count, clustered by rater and by what was typed.

    They are those of ``judgements``, looked up without the sounds and the keys of every battle.
    """
    names = {s.id: s.name for s in session.exec(select(System).where(System.campaign_id == campaign.id))}
    units = {unit.key: unit for unit in run.units}
    excluded = left_out(session, campaign)
    typed = scripts(session, run.id)
    rows = session.exec(
        select(Trial, Choice.outcome, Rater.pseudonym)
        .join(Answer, col(Answer.trial_id) == col(Trial.id))
        .join(Choice, col(Choice.answer_id) == col(Answer.id))
        .join(Rater, col(Rater.id) == col(Trial.rater_id))
        .where(Trial.campaign_id == run.id, Answer.counted == 1, Rater.role == "panel")
        .order_by(col(Answer.id))
    ).all()
    found: list[Vote] = []
    for trial, outcome, rater in rows:
        if rater in excluded:
            continue
        unit = units[trial.unit]
        first = unit.systems[unit.stimuli.index(trial.lead)]
        second = next(s for s in pair_of(unit) if s != first)
        found.append(Vote(names[first], names[second], outcome, rater, typed.get(trial.id, trial.unit)))
    return votes_from_rows(found, sorted({names[s] for unit in run.units for s in unit.systems}))


def _step(name: str, ranked: Sequence[str], above: set[tuple[str, str]], row: Mapping[str, Any], votes: int) -> Step:
    best = 1 + sum((other, name) in above for other in ranked)
    worst = len(ranked) - sum((name, other) in above for other in ranked)
    return Step(name, best, worst, row["elo"], row["lo"], row["hi"], row["state"], votes)
