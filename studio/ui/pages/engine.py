"""The Engine page: slots, queue, batches and run time of each module, stalls and memory."""

import gradio as gr
from gradio.context import Context as Building

from studio.core.plurals import plural
from studio.core.ports import EngineLoad, ModuleLoad, SupportsLoad, resident_bytes
from studio.mos.report.cells import WIDE
from studio.ui.owner import QUIET, plain

_EVERY_S = 1.0
_LEGEND = (
    "A module is a part of a voice that runs in batches: each run has a row for each utterance that needs it. The more "
    "rows a run has, the less each row costs. A slow run took longer than the server's limit and is in its log."
)
_WHAT = {  # by family, as the modules' own docstrings say
    "prefill": "reads text, and makes the first frame after it",
    "decode": "makes the next frame",
    "encode": "reads a clause, once",
    "word": "reads the words in view, and makes the first frame of a step",
    "warm": "reads text while no sound is due",
    "vocode": "makes sound of frames",
}
# Runs in the page, so that it also works when the server is down.
_LOOK_JS = """async () => {
  const root = new URL(window.gradio_config?.root || '/', location.href).pathname.replace(/\\/$/, '');
  const response = await fetch(`${root}/health`, { cache: 'no-store' }).catch(() => null);
  const isThere = response !== null && response.status < 500;
  const line = document.querySelector('#engine-away p');
  if (!line) return;
  const facts = response === null ? {} : await response.json().catch(() => ({}));
  const box = document.querySelector('#engine-replicas');
  if (box && facts.replicas) {
    const rows = facts.replicas.map((one) => [one.name, one.status, `${one.places - one.places_free} of ${one.places}`,
      one.waiting, `${Math.round(100 * one.step_share)}%`]);
    box.querySelector('tbody').replaceChildren(...rows.map((cells) => {
      const row = document.createElement('tr');
      row.append(...cells.map((cell, at) => {
        const element = document.createElement(at ? 'td' : 'th');
        element.textContent = cell;
        return element;
      }));
      return row;
    }));
    box.hidden = false;
  }
  if (isThere) window.engineSeen = new Date().toLocaleTimeString();
  const since = window.engineSeen ?? 'the start';
  line.textContent = isThere ? '' : `The server does not answer. These figures are from ${since}.`;
}"""
_REPLICAS = (
    '<section class="owner-card" id="engine-replicas" hidden><h2>Replicas</h2>'
    '<p class="muted">The figures below are those of one of them.</p>'
    f'{WIDE}<table><thead><tr><th scope="col">Replica</th><th scope="col">state</th>'
    '<th scope="col">slots in use</th><th scope="col">in the queue</th><th scope="col">step, % of a frame</th></tr>'
    "</thead><tbody></tbody></table></div></section>"
)
_NOTHING_RAN = '<p class="muted">Nothing was spoken yet. Type on the Live page to see figures here.</p>'


def build(engine: SupportsLoad) -> None:
    """Build the page in the surrounding Blocks."""
    with gr.Column(elem_classes="owner", elem_id="engine-page"):
        gr.HTML("<h1>Engine</h1>", apply_default_css=False)
        # One element, since the column has a gap beside an empty one too.
        gr.HTML('<p role="alert"></p>' + _REPLICAS, apply_default_css=False, elem_id="engine-away")
        content = gr.HTML("", apply_default_css=False, elem_id="engine-load")
    seen = gr.State(None)

    def view(before: object) -> tuple[object, object]:
        """The current figures; nothing is sent if they are unchanged."""
        now = _load_html(engine.load())
        return (gr.skip(), gr.skip()) if now == before else (now, now)

    assert Building.root_block is not None, "pages are built inside Blocks"
    Building.root_block.load(view, [seen], [content, seen], **QUIET)
    timer = gr.Timer(_EVERY_S)
    timer.tick(view, [seen], [content, seen], **QUIET)
    timer.tick(None, None, None, js=_LOOK_JS, **QUIET)


def _load_html(load: EngineLoad) -> str:
    stalled = f"{load.stalls:,}" + (f" · {load.stalled_ms / 1000.0:,.1f} s" if load.stalls else "")
    ram = f"{resident_bytes() / 1e6:,.0f} MB"
    device = [(f"{load.device_bytes / 1e6:,.0f} MB", "memory of the GPU")] if load.device_bytes else []
    now = _facts(
        [
            (f"{load.speaking} of {load.slots}", "slots in use"),
            (f"{load.waiting} of {load.queue}", "in the queue"),
            (ram, "memory of the process"),
            *device,
        ]
    )
    since = _facts(
        [
            (f"{load.opened:,}", plural(load.opened, "utterance")),
            (f"{load.refused:,}", "rejected as busy; each retry counts"),
            (f"{load.failed:,}", "failed"),
            (f"{load.audio_s:,.1f} s", "of audio"),
            (stalled, f"{plural(load.stalls, 'stall')} caused by compute"),
        ]
    )
    share = load.speaking / max(1, load.slots)
    meter = f'<div class="meter" aria-hidden="true"><i style="inline-size:{100 * share:.0f}%"></i></div>'
    return (
        f'<section class="owner-card"><h2>Now</h2>{now}{meter}</section>'
        f'<section class="owner-card"><h2>Since the start</h2>{since}</section>'
        f'<section class="owner-card"><h2>Modules</h2>{_modules(load.modules)}</section>'
    )


def _facts(facts: list[tuple[object, str]]) -> str:
    return f"<dl>{''.join(f'<div><dd>{plain(value)}</dd><dt>{what}</dt></div>' for value, what in facts)}</dl>"


def _modules(modules: tuple[ModuleLoad, ...]) -> str:
    if not modules:
        return _NOTHING_RAN
    names = ("Module", "runs", "rows a run", "ms a run", "ms a row", "slow runs")
    head = "".join(f'<th scope="col">{name}</th>' for name in names)
    rows = "".join(
        f'<tr><th scope="row">{plain(one.name)} <span class="muted">{plain(one.voice)}</span></th>'
        f"<td>{sum(one.runs.values()):,}</td><td>{one.mean_rows:.2f}</td><td>{one.mean_ms:.2f}</td>"
        f"<td>{sum(one.ms.values()) / max(1, one.rows):.2f}</td><td>{one.slow:,}</td></tr>"
        for one in modules
    )
    table = f"{WIDE}<table><thead><tr>{head}</tr></thead><tbody>{rows}</tbody></table></div>"
    return f'<p class="muted">{_LEGEND}</p>{table}' + "".join(_histogram(one) for one in modules)


def _histogram(one: ModuleLoad) -> str:
    """Runs by number of rows, as bars."""
    total = max(1, sum(one.runs.values()))
    bars = "".join(
        f'<tr><th scope="row">{size}</th><td class="bar"><i style="inline-size:{100 * count / total:.1f}%"></i></td>'
        f"<td>{100 * count / total:.0f}</td><td>{count:,}</td><td>{one.ms[size] / count:.2f}</td></tr>"
        for size, count in sorted(one.runs.items())
    )
    names = ("Rows", "share of runs", "% of runs", "runs", "ms a run")
    head = "".join(f'<th scope="col">{name}</th>' for name in names)
    title = f"{plain(one.name)} <span class='muted'>{plain(one.voice)}</span>"
    if one.name in _WHAT:
        title += f" <span class='muted'>· {_WHAT[one.name]}</span>"
    table = f'<table class="runs"><thead><tr>{head}</tr></thead><tbody>{bars}</tbody></table>'
    return f"<h3>{title}</h3>{WIDE}{table}</div>"
