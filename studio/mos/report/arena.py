"""Ladder of an arena: aggregate figures of systems, and its public page, one HTML file without scripts.

It shows nothing about individual raters.
"""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from html import escape
from typing import Any

from sqlmodel import Session, col, select

from studio.core.plurals import counted, plural
from studio.mos.analysis.quality import excluded_raters
from studio.mos.kinds.tables import A0, B0, C
from studio.mos.report.cells import NONE, number, percent
from studio.mos.report.charts import IntervalMark, interval_chart
from studio.mos.report.page import document, tiles
from studio.mos.report.pairs import elo_interval, elo_score
from studio.mos.sessions.campaigns import LoadedCampaign
from studio.mos.sessions.pairing import pair_of
from studio.mos.sessions.takes import script_ids
from studio.mos.stats.columns import Vote, Votes, votes_from_rows
from studio.mos.stats.elo import elo_report, rank_ranges
from studio.mos.store.tables import Answer, Campaign, Choice, Rater, System, Trial


@dataclass(frozen=True)
class LadderEntry:
    """A ranked system."""

    name: str
    best: int  # highest rank compatible with the intervals of the differences; ``worst`` the lowest
    worst: int
    elo: float
    low: float | None  # of the 95% interval of ``elo``; None (as ``high``) if not estimable
    high: float | None
    state: str | None  # set if there is no two-sided interval (``elo_report``)
    votes: int
    is_provisional: bool  # has fewer votes than the arena's ``min_votes``


@dataclass(frozen=True)
class ArenaLadder:
    """Public state of an arena."""

    title: str
    votes: int
    raters: int
    min_votes: int
    steps: Sequence[LadderEntry]  # systems with votes, best first
    unranked: Sequence[str]  # systems without votes
    undecided: Mapping[str, float]  # shares of ties and of 'both bad'
    interval: str  # how the intervals were made
    notes: Sequence[str]


def arena_ladder(session: Session, campaign: Campaign, run: LoadedCampaign) -> ArenaLadder:
    """Ladder of an arena from the votes that the results count.

    Raises BadFile, BadOption: the campaign is incomplete.
    """
    votes = arena_votes(session, campaign, run)
    report = elo_report(votes, "gamma", C, A0, B0)
    votes_of = {name: int(((votes.a == s) | (votes.b == s)).sum()) for s, name in enumerate(votes.systems)}
    min_votes = run.config.arena.min_votes
    ranked = [name for name in sorted(votes_of, key=lambda n: -report["systems"][n]["elo"]) if votes_of[name]]
    ranks = rank_ranges(report["differences"], ranked)
    return ArenaLadder(
        title=run.config.texts.title,
        votes=len(votes),
        raters=report["raters"] or 0,
        min_votes=min_votes,
        steps=[_step(name, ranks[name], report["systems"][name], votes_of[name], min_votes) for name in ranked],
        unranked=[name for name in votes.systems if not votes_of[name]],
        undecided=report["undecided"],
        interval=report["interval"],
        notes=report["notes"],
    )


def arena_votes(session: Session, campaign: Campaign, run: LoadedCampaign) -> Votes:
    """Counted votes of an arena by rater and typed script.

    Equal to those of ``load_answers``, but the stimuli and keys of every battle are not loaded.
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


def _step(name: str, ranks: tuple[int, int], row: Mapping[str, Any], votes: int, min_votes: int) -> LadderEntry:
    return LadderEntry(name, *ranks, row["elo"], row["lo"], row["hi"], row["state"], votes, votes < min_votes)


_MORE_CSS = """
body > p a, main > p a { color: var(--accent); }
.vote { display: inline-block; margin-top: 6px; padding: 10px 18px; border-radius: 10px; font-weight: 600;
  background: var(--accent); color: var(--on); text-decoration: none; }
.vote:focus-visible { outline: 2px solid var(--ink); outline-offset: 2px; }
.ladder :is(th, td) { text-align: start; }
.ladder :is(th, td):last-child { text-align: end; padding-inline-end: 0; }
.wide .ladder td { white-space: normal; }
.ladder .rank { font-weight: 650; white-space: nowrap; }
.ladder tbody th { overflow-wrap: anywhere; min-inline-size: 8em; }
.ladder td span { white-space: nowrap; color: var(--muted); }
svg { overflow: visible; }
@media (max-width: 640px) {
  .ladder td span { display: block; font-size: 12.5px; white-space: normal; }
  .ladder :is(th, td) { padding-inline-end: 8px; }
  .ladder tbody th { min-inline-size: 6.5em; }
}
"""
_WHAT = "Type a text, hear two hidden voices speak it while you type, and vote; then their names are shown."
_COLUMNS = ("Place", "System", "Elo, 95% interval", "Votes")


def ladder_page(arenas: Sequence[tuple[ArenaLadder, str, Mapping[str, str]]]) -> str:
    """HTML page of arenas, each given with the path to take part and the titles of its systems by name."""
    title = arenas[0][0].title if len(arenas) == 1 else "The arenas"
    parts = [_arena(ladder, path, titles, alone=len(arenas) == 1) for ladder, path, titles in arenas]
    live = '<p><a href="./">Type a text and hear these voices</a></p>'
    return document(f"{title}: the ladder", f"<h1>{escape(title)}</h1>{''.join(parts)}{live}", more_css=_MORE_CSS)


def _arena(ladder: ArenaLadder, path: str, titles: Mapping[str, str], alone: bool) -> str:
    systems = len(ladder.steps) + len(ladder.unranked)
    facts = (("vote", ladder.votes), ("voter", ladder.raters), ("system", systems))
    numbers = tiles((plural(count, noun), count) for noun, count in facts)
    heading = "" if alone else f"<h2>{escape(ladder.title)}</h2>"
    return (
        f'<section>{heading}<p>{_WHAT}</p><p><a class="vote" href=".{escape(path)}">Take part</a></p>'
        f"{numbers}</section>"
        f"<section><h2>The ladder</h2>{_ranked(ladder, titles)}{_unranked(ladder, titles)}"
        f"{_notes(ladder, titles)}</section>"
    )


def _ranked(ladder: ArenaLadder, titles: Mapping[str, str]) -> str:
    if not ladder.steps:
        return "<p>No votes yet: the ladder begins with the first one.</p>"
    head = "".join(f'<th scope="col">{name}</th>' for name in _COLUMNS)
    rows = "".join(
        f'<tr><td class="rank">{_rank_text(step)}</td>'
        f'<th scope="row">{_system_name(step.name, titles)}</th>'
        f"<td>{elo_score(asdict(step))} <span>{escape(_interval(step))}</span></td><td>{_votes(step, ladder)}</td></tr>"
        for step in ladder.steps
    )
    marks = [
        IntervalMark(f"{_rank_text(s)}. {titles.get(s.name, s.name)}", s.elo, s.low, s.high, number(s.elo, 0))
        for s in ladder.steps
        if not s.state
    ]
    chart = interval_chart(marks, title="Elo of each ranked system") if len(marks) > 1 else ""
    figure = f"<figure>{chart}<figcaption>Elo and 95% interval.</figcaption></figure>" if chart else ""
    return (
        '<div class="wide" tabindex="0" role="region" aria-label="The ladder"><table class="ladder">'
        f"<thead><tr>{head}</tr></thead><tbody>{rows}</tbody></table></div>{figure}"
    )


def _unranked(ladder: ArenaLadder, titles: Mapping[str, str]) -> str:
    if not ladder.unranked:
        return ""
    rows = "".join(f"<li>{_system_name(name, titles)}</li>" for name in ladder.unranked)
    return f"<h3>No votes yet</h3><ul>{rows}</ul>"


def _notes(ladder: ArenaLadder, titles: Mapping[str, str]) -> str:
    undecided = ladder.undecided
    people = f"{ladder.raters} {'person' if ladder.raters == 1 else 'people'}"
    if not ladder.votes:
        return ""
    notes = [
        f"Bradley-Terry scores of {counted(ladder.votes, 'vote')} by {people}, with intervals {ladder.interval}. Only "
        "differences are meaningful; a range of ranks means that the 95% intervals of the differences allow all of "
        "them.",
        f"Ties, {percent(undecided['tie'])} of the votes, and 'both bad', {percent(undecided['both_bad'])}, count as "
        "half a win each.",
        *(f"{_with_title(note, titles)}." for note in ladder.notes),
    ]
    head, rest = (
        "".join(f'<p class="note">{escape(one)}</p>' for one in part) for part in (_provisional(ladder), notes)
    )
    return f"{head}<details><summary>How places are computed</summary>{rest}</details>"


def _with_title(note: str, titles: Mapping[str, str]) -> str:
    """A note about one system, ``NAME: ...``, with its title as in the table; other notes are unchanged."""
    name = next((name for name in titles if note.startswith(f"{name}: ")), "")
    return f"{titles[name]}{note.removeprefix(name)}" if name else note


def _provisional(ladder: ArenaLadder) -> list[str]:
    if not any(step.is_provisional for step in ladder.steps):
        return []
    few = counted(ladder.min_votes, "vote")
    return [f"Provisional: systems with fewer than {few} may still change ranks with each vote."]


def _votes(step: LadderEntry, ladder: ArenaLadder) -> str:
    return f"{step.votes} of {ladder.min_votes} <span>provisional</span>" if step.is_provisional else str(step.votes)


def _system_name(name: str, titles: Mapping[str, str]) -> str:
    """Title of a system, with its exact name as a tooltip."""
    title = titles.get(name, name)
    return escape(title) if title == name else f'<span class="system" title="{escape(name)}">{escape(title)}</span>'


def _rank_text(step: LadderEntry) -> str:
    return str(step.best) if step.best == step.worst else f"{step.best}\N{EN DASH}{step.worst}"


def _interval(step: LadderEntry) -> str:
    return elo_interval({"state": step.state, "lo": step.low, "hi": step.high}) or NONE
