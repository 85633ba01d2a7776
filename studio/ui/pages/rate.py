"""The rater's page, ``/rate?test=ID&key=K``: one listening test, and no way from it to the rest of the studio."""

import gradio as gr
from gradio.components import Navbar

from studio.ui.widgets.rate.component import rater


def build() -> gr.HTML:
    """Put the page into the surrounding Blocks; which test it is, is in the address."""
    Navbar(main_page_name=False)  # Gradio's own would lead to the first page
    return rater()
