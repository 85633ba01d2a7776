"""The owner's page of what was kept: found, opened, noted and removed in the browser."""

import gradio as gr

from studio.ui.owner import script_page
from studio.ui.widgets.library.component import library_list


def build() -> gr.HTML:
    """Put the page into the surrounding Blocks; what is looked for is in the address."""
    return script_page(library_list)
