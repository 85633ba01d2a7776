"""The Live component: one ``gr.HTML`` that owns a socket in a Worker, a player in an audio worklet, and a canvas."""

import gradio as gr

from studio.ui.widgets.widget import widget

# Who is quicker than the scripts has typed a text, and finished it, before they can hear it.
_EARLY = """
element.addEventListener('keydown', (e) => {
  const root = element.querySelector('.live');
  if (!root.live && e.key === 'Enter' && (e.ctrlKey || e.metaKey)) root.isFinished = true;
});
"""


def live_player(examples: list[dict[str, str]], race: str) -> gr.HTML:
    """The component that speaks what is typed into it, while it is being typed.

    Args:
        examples: texts to choose from, each with ``title`` and ``text``.
        race: the text of the race where the field is empty.
    """
    start = "script.start(element, props, base, location.origin + root + '/')"
    return widget("live", start, before=_EARLY, examples=examples, race=race)
