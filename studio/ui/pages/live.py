"""The Live page: type, and hear it while typing."""

import json
from dataclasses import dataclass
from pathlib import Path

import gradio as gr

from studio.core.shipped import TEXTS
from studio.ui.widgets.live.component import live_player

EXAMPLES = TEXTS / "examples.json"
RACE = "You hear this sentence begin while I am still typing its end."


@dataclass(frozen=True)
class LiveContext:
    """What the page needs to know: ``examples`` is a JSON list of title and text, absent where there is none."""

    examples: Path = EXAMPLES


def read_examples(path: Path) -> list[dict[str, str]]:
    """Example texts; none when the file is not there."""
    if not path.is_file():
        return []
    return [{"title": one["title"], "text": one["text"]} for one in json.loads(path.read_text(encoding="utf-8"))]


def build(context: LiveContext) -> gr.HTML:
    """Put the page into the surrounding Blocks."""
    return live_player(read_examples(context.examples), RACE)
