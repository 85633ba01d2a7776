"""The Library component: one ``gr.HTML`` whose script asks the ``/library`` routes for what was kept."""

import gradio as gr

from studio.ui.widgets.widget import widget


def library_list() -> gr.HTML:
    """The component; it begins when the owner's token is there."""
    return widget("library", "script.start(element, location.origin + root + '/')")
