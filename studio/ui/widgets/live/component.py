"""The Live component: one ``gr.HTML`` that owns a socket in a Worker, a player in an audio worklet, and a canvas."""

import gradio as gr

from studio.ui.assets import WIDGETS, asset_path, loader


def live_player(examples: list[dict[str, str]]) -> gr.HTML:
    """The component that speaks what is typed into it, while it is being typed.

    It is no subclass of ``gr.HTML``: Gradio writes a stub file beside the source of every subclass.

    Args:
        examples: texts to choose from, each with ``title`` and ``text``.
    """
    return gr.HTML(
        value="",
        html_template=(WIDGETS / "live" / "live.html").read_text(encoding="utf-8"),
        js_on_load=loader("live/live.js", "script.start(element, props, base, location.origin + root + '/')"),
        apply_default_css=False,
        show_label=False,
        elem_id="live",
        assets=asset_path(),
        examples=examples,
    )
