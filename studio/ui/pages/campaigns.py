"""The owner's list of listening tests: progress, links, opening and closing."""

from typing import Any
from urllib.parse import quote

import gradio as gr
from sqlmodel import col, select

from studio.core.plurals import plural
from studio.mos.analysis.results import overview
from studio.mos.kinds.registry import kind_of
from studio.mos.report.cells import answer_count
from studio.mos.sessions.campaigns import set_state
from studio.mos.stimuli.building import delete_campaign
from studio.mos.stimuli.demo import demo_link
from studio.mos.store.tables import Campaign
from studio.ui.owner import QUIET, Owner, notice, on_open, plain

_EVERY_S = 10.0
_NONE = (
    "There are no listening tests yet: create one above, or with <code>studio campaign new NAME --template "
    "speakstream-mos --from FOLDER</code>; <code>studio campaign templates</code> lists the templates."
)
_NEW = '<a class="button primary" href="./edit">New listening test</a>'
# The listener is on the element, since the list is replaced. Links are relative, so that proxies work.
_ON_LOAD = """
element.addEventListener('click', async (event) => {
  const button = event.target.closest('button');
  if (!button) return;
  const { ask } = button.dataset;
  if (ask && !confirm(ask)) return;
  if (button.dataset.state) trigger('click', { campaign: button.dataset.campaign, state: button.dataset.state });
  if (button.dataset.copy === undefined) return;
  const address = button.closest('.link').querySelector('a').href;
  let said = 'Copied';
  try { await navigator.clipboard.writeText(address); } catch { said = 'Not copied: ' + address; }
  button.textContent = said;
  setTimeout(() => { button.textContent = 'Copy'; }, 2000);
});
"""


def build(owner: Owner) -> None:
    """Build the page in the surrounding Blocks."""

    def refresh(request: gr.Request) -> tuple[str, str]:
        message, rows = owner.call(request, lambda: _rows(owner))
        return (message, "") if rows is None else (message if rows else notice(_NONE, "info"), _list(rows))

    def change(event: gr.EventData, request: gr.Request) -> tuple[str, str]:
        data = event._data if isinstance(event._data, dict) else {}

        def work() -> list[dict[str, Any]]:
            name, state = str(data.get("campaign", "")), str(data.get("state", ""))
            if state == "deleted":
                delete_campaign(owner.listening, name, only_draft=True)
            else:
                owner.listening.store.write_now(lambda session: set_state(session, name, state).id)
            owner.listening.clear_campaign_cache()
            return _rows(owner)

        message, rows = owner.call(request, work)
        return message, _list(rows or [])

    def demo() -> str:
        link = demo_link(owner.listening)
        return "" if link is None else _demo(link)

    def opened(request: gr.Request) -> tuple[str, str, str]:
        """The whole page at once, so that nothing moves."""
        return (*refresh(request), demo())

    with gr.Column(elem_classes="owner", elem_id="campaigns-page"):
        gr.HTML("<h1>Listening tests</h1>", apply_default_css=False)
        demo_card = gr.HTML("", apply_default_css=False, elem_id="owner-demo")
        gr.HTML(_NEW, apply_default_css=False, elem_id="owner-new")
        message = gr.HTML("", apply_default_css=False, elem_id="owner-message")
        listing = gr.HTML("", js_on_load=_ON_LOAD, apply_default_css=False, elem_id="owner-list")
    outputs = [message, listing]
    gr.Timer(_EVERY_S).tick(demo, None, [demo_card], **QUIET)  # a first start is still creating it
    on_open(opened, None, [*outputs, demo_card])
    listing.click(change, None, outputs, **QUIET)
    gr.Timer(_EVERY_S).tick(refresh, None, outputs, **QUIET)


def _rows(owner: Owner) -> list[dict[str, Any]]:
    with owner.listening.store.read() as session:
        newest_first = session.exec(select(Campaign).order_by(col(Campaign.created_at).desc())).all()
        campaigns = sorted(newest_first, key=lambda c: c.state != "open")
        return [{**overview(session, c), "links": owner.listening.links(c.name)} for c in campaigns]


def _list(rows: list[dict[str, Any]]) -> str:
    return "".join(_card(row) for row in rows)


def _card(row: dict[str, Any]) -> str:
    name, opened, kind = plain(row["name"]), row["state"] == "open", plain(kind_of(row["kind"]).title)
    share = min(1.0, row["counted"] / row["wanted"]) if row["wanted"] else 0.0
    erased = row["forgotten"]["raters"]
    facts = [
        (row["raters"], plural(row["raters"], "rater")),
        (row["finished"], "finished"),
        (answer_count(row), plural(row["wanted"] or row["counted"], "answer")),
        *([(row["aside"], "to traps, golds, practice, repeats")] if row["aside"] else []),
        *([(row["skipped"], f"{plural(row['skipped'], 'screen')} skipped")] if row["skipped"] else []),
        *([(erased, "forgotten")] if erased else []),
    ]
    stop = row["stopped"]
    stopped = f'<p class="stopped">Closed by its stopping rule: {plain(stop["why"])}</p>' if stop else ""
    facts_html = "".join(f"<div><dd>{plain(value)}</dd><dt>{what}</dt></div>" for value, what in facts)
    state = "closed" if opened else "open"
    lacking = f'<p class="muted">Not ready to open: {plain(row["lacking"])}.</p>' if row["lacking"] else ""
    meter = (
        f'<div class="meter" role="progressbar" aria-label="answers" aria-valuenow="{share * 100:.0f}">'
        f'<i style="inline-size:{share * 100:.1f}%"></i></div>'
    )
    links = _link("For raters", row["links"]["rater"], "the raters'") + _link(
        "Preview, not counted", row["links"]["preview"], "the preview"
    )
    if opened and "ladder" in row["links"]:
        links += _link("Public ladder", row["links"]["ladder"], "the ladder's")
    return (
        f'<article class="campaign" data-name="{name}"><header><h2>{name}</h2>'
        f'<span class="state" data-state="{row["state"]}">{row["state"]}</span></header>'
        f'<p class="muted">{plain(row["title"])} <span class="kind">{kind}</span></p>{lacking}'
        f'{meter if row["wanted"] else ""}<dl>{facts_html}</dl>{stopped}<div class="links">{links}</div>'
        f'<footer><button type="button" data-campaign="{name}" data-state="{state}">'
        f"{'Close' if opened else 'Open'}</button>{_draft(row)}"
        f'<a class="button" href="./results?campaign={plain(quote(row["name"], safe=""))}">Results</a>'
        "</footer></article>"
    )


def _draft(row: dict[str, Any]) -> str:
    """The buttons of a draft. A test with answers is deleted only on the command line."""
    if row["state"] != "draft":
        return ""
    name = plain(row["name"])
    ask = f"Delete the draft {name} permanently?"
    return (
        f'<a class="button" href="./edit?campaign={plain(quote(row["name"], safe=""))}">Edit</a>'
        f'<button type="button" data-campaign="{name}" data-state="deleted" data-ask="{ask}">Delete</button>'
    )


def _demo(path: str) -> str:
    return (
        '<article class="owner-card demo"><h2>Rate the voices: a demo</h2><p>Twelve screens, a few minutes, no '
        "token needed. Your answers are kept in this studio's own database.</p>"
        f'<p><a class="button" href=".{plain(path)}" target="_blank" rel="noopener">Rate the demo</a></p></article>'
    )


def _link(label: str, path: str, name: str) -> str:
    return (
        f'<div class="link"><span>{label}</span><a href=".{plain(path)}" target="_blank" rel="noopener">'
        f'Open link</a><button type="button" data-copy aria-label="Copy {name} link">Copy</button></div>'
    )
