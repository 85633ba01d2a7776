"""The rater's component: one ``gr.HTML`` whose script asks the ``/mos`` routes what to show and sends the answers."""

import gradio as gr

from studio.ui.assets import WIDGETS, asset_path, loader


def rater() -> gr.HTML:
    """The component that leads one rater through one campaign; Gradio's queue has no part in it."""
    return gr.HTML(
        value="",
        html_template=(WIDGETS / "rate" / "rate.html").read_text(encoding="utf-8"),
        js_on_load=loader("rate/rate.js", "script.start(element, base, location.origin + root + '/mos/')"),
        apply_default_css=False,
        show_label=False,
        elem_id="rate",
        assets=asset_path(),
    )
