"""The rater's component: one ``gr.HTML`` whose script asks the ``/mos`` routes what to show and sends the answers."""

import gradio as gr

from studio.ui.widgets.widget import widget


def rater() -> gr.HTML:
    """The component that leads one rater through one campaign; Gradio's queue has no part in it."""
    return widget("rate", "script.start(element, base, location.origin + root + '/mos/')")
