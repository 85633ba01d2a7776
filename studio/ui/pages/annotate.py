"""The annotators' page, ``/annotate#TOKEN``: the utterances of one assignment, and no way to the rest of the studio."""

import gradio as gr
from gradio.components import Navbar

from studio.ui.widgets.annotate.component import annotator


def build() -> gr.HTML:
    """Put the page into the surrounding Blocks."""
    Navbar(main_page_name=False)  # Gradio's own would lead to the first page
    return annotator()
