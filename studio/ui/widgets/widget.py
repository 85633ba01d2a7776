"""A component of ours: one ``gr.HTML`` with the markup and the script of a folder beside this file.

It is no subclass of ``gr.HTML``: Gradio writes a stub file beside the source of every subclass.
"""

from typing import Any

import gradio as gr

from studio.ui.assets import WIDGETS, asset_path

# Gradio's own root, so that a prefix (a proxy, a Space) is kept; only its path, so that the port is the page's.
_LOAD = """
const root = new URL(window.gradio_config?.root || '/', location.href).pathname.replace(/\\/$/, '');
const base = location.origin + root + props.assets;
const failed = () => {
  const line = element.querySelector('.status') ?? element;
  line.textContent = 'This page could not be loaded whole: the server has changed or gone. Reload it.';
  line.dataset.level = 'error';
};
import(base + '/NAME/NAME.js').then((script) => START, failed);
"""


def markup(name: str) -> str:
    """The HTML of a folder."""
    return (WIDGETS / name / f"{name}.html").read_text(encoding="utf-8")


def widget(name: str, start: str, before: str = "", more: str = "", **props: Any) -> gr.HTML:
    """The component of a folder, which holds ``NAME.html`` and ``NAME.js``.

    Args:
        start: JavaScript that uses the script, as ``script``; ``element``, ``props``, ``base`` and ``root`` are there.
        before: JavaScript that runs before the script has come.
        more: HTML after that of the folder.
        props: for the script.
    """
    return gr.HTML(
        value="",
        html_template=markup(name) + more,
        js_on_load=before + _LOAD.replace("NAME", name).replace("START", start),
        apply_default_css=False,
        show_label=False,
        elem_id=name,
        assets=asset_path(),
        **props,
    )
