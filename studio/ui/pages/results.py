"""The results of a listening test, updated live: intervals, ladder, wins, scores, funnel, gates; and downloads."""

import itertools
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import gradio as gr

from studio.core.plurals import plural
from studio.mos.analysis.results import campaigns_by_last_answer
from studio.mos.import_export.export import write_export
from studio.mos.import_export.rater_export import write_raters
from studio.mos.report.cells import WIDE, ReportTable, answer_count
from studio.mos.report.design import gate_table
from studio.mos.report.margins import TITLE as MARGIN_TITLE
from studio.mos.report.margins import margin_sentences, margin_tables
from studio.mos.report.models import predicted_tables, second_opinion_tables
from studio.mos.report.page import html
from studio.mos.report.tables import detail_tables, latex, markdown, paper_tables, stopping_rule_text
from studio.mos.sessions.campaigns import find_campaign
from studio.ui.owner import QUIET, Owner, notice, on_open, plain, viewer_zone
from studio.ui.score_figures import compared, funnel, histograms, identified, intervals, margins
from studio.ui.vote_figures import answers, better, ladder, preferences, voices

_EVERY_S = 5.0
_NONE = (
    "There are no listening tests yet. <code>studio campaign new NAME --template speakstream-mos --from FOLDER</code> "
    "creates one."
)
FIGURES = (
    ("Differences against the margin, 90%", margins),
    ("Means, 95% by rater and script", intervals),
    ("CMOS of each pair, 95%", compared),
    ("Share of X found, 95%", identified),
    ("Preference of each pair", preferences),
    ("Elo, 95% intervals", ladder),
    ("Row better: one-sided confidence", better),
    ("Elo and scores by latency, 95%", voices),
    ("Answers by latency, 95%", answers),
    ("How often each score was given", histograms),
    ("Rater progress", funnel),
)
FORMATS = {
    "csv": ("CSV", "text/csv"),
    "json": ("JSON", "application/json"),
    "raters.csv": ("Raters", "text/csv"),
    "html": ("HTML report", "text/html"),
    "tex": ("LaTeX", "application/x-tex"),
    "md": ("Markdown", "text/markdown"),
}
_REPORTS = {"html": html, "tex": latex, "md": markdown}
_OPENED_JS = "() => [new URLSearchParams(location.search).get('campaign') || '']"  # from the list of tests
# Files go to the page's script, which saves them: in Gradio's folder anyone with the address could open them.
_SAVE_JS = """
watch('value', () => {
  const file = props.value;
  if (!file || !file.name) return;
  const link = document.createElement('a');
  link.href = URL.createObjectURL(new Blob([file.text], { type: file.type + ';charset=utf-8' }));
  link.download = file.name;
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 60000);
});
"""
_PLOT_ID = "owner-figure-"
_PLOT_FRAME_PX = 52  # padding and border of a figure in owner.css
_numbers = itertools.count(1)


def build(owner: Owner) -> None:
    """Build the page in the surrounding Blocks."""
    with gr.Column(elem_classes="owner", elem_id="results-page"):
        gr.HTML("<h1>Results</h1>", apply_default_css=False)
        with gr.Row(elem_classes="owner-choose"):
            campaign = gr.Dropdown([], label="Listening test", allow_custom_value=True, elem_id="owner-campaign")
            everyone = gr.Checkbox(label="Include raters who failed quality checks", elem_id="owner-everyone")
        message = gr.HTML("", apply_default_css=False, elem_id="owner-message")
        head = gr.HTML("", apply_default_css=False, elem_id="owner-head")
        with gr.Row(elem_classes="owner-files", visible="hidden") as files:
            saves = {kind: gr.Button(name, size="sm", min_width=90) for kind, (name, _) in FORMATS.items()}
        plots = [
            gr.Plot(label=label, visible=False, elem_classes="owner-plot", elem_id=f"{_PLOT_ID}{k}")
            for k, (label, _) in enumerate(FIGURES)
        ]
        tables = gr.HTML("", apply_default_css=False, elem_id="owner-tables")
    file = gr.HTML(None, html_template="", js_on_load=_SAVE_JS, apply_default_css=False, visible="hidden")
    seen = gr.State(None)
    inputs = [campaign, everyone, seen]
    outputs = [message, head, files, *plots, tables, seen]

    def view(name: str, everyone: bool, seen: Any, request: gr.Request) -> list[Any]:
        return _view(owner, request, name, everyone, seen)

    def view_all(name: str, everyone: bool, _: Any, request: gr.Request) -> list[Any]:
        return _view(owner, request, name, everyone, None)

    def names(name: str, request: gr.Request) -> tuple[str, Any]:
        return _names(owner, request, name)

    def saves_as(kind: str) -> Callable[[str, bool, gr.Request], tuple[str, Any]]:
        def save(name: str, everyone: bool, request: gr.Request) -> tuple[str, Any]:
            return owner.call(request, lambda: _file(owner, kind, name, everyone))

        return save

    on_open(names, [campaign], [message, campaign], js=_OPENED_JS).then(view_all, inputs, outputs, **QUIET)
    gr.on([campaign.input, everyone.input], view_all, inputs, outputs, **QUIET)
    gr.Timer(_EVERY_S).tick(view, inputs, outputs, **QUIET)
    for kind, button in saves.items():
        button.click(saves_as(kind), [campaign, everyone], [message, file], **QUIET)


def _names(owner: Owner, request: gr.Request, name: str) -> tuple[str, Any]:
    def work() -> list[str]:
        with owner.listening.store.read() as session:
            return campaigns_by_last_answer(session)

    message, names = owner.call(request, work)
    if names is None:
        return message, gr.Dropdown(choices=[])
    chosen = name or (names[0] if names else "")
    return ("" if names else notice(_NONE, "info")), gr.Dropdown(choices=names, value=chosen or None)


def _view(owner: Owner, request: gr.Request, name: str, everyone: bool, seen: Any) -> list[Any]:
    """All outputs; nothing is sent while nothing has changed."""

    def work() -> Any:
        return owner.snapshots.get(str(name), bool(everyone), viewer_zone(request)) if name else None

    message, snapshot = owner.call(request, work)
    if snapshot is None:
        return _empty_page(message or gr.skip())  # without a campaign, the earlier message stays
    stamp, results = snapshot
    now = [str(name), bool(everyone), *stamp]
    if now == seen:
        return [gr.skip() for _ in range(5 + len(FIGURES))]
    figures = [draw(results) for _, draw in FIGURES]
    plots = [gr.Plot(value=f, visible=f is not None) for f in figures]
    return ["", _reserved(figures) + _head(results), gr.Row(visible=True), *plots, _tables(results), now]


def _reserved(figures: Sequence[Any]) -> str:
    """A style that gives plotly's figures their height before they are drawn, so that nothing moves.

    Gradio inserts the figures after the tables, which wait for the last one; if it fails to load, for 30 s.
    """
    heights_px = {k: figure.layout.height + _PLOT_FRAME_PX for k, figure in enumerate(figures) if figure}
    if not heights_px:
        return ""
    rules = [f"#{_PLOT_ID}{k}{{min-block-size:{px}px}}" for k, px in heights_px.items()]
    last = f"#{_PLOT_ID}{max(heights_px)}"
    rules += [f".owner:not(:has({last})) #owner-tables{{animation:owner-wait 30s step-end}}"]
    return f"<style>{''.join(rules)}</style>"


def _empty_page(message: Any) -> list[Any]:
    return [message, "", gr.Row(visible="hidden"), *(gr.Plot(value=None, visible=False) for _ in FIGURES), "", None]


def _file(owner: Owner, kind: str, name: str, everyone: bool) -> dict[str, Any]:
    if kind in _REPORTS:
        text = _REPORTS[kind](owner.snapshots.get(name, everyone)[1])
    else:
        with owner.listening.store.read() as session, tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / f"answers.{kind}"
            (write_raters if kind == "raters.csv" else write_export)(session, find_campaign(session, name), path)
            text = path.read_bytes().decode("utf-8")
    # The number changes the value, so that the page saves the same file twice.
    return {"name": f"{name}.{kind}", "type": FORMATS[kind][1], "text": text, "number": next(_numbers)}


def _head(results: dict[str, Any]) -> str:
    facts = [
        (results["raters"], plural(results["raters"], "rater")),
        (results["finished"], "finished"),
        (answer_count(results), plural(results["wanted"] or results["counted"], "answer")),
        (results["left_out"], "failed quality checks"),
    ]
    facts += [(results["aside"], "to traps, golds, practice, repeats")] if results["aside"] else []
    erased = results["forgotten"]["raters"]
    facts += [(erased, "asked to be forgotten")] if erased else []
    facts_html = "".join(f"<div><dd>{plain(value)}</dd><dt>{what}</dt></div>" for value, what in facts)
    rule, prompt = stopping_rule_text(results), results["prompt"]
    more = [plain(rule)] if rule else []
    more += ["No answers that count yet: figures appear with the first ones."] if not paper_tables(results) else []
    notes_html = "".join(f"<p>{line}</p>" for line in more)
    prompt_html = f'<p class="muted">{plain(prompt)}</p>' if prompt else ""
    state = f'<span class="state" data-state="{results["state"]}">{results["state"]}</span>'
    title = f"<header><h2>{plain(results['title'])}</h2>{state}</header>"
    return f'<section class="owner-card">{title}{prompt_html}<dl>{facts_html}</dl>{notes_html}</section>'


def _tables(results: dict[str, Any]) -> str:
    gates, design = results["gates"], results["design"]
    parts = [_table(t) for t in paper_tables(results)]
    parts += [_table(gate_table("Rater quality checks", gates["all"], design))]
    second = "".join(_table(t) for t in second_opinion_tables(results))
    second_opinion = f'<section class="owner-card" id="owner-second-opinion">{second}</section>' if second else ""
    folded = [gate_table(f"Quality checks of raters who joined on {d}", g, design) for d, g in gates["by_day"].items()]
    folded += [*margin_tables(results), *detail_tables(results)]
    parts += [
        f"<details><summary>{plain(t.caption)}</summary>{_table(ReportTable('', t.columns, t.rows, t.notes))}</details>"
        for t in folded
    ]
    foreseen = "".join(_table(t) for t in predicted_tables(results))
    predictions = f'<section class="owner-card" id="owner-predicted">{foreseen}</section>' if foreseen else ""
    sentences = "".join(f"<p><strong>{plain(text)}</strong></p>" for text in margin_sentences(results))
    margin = (
        f'<section class="owner-card" id="owner-margin"><h3>{MARGIN_TITLE}</h3>{sentences}</section>'
        if sentences
        else ""
    )
    main = f'<section class="owner-card">{"".join(parts)}</section>'
    return f"{margin}{main}{second_opinion}{predictions}{_sounds(results)}"


def _sounds(results: dict[str, Any]) -> str:
    """Links to every sound on the Inspect page, by script and system; empty for a live test."""
    by_script = results["sounds"]
    systems = [
        one["name"] for one in results["systems"] if any(one["name"] in present for present in by_script.values())
    ]
    if not by_script:
        return ""
    head = "".join(f'<th scope="col">{plain(name)}</th>' for name in ("Script", *systems))
    rows = ""
    for script, present in by_script.items():
        cells = "".join(_sound_link(results["name"], script, system, present) for system in systems)
        rows += f'<tr><th scope="row">{plain(script)}</th>{cells}</tr>'
    hint = '<p class="muted">Each opens on the Inspect page, with its ratings and predictions.</p>'
    table = f"{WIDE}<table><thead><tr>{head}</tr></thead><tbody>{rows}</tbody></table></div>"
    folded = f"<details><summary>Inspect each sound</summary>{hint}{table}</details>"
    return f'<section class="owner-card" id="owner-sounds">{folded}</section>'


def _sound_link(campaign: str, script: str, system: str, present: list[str]) -> str:
    if system not in present:
        return "<td></td>"
    address = plain(f"./inspect?{urlencode({'test': campaign, 'script': script, 'system': system})}")
    return f'<td><a href="{address}" aria-label="{plain(f"Inspect {script} by {system}")}">Inspect</a></td>'


def _table(table: ReportTable) -> str:
    head = "".join(f'<th scope="col">{plain(c)}</th>' for c in table.columns)
    rows = "".join(
        f'<tr><th scope="row">{plain(row[0])}</th>{"".join(f"<td>{plain(c)}</td>" for c in row[1:])}</tr>'
        for row in table.rows
    )
    title = f"<h3>{plain(table.caption)}</h3>" if table.caption else ""
    notes = "".join(f'<p class="muted">{plain(n)}</p>' for n in table.notes)
    return f"{title}{WIDE}<table><thead><tr>{head}</tr></thead><tbody>{rows}</tbody></table></div>{notes}"
