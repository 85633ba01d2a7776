"""The annotator's component: what a link asks for, and the Inspect component's picture to mark it in."""

import gradio as gr

from studio.ui.widgets.widget import markup, widget


def annotator() -> gr.HTML:
    """The component; the link's token is behind the # of its address, which no server sees."""
    return widget("annotate", "script.start(element, location.origin + root + '/')", more=markup("inspect"))
