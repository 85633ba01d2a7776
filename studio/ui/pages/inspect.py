"""The Inspect page: what was typed, made and heard of one utterance."""

import gradio as gr

from studio.ui.widgets.inspect.component import inspector


def build() -> gr.HTML:
    """Put the page into the surrounding Blocks."""
    return inspector()
