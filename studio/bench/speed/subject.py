"""The model under test: a voice, or nets of a named size with random weights.

Speed does not depend on the weights, except for the length of the speech: segments of a random net end by a table of
word lengths, so that a text lasts as long as read speech.
"""

from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import torch

from studio.bench.settings import SubjectSetting
from studio.core.cards import Card, read_cards
from studio.core.errors import BadOption
from studio.core.time import MonotonicClock
from studio.engine.admission import EngineLimits
from studio.engine.engine import LocalEngine, open_engine
from studio.engine.families.common.rows import FrameOutput, RowSetup
from studio.engine.families.common.teacher_forcing import TeacherForcingInput
from studio.engine.families.speakstream.model import SpeakStream, SpeakStreamConfig
from studio.engine.families.speakstream.policy import OPTION_SPECS
from studio.engine.families.speakstream.row import SpeakStreamRow
from studio.engine.families.speakstream.runner import SpeakStreamFamily
from studio.engine.tokenizers import dmel
from studio.engine.tokenizers.dmel import acoustic_tokenizer
from studio.engine.vocoders.module import VocodeModule, build_vocoder
from studio.engine.vocoders.vocstream import NARROW, PAPER
from studio.engine.voices import Voice, load_voice, pick_device
from studio.text.normalise import best

SIZES = ("paper", "small")
VOCODERS: dict[str, dict[str, Any]] = {
    "vocstream": asdict(PAPER),
    "vocstream-narrow": asdict(NARROW),
    "sourcefilter": {},
}
CAPACITY_TOKENS = 2048
_NO_QUEUE = EngineLimits(queue=0)  # without a free slot, a query is refused
FRAMES_PER_CHAR = 2.4  # 60 ms: read speech per letter, pauses included


def frames_of(word: str) -> int:
    """Frames of a spoken word."""
    return max(2, round(FRAMES_PER_CHAR * (len(word) + 1)))


class Subject(SubjectSetting):
    """The model under test, and how to load it."""

    def card(self) -> Card:
        """The voice's card, or a generated one for the size. Raises BadVoice, BadOption."""
        if self.size:
            return random_card(self.size, self.vocoder or "vocstream")
        cards = {name: card for name, (card, _) in read_cards(self.voices).items()}
        name = self.voice.partition(":")[0] or next(iter(cards))
        if name not in cards:
            raise BadOption(f"unknown voice {name:.80}", f"choose {', '.join(cards)}")
        return replace(cards[name], vocoder=self.vocoder or cards[name].vocoder)

    def about(self) -> dict[str, Any]:
        """Metadata of the figures."""
        card = self.card()
        return {
            "voice": card.name,
            "weights": "random" if self.size else "trained",
            "parameters": dict(card.parameters),
            "vocoder": card.vocoder,
            "number_format": card.number_format,
            "device": pick_device(self.device).type,
            "threads": self.threads,
        }

    def result_name(self, bench: str) -> str:
        """Name in bench/results; a voice on a CPU has the plain name."""
        on_gpu = "gpu" if pick_device(self.device).type == "cuda" else ""
        return "-".join(filter(None, (self.size, on_gpu, bench)))

    def engine(self, places: int) -> LocalEngine:
        """An engine with the voice loaded. Raises BadVoice, BadOption, NeedsPackage."""
        if not self.size:
            names = [self.voice.partition(":")[0]] if self.voice else None
            where = {"device": self.device, "voice_names": names, "vocoder": self.vocoder}
            return open_engine(self.voices, best(), slots=places, threads=self.threads, limits=_NO_QUEUE, **where)
        card, device = self.card(), pick_device(self.device)
        voices, how = {card.name: (card, Path())}, {"load": random_voice, "limits": _NO_QUEUE}
        engine = LocalEngine(voices, device, places, best(), MonotonicClock(), self.threads, **how)
        engine.voice(card.name)
        return engine

    def loaded(self, places: int) -> Voice:
        """The voice without an engine. Raises as ``engine``."""
        card, device = self.card(), pick_device(self.device)
        return (random_voice if self.size else load_voice)(card, self.voices / card.name, device, places)


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


def random_voice(card: Card, folder: Path, device: torch.device, places: int) -> Voice:
    """A voice with random weights; ``folder`` is ignored."""
    torch.manual_seed(0)
    with torch.device(device):
        net = SpeakStream(SpeakStreamConfig.read(card.config))
        vocoder = _vocoder(card.vocoder)
    net.silence.fill_(3)
    family = _TimedFamily(net.requires_grad_(False), places, device, capacity_tokens=CAPACITY_TOKENS)
    vocoder = vocoder.to(device).eval().requires_grad_(False)
    return Voice(
        card, family, VocodeModule(vocoder, acoustic_tokenizer(card.alphabet), places, device), device, [*range(places)]
    )


def _vocoder(name: str) -> Any:
    return build_vocoder(name.partition("-")[0], VOCODERS[name])


class _TimedRow(SpeakStreamRow):
    """A row whose segments end by the table of lengths."""

    def on_output(self, outputs: FrameOutput) -> Any:
        segment = self._segment
        over = segment is not None and len(segment.frames) >= sum(frames_of(self._words[i]) for i in segment.plan.speak)
        return super().on_output(replace(outputs, p_eos=1.0 if over else 0.0))


class _TimedFamily(SpeakStreamFamily):
    """SpeakStream with timed rows."""

    def _row(self, setup: RowSetup, forced: TeacherForcingInput | None) -> _TimedRow:
        return _TimedRow(setup, self._limits, self.prompt(setup.speaker))
