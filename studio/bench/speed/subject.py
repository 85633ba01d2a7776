"""Whose speed is measured: a voice of a folder, or nets of a named size with random weights.

Speed does not depend on what a net has learned, but for how long it speaks: a random net's segments end by a table of
lengths, so that a text lasts as long as it would last when spoken.
"""

from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import torch

from studio.core.cards import Card, read_cards
from studio.core.errors import BadOption
from studio.core.time import MonotonicClock
from studio.engine.alphabets import dmel
from studio.engine.alphabets.registry import alphabet
from studio.engine.families.drawn import Drawn
from studio.engine.families.speakstream.family import SpeakStreamFamily
from studio.engine.families.speakstream.net import Config, SpeakStream
from studio.engine.families.speakstream.row import SpeakStreamRow
from studio.engine.families.speakstream.rule import OPTION_SPECS
from studio.engine.hosting.limits import Limits
from studio.engine.loop import LocalEngine, open_engine
from studio.engine.vocoders.module import VocodeModule
from studio.engine.vocoders.registry import build_vocoder
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
_NO_QUEUE = Limits(queue=0)  # who finds no place is counted as refused
FRAMES_PER_CHAR = 2.4  # 60 ms: what read speech takes for a letter and its share of the pauses


def frames_of(word: str) -> int:
    """The table of lengths: frames of a spoken word."""
    return max(2, round(FRAMES_PER_CHAR * (len(word) + 1)))


@dataclass(frozen=True, kw_only=True)
class Subject:
    """Who speaks.

    Attributes:
        voices: folder of voices; ``voice`` is one of its names, empty for the first.
        size: a named size with random weights in the place of a voice: ``paper`` (258M) or ``small``.
        vocoder: of a voice, one of its card's; of a size, one of ``VOCODERS`` (paper: vocstream as in the paper).
    """

    voices: Path
    voice: str = ""
    size: str = ""
    vocoder: str = ""
    device: str = "auto"
    threads: int = 1

    def card(self) -> Card:
        """The voice's card, or one made up for the size. Raises BadVoice, BadOption."""
        if self.size:
            return random_card(self.size, self.vocoder or "vocstream")
        cards = {name: card for name, (card, _) in read_cards(self.voices).items()}
        name = self.voice.partition(":")[0] or next(iter(cards))
        if name not in cards:
            raise BadOption(f"there is no voice {name:.80}", f"there are {', '.join(cards)}")
        return replace(cards[name], vocoder=self.vocoder or cards[name].vocoder)

    def about(self) -> dict[str, Any]:
        """What the figures are of."""
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
        """What results of it are called: the shipped voice on a CPU has the plain name."""
        on_gpu = "gpu" if pick_device(self.device).type == "cuda" else ""
        return "-".join(filter(None, (self.size, on_gpu, bench)))

    def engine(self, places: int) -> LocalEngine:
        """An engine that speaks it, the voice loaded. Raises BadVoice, BadOption, NeedsPackage."""
        if not self.size:
            names = [self.voice.partition(":")[0]] if self.voice else None
            where = {"device": self.device, "voice_names": names, "vocoder": self.vocoder}
            return open_engine(self.voices, best(), places=places, threads=self.threads, limits=_NO_QUEUE, **where)
        card, device = self.card(), pick_device(self.device)
        voices, how = {card.name: (card, Path())}, {"load": random_voice, "limits": _NO_QUEUE}
        engine = LocalEngine(voices, device, places, best(), MonotonicClock(), self.threads, **how)
        engine.voice(card.name)
        return engine

    def loaded(self, places: int) -> Voice:
        """The voice alone, without an engine around it. Raises as ``engine``."""
        card, device = self.card(), pick_device(self.device)
        return (random_voice if self.size else load_voice)(card, self.voices / card.name, device, places)


def random_card(size: str, vocoder: str) -> Card:
    """A card of nets that learned nothing. Raises BadOption."""
    if vocoder not in VOCODERS:
        raise BadOption(f"there is no vocoder {vocoder!r} for random weights", f"there are {', '.join(VOCODERS)}")
    config, base = Config.named(size), dmel.TIME_BASE
    with torch.device("meta"):
        counts = {
            "speakstream": sum(p.numel() for p in SpeakStream(config).parameters()),
            vocoder: _vocoder(vocoder).parameter_count(),
        }
    return Card(
        name=f"{size}-random",
        family="speakstream",
        vocoder=vocoder,
        title=f"Random weights of the size {size}: for speed alone",
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
    """A voice of a random card, whose segments end by the table; ``folder`` is not looked at."""
    torch.manual_seed(0)
    with torch.device(device):
        net = SpeakStream(Config.read(card.config))
        vocoder = _vocoder(card.vocoder)
    net.silence.fill_(3)
    family = _TimedFamily(net.requires_grad_(False), places, device, capacity_tokens=CAPACITY_TOKENS)
    vocoder = vocoder.to(device).eval().requires_grad_(False)
    return Voice(card, family, VocodeModule(vocoder, alphabet(card.alphabet), places, device), device, [*range(places)])


def _vocoder(name: str) -> Any:
    return build_vocoder(name.partition("-")[0], VOCODERS[name])


class _TimedRow(SpeakStreamRow):
    """A row whose segments end when the table says so, whatever the net thinks."""

    def took(self, outputs: Drawn) -> Any:
        segment = self._segment
        over = segment is not None and segment.frames >= sum(frames_of(self._words[i]) for i in segment.plan.speak)
        return super().took(replace(outputs, p_eos=1.0 if over else 0.0))


class _TimedFamily(SpeakStreamFamily):
    """SpeakStream, but for its rows."""

    def row(
        self, slots: tuple[int, ...], speaker: int, options: Mapping[str, Any], temperature: float, seed: int
    ) -> _TimedRow:
        how = {"speaker": speaker, "options": options, "temperature": temperature, "seed": seed}
        return _TimedRow(slots, self._limits, dmel.TIME_BASE, self.prompt(speaker), **how)
