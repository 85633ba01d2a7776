"""The Compare page: utterances of one text beside each other, word by word."""

import gradio as gr

from studio.ui.widgets.compare.component import comparer


def build() -> gr.HTML:
    """Put the page into the surrounding Blocks; what is compared is in the address."""
    return comparer()
