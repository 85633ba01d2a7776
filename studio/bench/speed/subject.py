"""The model under test: a voice, or nets of a named size with random weights."""

from dataclasses import replace
from pathlib import Path
from typing import Any

from studio.bench.settings import SubjectSetting
from studio.bench.speed.random_voice import random_card, random_voice
from studio.core.cards import Card
from studio.core.errors import BadOption
from studio.core.pulled import find_cards
from studio.core.time import MonotonicClock
from studio.core.traces.provenance import ANOTHER_SYSTEM
from studio.engine.admission import EngineLimits
from studio.engine.engine import LocalEngine
from studio.engine.voices import Voice, load_voice, pick_device
from studio.systems.combined import all_cards, declared_systems, open_voices
from studio.text.normalise import best

_NO_QUEUE = EngineLimits(queue=0)  # without a free slot, a query is refused


class Subject(SubjectSetting):
    """The model under test, and how to load it."""

    def card(self) -> Card:
        """The voice's card, or a generated one for the size. Raises BadVoice, BadOption."""
        if self.size:
            return random_card(self.size, self.vocoder or "vocstream")
        cards = all_cards(self.voices, has_added=False)
        name = self.voice.partition(":")[0] or next(iter(cards))
        if name not in cards:
            raise BadOption(f"unknown voice {name:.80}", f"choose {', '.join(cards)}")
        return replace(cards[name], vocoder=self.vocoder or cards[name].vocoder)

    def about(self) -> dict[str, Any]:
        """Metadata of the figures."""
        card = self.card()
        return {
            "voice": card.name,
            "weights": "random" if self.size else "its own" if self._system else "trained",
            "parameters": dict(card.parameters),
            "vocoder": card.vocoder,
            "number_format": card.number_format,
            "device": ANOTHER_SYSTEM if self._system else pick_device(self.device).type,
            "threads": self.threads,
        }

    @property
    def _system(self) -> str:
        """Name of the third-party system; empty for a voice."""
        return self.voice if not self.size and self.voice in declared_systems() else ""

    def result_name(self, bench: str) -> str:
        """Name in bench/results; without a prefix for a voice on a CPU."""
        if self._system:
            return f"{self._system}-{bench}"
        on_gpu = "gpu" if pick_device(self.device).type == "cuda" else ""
        return "-".join(filter(None, (self.size, on_gpu, bench)))

    def engine(self, slots: int) -> LocalEngine:
        """An engine with the voice loaded. Raises BadVoice, BadOption, NeedsPackage."""
        if not self.size:
            names = [self.voice.partition(":")[0]] if self.voice else None
            where = {"device": self.device, "voice_names": names, "vocoder": self.vocoder}
            return open_voices(self.voices, best(), slots=slots, threads=self.threads, limits=_NO_QUEUE, **where)
        card, device = self.card(), pick_device(self.device)
        voices, how = {card.name: (card, Path())}, {"load": random_voice, "limits": _NO_QUEUE}
        engine = LocalEngine(voices, device, slots, best(), MonotonicClock(), self.threads, **how)
        engine.voice(card.name)
        return engine

    def loaded(self, slots: int) -> Voice:
        """The voice without an engine. Raises as ``engine``."""
        card, device = self.card(), pick_device(self.device)
        if self.size:
            return random_voice(card, Path(), device, slots)
        return load_voice(card, find_cards(self.voices)[card.name][1], device, slots)
