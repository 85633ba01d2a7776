"""Engines with a tiny voice of each registered family, for the tests of the laws."""

from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import pytest
import tinyvoice
import torch
from listening import tiny_engine
from tinyvoice import TinyFamily
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
# A family of another package.
TOY = TinyFamily(
    lambda _: Net(Config()), window=lambda words: {"wait": min(words - 1, 2)}, decode="step", revises=False
)
FAMILIES = [*family_names(), "toy"]
SPEAKSTREAMS = ["vocstream", "shipped"]  # SpeakStream with another vocoder, and the first shipped voice
VARIANTS = [*SPEAKSTREAMS, tinyvoice.PREFIXED]  # and Kyutai's model that continues a recording


@contextmanager
def opened(name: str, temporary: pytest.TempPathFactory, number_format: str = "float32") -> Iterator[LocalEngine]:
    """An engine with a tiny voice of a family, or a variant."""
    with pytest.MonkeyPatch.context() as patch, installed(temporary.mktemp("site")):
        assert "toy" in family_names(), "the family of another package is found by its entry point"
        patch.setitem(tinyvoice.NETS, "toy", TOY.net)
        if name == "shipped":
            engine = open_engine(SHIPPED, best(), device="cpu", threads=1)
        else:
            voice = {"vocoder": name} if name == "vocstream" else {"family": name}
            engine = tiny_engine(temporary.mktemp("voices"), ROWS, number_format=number_format, **voice)
        with closing(engine):
            yield engine


def choices(card: Card) -> list[dict[str, Any]]:
    """The defaults, each option at its bounds or choices, and the family's ``settings``."""
    base = default_options(card.options)
    results = [base]
    for spec in card.options:
        ends = spec.choices if spec.kind == "choice" else (spec.low, spec.high)
        results += [{**base, spec.name: value} for value in ends if value not in (None, base[spec.name])]
    return results + [{**base, **more} for more in facts_of(card.family).settings if {**base, **more} not in results]


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


def facts_of(family: str) -> TinyFamily:
    """What the tests know of a family."""
    known = {**tinyvoice.FAMILIES, "toy": TOY}
    assert family in known, f"the tests know no family {family!r}: give it an entry in FAMILIES of tests/tinyvoice.py"
    return known[family]


# ---------------------------------------------------------------- law 6: revision
