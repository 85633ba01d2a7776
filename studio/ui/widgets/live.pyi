"""The Live component: one ``gr.HTML`` that owns a socket in a Worker, a player in an audio worklet, and a canvas."""

from typing import Any

import gradio as gr

from studio.ui.assets import WIDGETS, asset_path

# Gradio's own root, so that a prefix (a proxy, a Space) is kept; only its path, so that the port is the page's.
_ON_LOAD = """
const root = new URL(window.gradio_config?.root || '/', location.href).pathname.replace(/\\/$/, '');
const base = location.origin + root + props.assets;
import(base + '/live.js').then((live) => live.start(element, props, base, location.origin + root + '/'));
"""


class LivePlayer(gr.HTML):
    """Speaks what is typed into it while it is being typed.

    Args:
        examples: texts to choose from, each with ``title`` and ``text``.
    """

    def __init__(self, examples: list[dict[str, str]], **kwargs: Any) -> None:
        super().__init__(
            value="",
            html_template=(WIDGETS / "live.html").read_text(encoding="utf-8"),
            js_on_load=_ON_LOAD,
            apply_default_css=False,
            elem_id="live",
            assets=asset_path(),
            examples=examples,
            **kwargs,
        )
    from collections.abc import Callable, Sequence
    from typing import TYPE_CHECKING, Any, Literal

    from gradio.blocks import Block
    if TYPE_CHECKING:
        from gradio.components import Timer
        from gradio.components.base import Component
