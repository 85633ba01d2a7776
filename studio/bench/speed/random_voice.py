"""Nets of a named size with random weights, for speed. This module needs only torch, numpy and numba.

Speed depends on the weights only through the length of the speech, so segments of a random net end after a number of
frames per word (``frames_of``): a text lasts as long as read speech.
"""

from dataclasses import asdict
from pathlib import Path
from typing import Any

import torch

from studio.core.cards import Card
from studio.core.errors import BadOption
from studio.engine.families.common.rows import FrameOutput, RowSetup
from studio.engine.families.common.runner import Form
from studio.engine.families.common.teacher_forcing import TeacherForcingInput
from studio.engine.families.speakstream.model import SpeakStream, SpeakStreamConfig
from studio.engine.families.speakstream.policy import OPTION_SPECS
from studio.engine.families.speakstream.row import SpeakStreamRow
from studio.engine.families.speakstream.runner import SpeakStreamFamily
from studio.engine.tokenizers import dmel
from studio.engine.tokenizers.formats import acoustic_tokenizer
from studio.engine.vocoders.module import VocodeModule, build_vocoder
from studio.engine.vocoders.vocstream import NARROW, PAPER
from studio.engine.voices import Voice

SIZES = ("paper", "small")
VOCODERS: dict[str, dict[str, Any]] = {
    "vocstream": asdict(PAPER),
    "vocstream-narrow": asdict(NARROW),
    "sourcefilter": {},
}
CAPACITY_TOKENS = 2048
_MANY, _SMALL_CAPACITY_TOKENS = 64, 1024  # more streams of the paper's size get a shorter context
FRAMES_PER_CHAR = 2.4  # 60 ms: read speech per letter, pauses included


def frames_of(word: str) -> int:
    """Frames of a spoken word."""
    return max(2, round(FRAMES_PER_CHAR * (len(word) + 1)))


def random_card(size: str, vocoder: str) -> Card:
    """The card of a random net. Raises BadOption."""
    if vocoder not in VOCODERS:
        raise BadOption(f"there is no vocoder {vocoder!r} for random weights", f"there are {', '.join(VOCODERS)}")
    config, base = SpeakStreamConfig.named(size), dmel.TIME_BASE
    with torch.device("meta"):
        counts = {
            "speakstream": sum(p.numel() for p in SpeakStream(config).parameters()),
            vocoder: _vocoder(vocoder).parameter_count(),
        }
    return Card(
        name=f"{size}-random",
        family="speakstream",
        vocoder=vocoder,
        title=f"Random weights of the size {size}, for speed only",
        config=config.to_dict(),
        vocoders={vocoder: VOCODERS[vocoder]},
        alphabet=dmel.ALPHABET,
        sample_rate_hz=base.rate_hz,
        frame_samples=base.frame_samples,
        phase=base.phase,
        speakers=("one", "two"),
        temperature=0.7,
        look_ahead_words=2,
        delay_frames=0,
        options=OPTION_SPECS,
        licence="Apache-2.0",
        learned_from="nothing",
        parameters=counts,
        sha256={},
    )


def random_voice(card: Card, folder: Path, device: torch.device, slots: int, form: Form | None = None) -> Voice:
    """A voice with random weights; ``folder`` is ignored."""
    torch.manual_seed(0)
    with torch.device(device):
        net = SpeakStream(SpeakStreamConfig.read(card.config))
        vocoder = _vocoder(card.vocoder)
    net.silence.fill_(3)
    capacity = CAPACITY_TOKENS if slots <= _MANY else _SMALL_CAPACITY_TOKENS
    family = TimedFamily(net.requires_grad_(False), slots, device, capacity_tokens=capacity, form=form)
    vocoder = vocoder.to(device).eval().requires_grad_(False)
    return Voice(
        card,
        family,
        VocodeModule(vocoder, acoustic_tokenizer(card.alphabet), slots, device, form=form),
        device,
        [*range(slots)],
    )


def _vocoder(name: str) -> Any:
    return build_vocoder(name.partition("-")[0], VOCODERS[name])


class _TimedRow(SpeakStreamRow):
    """A row whose segments end after ``frames_of`` their words."""

    _timed: Any = None  # the segment that ``_timed_frames`` belongs to
    _timed_frames = 0

    def on_output(self, outputs: FrameOutput) -> Any:
        if (segment := self._segment) is not self._timed and segment is not None:
            self._timed, self._timed_frames = segment, sum(frames_of(self._words[i]) for i in segment.plan.speak)
        over = segment is not None and len(segment.frames) >= self._timed_frames
        return super().on_output(FrameOutput(outputs.levels, float(over), outputs.is_finite))


class TimedFamily(SpeakStreamFamily):
    """SpeakStream with timed rows."""

    def _row(self, setup: RowSetup, forced: TeacherForcingInput | None) -> _TimedRow:
        return _TimedRow(setup, self._limits, self.prompt(setup.speaker))
