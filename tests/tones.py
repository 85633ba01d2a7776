"""The voice of the fake engine: a card, valid options, and a script of its behaviour."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from studio.core.cards import Card
from studio.core.errors import BadOption
from studio.core.options import OptionSpec, merge_options
from studio.core.ports import MAX_TEMPERATURE

RATE_HZ = 24_000
FRAME_SAMPLES = 600
FRAME_MS = 25.0
LETTER_MS = 60.0
TONES_HZ = {"low": 220.0, "high": 440.0}
MAX_CHARS = 1_000_000


def tone_card() -> Card:
    """The card of the only voice, with SpeakStream's options."""
    return Card(
        name="tone",
        family="speakstream",
        vocoder="sine",
        title="Tone (no model)",
        config={},
        vocoders={},
        alphabet="dmel",
        sample_rate_hz=RATE_HZ,
        frame_samples=FRAME_SAMPLES,
        phase=FRAME_SAMPLES // 2,
        speakers=tuple(TONES_HZ),
        temperature=0.7,
        look_ahead_words=2,
        delay_frames=0,
        options=(
            OptionSpec(
                "scheme", "choice", "S1", "Scheme", "S1 repeats the words it saw, S2 does not", choices=("S1", "S2")
            ),
            OptionSpec("m", "int", 3, "Look-ahead", "words read before speaking", low=1, high=6),
            OptionSpec("n", "int", 1, "Words per step", "words spoken before it reads on, at most m", low=1, high=6),
        ),
        licence="Apache-2.0",
        learned_from="nothing: it plays tones",
        parameters={"net": 0, "vocoder": 0},
        sha256={},
        about="Plays one tone a word.",
        figures={"first_sound_ms": 20.0, "predicted_mos": 1.5, "word_error_rate": 0.25},
    )


def checked_options(card: Card, given: Mapping[str, Any], base: Mapping[str, Any]) -> dict[str, Any]:
    """``base`` changed by ``given``. Raises BadOption like an engine."""
    out = merge_options(card.options, given, base)
    if out.get("n", 1) > out.get("m", 1):
        raise BadOption(
            f"hop n = {out['n']} is more than window m = {out['m']}", "a hop is at most its window: lower n or raise m"
        )
    return out


def checked_temperature(card: Card, given: float | None) -> float:
    """The temperature in force. Raises BadOption like an engine."""
    out = card.temperature if given is None else given
    if not 0.0 <= out <= MAX_TEMPERATURE:
        raise BadOption("the temperature is out of range", f"it is from 0 (greedy) to {MAX_TEMPERATURE:g}")
    return out


@dataclass(frozen=True)
class Script:
    """How a fake engine behaves.

    Attributes:
        speed: times real time.
        fail_at_word: the utterance fails at this word.
        stall_at_word: the engine stalls for ``stall_ms`` before this word.
        cold_ms: time between a segment's first word and its first frame (a prefill).
    """

    speed: float = 4.0
    fail_at_word: int | None = None
    stall_at_word: int | None = None
    stall_ms: float = 0.0
    cold_ms: float = 0.0
