"""Public ladder of an arena: aggregate figures of systems, nothing about individual raters."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from sqlmodel import Session, col, select

from studio.mos.analysis.quality import excluded_raters
from studio.mos.kinds.tables import A0, B0, C
from studio.mos.sessions.campaigns import LoadedCampaign
from studio.mos.sessions.pairing import pair_of
from studio.mos.sessions.takes import script_ids
from studio.mos.stats.columns import Vote, Votes, votes_from_rows
from studio.mos.stats.elo import elo_report
from studio.mos.store.tables.answers import Answer, Choice
from studio.mos.store.tables.campaigns import Campaign
from studio.mos.store.tables.raters import Rater
from studio.mos.store.tables.stimuli import System
from studio.mos.store.tables.trials import Trial


@dataclass(frozen=True)
class LadderEntry:
    """A ranked system.

    Attributes:
        best: highest rank compatible with the intervals of the differences; ``worst`` the lowest.
        low: of the 95% interval of ``elo``, like ``high`` None if not estimable.
        state: set if there is no two-sided interval (``elo_report``).
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
class ArenaLadder:
    """Public state of an arena.

    Attributes:
        steps: systems with enough votes, best first.
        unranked: votes of each system with too few.
        undecided: shares of ties and of 'both bad'.
        interval: how the intervals were made.
    """

    title: str
    votes: int
    raters: int
    min_votes: int
    steps: Sequence[LadderEntry]
    unranked: Mapping[str, int]
    undecided: Mapping[str, float]
    interval: str
    notes: Sequence[str]


def arena_ladder(session: Session, campaign: Campaign, run: LoadedCampaign) -> ArenaLadder:
    """Ladder of an arena from the votes that the results count.

    Raises:
        BadFile, BadOption: the campaign is incomplete.
    """
    votes = arena_votes(session, campaign, run)
    report = elo_report(votes, "gamma", C, A0, B0)
    votes_of = {name: int(((votes.a == s) | (votes.b == s)).sum()) for s, name in enumerate(votes.systems)}
    min_votes = run.config.arena.min_votes
    ranked = [
        name for name in sorted(votes_of, key=lambda n: -report["systems"][n]["elo"]) if votes_of[name] >= min_votes
    ]
    above = {(d["a"], d["b"]) for d in report["differences"] if d["lo"] is not None and d["lo"] > 0}
    return ArenaLadder(
        title=run.config.texts.title,
        votes=len(votes),
        raters=report["raters"] or 0,
        min_votes=min_votes,
        steps=[_step(name, ranked, above, report["systems"][name], votes_of[name]) for name in ranked],
        unranked={name: votes_of[name] for name in votes.systems if votes_of[name] < min_votes},
        undecided=report["undecided"],
        interval=report["interval"],
        notes=report["notes"],
    )


def arena_votes(session: Session, campaign: Campaign, run: LoadedCampaign) -> Votes:
    """Counted votes of an arena by rater and typed script.

    The same as those of ``load_answers``, without loading stimuli and keys of every battle.
    """
    names = {s.id: s.name for s in session.exec(select(System).where(System.campaign_id == campaign.id))}
    units = {unit.key: unit for unit in run.units}
    excluded = excluded_raters(session, campaign)
    typed = script_ids(session, run.id)
    rows = session.exec(
        select(Trial, Choice.outcome, Rater.pseudonym)
        .join(Answer, col(Answer.trial_id) == col(Trial.id))
        .join(Choice, col(Choice.answer_id) == col(Answer.id))
        .join(Rater, col(Rater.id) == col(Trial.rater_id))
        .where(Trial.campaign_id == run.id, Answer.counted == 1, Rater.role == "panel")
        .order_by(col(Answer.id))
    ).all()
    votes: list[Vote] = []
    for trial, outcome, rater in rows:
        if rater in excluded:
            continue
        unit = units[trial.unit]
        first = unit.systems[unit.stimuli.index(trial.lead)]
        second = next(s for s in pair_of(unit) if s != first)
        votes.append(Vote(names[first], names[second], outcome, rater, typed.get(trial.id, trial.unit)))
    return votes_from_rows(votes, sorted({names[s] for unit in run.units for s in unit.systems}))


def _step(
    name: str, ranked: Sequence[str], above: set[tuple[str, str]], row: Mapping[str, Any], votes: int
) -> LadderEntry:
    best = 1 + sum((other, name) in above for other in ranked)
    worst = len(ranked) - sum((name, other) in above for other in ranked)
    return LadderEntry(name, best, worst, row["elo"], row["lo"], row["hi"], row["state"], votes)
