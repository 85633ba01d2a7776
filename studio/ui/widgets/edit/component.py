"""The Edit component: one ``gr.HTML`` whose script asks the ``/mos/owner`` routes for a draft and sends its changes."""

import gradio as gr

from studio.ui.widgets.widget import widget


def editor() -> gr.HTML:
    """The component; it begins when the owner's token is there."""
    return widget("edit", "script.start(element, base, location.origin + root + '/')")
