"""Engines with a tiny voice of each registered family, for the tests of the laws."""

from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import pytest
import tinyvoice
import torch
from listening import tiny_engine
from toyfamily import Config, Net, installed

from studio.core.cards import Card
from studio.core.errors import BadOption
from studio.core.options import default_options
from studio.core.ports import SpeakRequest
from studio.engine.engine import LocalEngine, open_engine
from studio.engine.families.base import family_names
from studio.text.normalise import best

torch.set_num_threads(1)  # more threads stall on a busy machine

SHIPPED = Path(__file__).parents[3] / "assets" / "voices"
TEXT = "the morning light came in, slowly, over the old stone wall."
ROWS = 8
BY_RATIO = ("ist",)  # fixed ratio of text to speech tokens: a word starts at once, and its end needs more text
DELAYED = ("dsm",)  # speech follows text by a delay, in which more words are fed: see Segment.seen
BY_CLAUSES: dict[str, tuple[dict[str, Any], int]] = {  # a clause needs all its words: see Segment.seen
    "tacotron": ({"clause_words": 2}, 1),
    "richtts": ({"mode": "ngram", "n": 2}, 1),
    "ngram-richtts": ({"n": 2}, 1),
    "t5": ({"sentence_words": 2}, 1),
}
SETTINGS: dict[str, list[dict[str, Any]]] = {  # beside each option's bounds
    "speakstream": [{"m": 5, "n": 2}, {"scheme": "S2"}, {"scheme": "S2", "m": 4, "n": 3}],
    "s5": [{"k": 1}, {"k": 2}, {"k": 3}],
    "dsm": [{"guidance": 2.0}],
    "tacotron": [
        {"clause_words": 3},
        {"clause_words": 1, "chunk_frames": 4},
        {"clause_words": 20, "chunk_frames": 32},
    ],
    "t5": [{"sentence_words": 2, "chunk_frames": 1}, {"sentence_words": 4, "chunk_frames": 60}],
    "richtts": [{"mode": "ngram", "n": n} for n in (1, 4)],
    "ist": [{"ratio": ratio} for ratio in ("1:3", "3:9")],
}
FAMILIES = [*family_names(), "toy"]
VARIANTS = ["vocstream", "shipped"]  # SpeakStream with another vocoder, and the first shipped voice
CANNOT_REVISE = ("toy",)  # every other family supports revision of text not played yet


@contextmanager
def opened(name: str, temporary: pytest.TempPathFactory, number_format: str = "float32") -> Iterator[LocalEngine]:
    """An engine with a tiny voice of a family, or a variant."""
    with pytest.MonkeyPatch.context() as patch, installed(temporary.mktemp("site")):
        assert "toy" in family_names(), "the family of another package is found by its entry point"
        patch.setitem(tinyvoice.NETS, "toy", lambda _: Net(Config()))
        if name == "shipped":
            engine = open_engine(SHIPPED, best(), device="cpu", threads=1)
        else:
            voice = {"vocoder": name} if name in VARIANTS else {"family": name}
            assert voice.get("family", "speakstream") in tinyvoice.NETS, f"give tests/tinyvoice.py a tiny net of {name}"
            engine = tiny_engine(temporary.mktemp("voices"), ROWS, number_format=number_format, **voice)
        with closing(engine):
            yield engine


def choices(card: Card) -> list[dict[str, Any]]:
    """The defaults, each option at its bounds or choices, and ``SETTINGS``."""
    base = default_options(card.options)
    results = [base]
    for spec in card.options:
        ends = spec.choices if spec.kind == "choice" else (spec.low, spec.high)
        results += [{**base, spec.name: value} for value in ends if value not in (None, base[spec.name])]
    return results + [{**base, **more} for more in SETTINGS.get(card.family, ()) if {**base, **more} not in results]


def speak(engine: LocalEngine, pieces: list[str], *, options: Mapping[str, Any] | None = None, seed: int = 3) -> Any:
    """The events of a text sent in pieces; None if the options are incompatible."""
    try:
        utterance = engine.open(SpeakRequest(seed=seed, options=options or {}))
    except BadOption:
        return None
    for piece in pieces:
        utterance.push_text(piece)
    utterance.end()
    return [*utterance.events()]


def window_of(family: str, words: int) -> dict[str, Any]:
    """Options with which the first word waits for so many words, or nearly so."""
    return {
        "dsm": {"guidance": 1.5 if words % 3 == 0 else 1.0},  # two words ahead in any case
        "ist": {"ratio": {1: "1:2", 2: "1:4", 3: "3:9", 4: "12:24", 5: "6:12"}[words]},  # counts tokens instead
        "richtts": {"mode": "ngram", "n": words},
        "ngram-richtts": {"n": words},
        "t5": {"sentence_words": words, "chunk_frames": 4},
        "tacotron": {"clause_words": words, "chunk_frames": 4},
        "s5": {"k": min(max(words - 1, 1), 3)},
        "toy": {"wait": min(words - 1, 2)},
    }.get(family, {"m": words, "n": 1})


# ---------------------------------------------------------------- law 6: revision
