"""Kyutai's published text-to-speech models: the settings in ``config.json`` other than the sizes of the net."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, cast

from studio.core.checks import is_number, to_printable
from studio.core.errors import BadVoice
from studio.core.options import OptionSpec
from studio.core.text.language import DEFAULT, LANGUAGES
from studio.core.time import TimeBase

# Names of the files in a voice's folder. A speaker's file is ``speaker-NUMBER.safetensors``, from 0; a speaker of a
# prefixed model may be a recording instead.
MODEL, CODEC, TEXT, SPEAKER = "kyutai.safetensors", "mimi.safetensors", "tokenizer.model", "speaker-{}.safetensors"
RECORDING = "speaker-{}.wav"
TIME_BASE = TimeBase(rate_hz=24_000, frame_samples=1920, phase=0)  # of Mimi
PREFIX_FRAMES = (12, 250)  # least and most frames of a recording used as a voice: about 1 and 20 s
_LONGEST_DELAY_S, _LONGEST_LOOK_AHEAD, _MOST_STRENGTHS = 10.0, 20, 64
STRENGTHS = (1.0, 1.5, 2.0, 2.5, 3.0, 3.5, 4.0)
_DO = "give the config.json of a Kyutai text-to-speech model"


@dataclass(frozen=True)
class KyutaiSettings:
    """Settings of a model.

    Attributes:
        delay_steps: delay of the audio relative to the text.
        look_ahead_words: words between the one that begins and the one in the second text stream; 0 without one.
        strengths: of guidance, by label, as learnt by the model; of a prefixed model, those that are offered.
        is_prefixed: whether a voice is the codes of a recording, which precede the speech. Such a model has no
            conditions, and guidance runs a second row.
        languages: named by its tokenizer; English if there are none, and for a prefixed model.
    """

    delay_steps: int
    look_ahead_words: int
    strengths: tuple[float, ...]
    is_prefixed: bool = False
    languages: tuple[str, ...] = (DEFAULT,)

    @staticmethod
    def read(values: Mapping[str, Any]) -> "KyutaiSettings":
        """From the content of a ``config.json``. Raises BadVoice."""
        found: Any = values.get("tts_config")
        about: dict[str, Any] = cast("dict[str, Any]", found) if isinstance(found, dict) else {}
        delay_s: Any = about.get("audio_delay")
        look_ahead: Any = about.get("second_stream_ahead", 0)
        if not is_number(delay_s) or not 0 <= delay_s <= _LONGEST_DELAY_S:
            raise BadVoice(f"audio_delay is {_shown(delay_s)}, no time up to {_LONGEST_DELAY_S} s", _DO)
        if type(look_ahead) is not int or not 0 <= look_ahead <= _LONGEST_LOOK_AHEAD:
            raise BadVoice(f"second_stream_ahead is {_shown(look_ahead)}, no number up to {_LONGEST_LOOK_AHEAD}", _DO)
        if values.get("demux_second_stream", False) != bool(look_ahead):
            raise BadVoice("second_stream_ahead and demux_second_stream contradict each other", _DO)
        prefixed = is_prefixed(values)
        strengths = STRENGTHS if prefixed else _learnt_strengths(values)
        frames_per_s = TIME_BASE.rate_hz / TIME_BASE.frame_samples
        named = [] if prefixed else re.split("[_.]", str(values.get("tokenizer_name", "")))
        languages = tuple(one for one in LANGUAGES if one in named) or (DEFAULT,)
        return KyutaiSettings(int(delay_s * frames_per_s), look_ahead, strengths, prefixed, languages)

    @property
    def slots_per_row(self) -> int:
        """KV slots of an utterance: of a prefixed model, the second is for guidance."""
        return 2 if self.is_prefixed else 1

    def options(self) -> tuple[OptionSpec, ...]:
        """Options of a voice of this model."""
        choices = tuple(f"{one:g}" for one in self.strengths)
        default = "2" if "2" in choices else choices[0]
        language = OptionSpec(
            "language",
            "choice",
            self.languages[0],
            "Language",
            ", ".join(f"{one} is {LANGUAGES[one]}" for one in self.languages),
            choices=self.languages,
        )
        return (
            OptionSpec(
                "cfg",
                "choice",
                default,
                "Guidance",
                "how strictly it follows text and speaker. Applies from the next phrase",
                choices=choices,
            ),
            OptionSpec(
                "padding",
                "int",
                1,
                "Padding",
                "steps of 80 ms that each word has at least beside those of its tokens; more articulates better",
                low=0,
                high=10,
            ),
            *((language,) if self.languages != (DEFAULT,) else ()),
        )


PUBLISHED = KyutaiSettings(16, 2, STRENGTHS, languages=("en", "fr"))  # those of kyutai/tts-1.6b-en_fr


def is_prefixed(values: Mapping[str, Any]) -> bool:
    """Whether a model of this ``config.json`` continues a recording of its speaker."""
    return values.get("conditioners") == {}


def _learnt_strengths(values: Mapping[str, Any]) -> tuple[float, ...]:
    try:
        listed: Any = values["conditioners"]["cfg"]["lut"]["possible_values"]
        strengths = tuple(map(float, listed))
    except (KeyError, TypeError, ValueError) as error:
        raise BadVoice("the configuration lists no strengths of guidance", _DO) from error
    if not 1 <= len(strengths) <= _MOST_STRENGTHS:
        raise BadVoice(f"the configuration lists {len(strengths)} strengths of guidance", _DO)
    return strengths


def _shown(value: Any) -> str:
    return to_printable(repr(value), 80)
