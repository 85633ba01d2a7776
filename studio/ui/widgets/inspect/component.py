"""The Inspect component: one ``gr.HTML`` that opens a trace or a recording and draws it on a canvas."""

import gradio as gr

from studio.ui.widgets.widget import widget


def inspector() -> gr.HTML:
    """The component; it fetches what it shows from ``studio.serve.traces.inspection``."""
    return widget("inspect", "script.start(element, location.origin + root + '/')")
