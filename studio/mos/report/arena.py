"""Public ladder page of an arena: one HTML file without scripts, all text escaped."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from html import escape
from pathlib import Path

from studio.mos.analysis.ladder import ArenaLadder, LadderEntry
from studio.mos.report.cells import NONE, number, percent
from studio.mos.report.charts import IntervalMark, interval_chart
from studio.mos.report.choices import elo_interval, elo_score

_CSS = Path(__file__).with_name("page.css")
_MORE_CSS = """
.vote { display: inline-block; margin-top: 6px; padding: 10px 18px; border-radius: 10px; font-weight: 600;
  background: var(--accent); color: var(--on); text-decoration: none; }
.vote:focus-visible { outline: 2px solid var(--ink); outline-offset: 2px; }
.ladder :is(th, td) { text-align: start; }
.ladder :is(th, td):last-child { text-align: end; padding-inline-end: 0; }
.wide .ladder td { white-space: normal; }
.ladder .place { font-weight: 650; white-space: nowrap; }
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
    head = f"<h1>{escape(title)}</h1>"
    return (
        '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f"<title>{escape(title)}: the ladder</title>\n<style>\n{_CSS.read_text(encoding='utf-8')}{_MORE_CSS}</style>\n"
        f"</head>\n<body><main>\n{head}{''.join(parts)}\n</main></body>\n</html>\n"
    )


def _arena(ladder: ArenaLadder, path: str, titles: Mapping[str, str], alone: bool) -> str:
    people = f"{ladder.raters} {'person' if ladder.raters == 1 else 'people'}"
    systems = len(ladder.steps) + len(ladder.unranked)
    tiles = {"votes": ladder.votes, "voters": ladder.raters, "systems": systems}
    shown = "".join(f"<div><dt>{name}</dt><dd>{value}</dd></div>" for name, value in tiles.items())
    heading = "" if alone else f"<h2>{escape(ladder.title)}</h2>"
    return (
        f'<section>{heading}<p>{_WHAT}</p><p><a class="vote" href=".{escape(path)}">Take part</a></p>'
        f'<dl class="tiles">{shown}</dl></section>'
        f"<section><h2>The ladder</h2>{_ranked(ladder, titles)}{_unranked(ladder, titles)}{_notes(ladder, people)}"
        "</section>"
    )


def _ranked(ladder: ArenaLadder, titles: Mapping[str, str]) -> str:
    if not ladder.steps:
        return f"<p>No system has {ladder.min_votes} votes yet.</p>"
    head = "".join(f'<th scope="col">{name}</th>' for name in _COLUMNS)
    rows = "".join(
        f'<tr><td class="place">{_place(step)}</td>'
        f'<th scope="row">{_system_name(step.name, titles)}</th>'
        f"<td>{_score(step)} <span>{escape(_interval(step))}</span></td><td>{step.votes}</td></tr>"
        for step in ladder.steps
    )
    marks = [
        IntervalMark(f"{_place(s)}. {titles.get(s.name, s.name)}", s.elo, s.low, s.high, number(s.elo, 0))
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
    rows = "".join(
        f"<li>{_system_name(name, titles)}: {votes} of {ladder.min_votes} votes</li>"
        for name, votes in ladder.unranked.items()
    )
    return f"<h3>Not ranked yet</h3><ul>{rows}</ul>"


def _notes(ladder: ArenaLadder, people: str) -> str:
    undecided = ladder.undecided
    notes = [
        f"Bradley-Terry scores of {ladder.votes} votes by {people}, with intervals {ladder.interval}. Only differences "
        "are meaningful; a range of places means that the 95% intervals of the differences allow all of them.",
        f"Ties, {percent(undecided['tie'])} of the votes, and 'both bad', {percent(undecided['both_bad'])}, count as "
        "half a win each.",
        *(f"{note}." for note in ladder.notes),
    ]
    return "".join(f'<p class="note">{escape(one)}</p>' for one in notes) if ladder.votes else ""


def _system_name(name: str, titles: Mapping[str, str]) -> str:
    """Title of a system, with its exact name as a tooltip."""
    title = titles.get(name, name)
    return escape(title) if title == name else f'<span class="system" title="{escape(name)}">{escape(title)}</span>'


def _place(step: LadderEntry) -> str:
    return str(step.best) if step.best == step.worst else f"{step.best}\N{EN DASH}{step.worst}"


def _score(step: LadderEntry) -> str:
    return elo_score(asdict(step))


def _interval(step: LadderEntry) -> str:
    return elo_interval({"state": step.state, "lo": step.low, "hi": step.high}) or NONE
