"""The Engine page: places, queue, batches and time of each module, stalls, memory, as they are now."""

import gradio as gr
from gradio.context import Context as Building

from studio.core.load import EngineLoad, ModuleLoad, TellsLoad, resident_bytes
from studio.ui.owner import QUIET, plain

_EVERY_S = 1.0
_NOTHING_RAN = '<p class="muted">Nothing was spoken yet. Type on the Live page, and watch this one.</p>'


def build(engine: TellsLoad) -> None:
    """Put the page into the surrounding Blocks."""
    with gr.Column(elem_classes="owner"):
        gr.HTML("<h1>Engine</h1>", apply_default_css=False)
        shown = gr.HTML("", apply_default_css=False, elem_id="engine-load")
    seen = gr.State(None)

    def view(before: object) -> tuple[object, object]:
        """The page anew; nothing is sent where nothing has changed."""
        now = _shown(engine.load())
        return (gr.skip(), gr.skip()) if now == before else (now, now)

    assert Building.root_block is not None, "pages are built inside Blocks"
    Building.root_block.load(view, [seen], [shown, seen], **QUIET)
    gr.Timer(_EVERY_S).tick(view, [seen], [shown, seen], **QUIET)


def _shown(load: EngineLoad) -> str:
    stalled = f"{load.stalls:,}" + (f" · {load.stalled_ms / 1000.0:,.1f} s" if load.stalls else "")
    memory = f"{resident_bytes() / 1e6:,.0f} MB"
    device = [(f"{load.device_bytes / 1e6:,.0f} MB", "memory of the GPU")] if load.device_bytes else []
    now = _facts(
        [
            (f"{load.speaking} of {load.places}", "places taken"),
            (f"{load.waiting} of {load.queue}", "wait in the queue"),
            (memory, "memory of the process"),
            *device,
        ]
    )
    since = _facts(
        [
            (f"{load.opened:,}", "utterances"),
            (f"{load.refused:,}", "found no place"),
            (f"{load.failed:,}", "failed"),
            (f"{load.audio_s:,.1f} s", "spoken"),
            (stalled, "stalls that were the computer's"),
        ]
    )
    share = load.speaking / max(1, load.places)
    places = f'<div class="meter" aria-hidden="true"><i style="inline-size:{100 * share:.0f}%"></i></div>'
    return (
        f'<section class="owner-card"><h2>Now</h2>{now}{places}</section>'
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
    table = f'<div class="wide"><table><thead><tr>{head}</tr></thead><tbody>{rows}</tbody></table></div>'
    return table + "".join(_histogram(one) for one in modules)


def _histogram(one: ModuleLoad) -> str:
    """Runs by rows, a bar each."""
    most = max(one.runs.values())
    bars = "".join(
        f'<tr><th scope="row">{size}</th><td class="bar"><i style="inline-size:{100 * count / most:.1f}%"></i></td>'
        f"<td>{count:,}</td><td>{one.ms[size] / count:.2f} ms</td></tr>"
        for size, count in sorted(one.runs.items())
    )
    head = "".join(f'<th scope="col">{name}</th>' for name in ("Rows", "share", "runs", "a run"))
    title = f"{plain(one.name)} <span class='muted'>{plain(one.voice)}</span>"
    return f'<h3>{title}</h3><table class="runs"><thead><tr>{head}</tr></thead><tbody>{bars}</tbody></table>'
