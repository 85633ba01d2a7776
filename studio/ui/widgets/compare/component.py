"""The Compare component: one ``gr.HTML`` that lays utterances of one text beside each other, and has them spoken."""

import gradio as gr

from studio.ui.widgets.widget import widget


def comparer() -> gr.HTML:
    """The component; it fetches what it shows from ``studio.serve.traces.comparison`` and speaks over the socket."""
    return widget("compare", "script.start(element, location.origin + root + '/')")
