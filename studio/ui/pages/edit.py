"""The owner's page for one draft: begun, edited, looked at and opened in the browser."""

import gradio as gr

from studio.ui.owner import script_page
from studio.ui.widgets.edit.component import editor


def build() -> gr.HTML:
    """Put the page into the surrounding Blocks; which draft it is, is in the address."""
    return script_page(editor)
