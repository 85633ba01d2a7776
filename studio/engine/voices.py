"""Voices: a card, a family's net and a vocoder, loaded and verified together."""

from collections.abc import Generator, Mapping, Sequence
from concurrent.futures import Future
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from studio.core.cards import Card
from studio.core.errors import BadOption, BadVoice, NeedsPackage
from studio.engine.alphabets import dmel
from studio.engine.alphabets.registry import alphabet
from studio.engine.families.base import Family, LooksUp, Row, family_info
from studio.engine.vocoders.base import Vocoder
from studio.engine.vocoders.module import VocodeModule
from studio.engine.vocoders.registry import build_vocoder
from studio.engine.weights.loading import load_weights, no_larger_than

_RESTORE = "restore card.json from the repository"


@dataclass
class Voice:
    """A voice ready to speak, with the slots that are free."""

    card: Card
    family: Family
    vocode: VocodeModule
    device: torch.device
    free: list[int]

    @property
    def vocoder(self) -> Vocoder:
        """The net of ``vocode``."""
        return self.vocode.vocoder

    def looked_up(self, words: Sequence[str]) -> Future[None] | None:
        """When spoken words can be committed to a row: None for now, else when this is done."""
        return self.family.looked_up(words) if words and isinstance(self.family, LooksUp) else None

    def row(self, speaker: int, options: Mapping[str, Any], temperature: float, seed: int) -> Row:
        """A row that has no slots yet. Raises BadOption."""
        return self.family.row((), speaker, options, temperature, seed)

    def seat(self, row: Row, speaker: int, seed: int) -> None:
        """Give a row free slots, which it owns until ``release``."""
        count = self.family.slots_per_row
        slots = tuple(self.free[-count:])
        assert len(slots) == count, "the engine admits no more rows than there are places"
        for slot in slots:
            self.family.slots.reset(slot)
        self.vocode.reset(slots[0], self.family.prompt(speaker), seed)
        del self.free[-count:]
        row.slots = slots

    def open(self, speaker: int, options: Mapping[str, Any], temperature: float, seed: int) -> Row:
        """A row in free slots. Raises BadOption."""
        row = self.row(speaker, options, temperature, seed)
        self.seat(row, speaker, seed)
        return row

    def release(self, row: Row) -> None:
        """Take a row's slots back, where it had any."""
        self.free.extend(row.slots)


def pick_device(name: str) -> torch.device:
    """``auto`` is a GPU when there is one. Raises BadOption, NeedsPackage."""
    if name not in ("auto", "cpu", "cuda"):
        raise BadOption(f"there is no device {name!r}", "it is auto, cpu or cuda")
    if name == "cuda" and not torch.cuda.is_available():
        raise NeedsPackage("this machine has no GPU that torch can use", "--device cpu works everywhere")
    return torch.device("cuda" if name != "cpu" and torch.cuda.is_available() else "cpu")


def load_vocoder(card: Card, folder: Path, device: torch.device, name: str = "") -> Vocoder:
    """One of a card's vocoders, the default one unless named. Raises BadVoice."""
    name = name or card.vocoder
    if name not in card.vocoders:
        raise BadVoice(f"voice {card.name!r} has no vocoder {name!r}", f"it has {', '.join(card.vocoders)}")
    _check_sound(card, card.vocoders[name])
    weights = f"{name}.safetensors"
    with no_larger_than(folder, card, weights):
        vocoder = build_vocoder(name, card.vocoders[name])
    load_weights(vocoder, folder, card, weights)
    return vocoder.to(device).eval()


def load_voice(card: Card, folder: Path, device: torch.device, places: int) -> Voice:
    """Load and verify a voice with slots for so many utterances. Raises BadVoice."""
    with _told_of(card):
        info = family_info(card.family)
        if strange := sorted({one.name for one in card.options} - {one.name for one in info.options}):
            raise BadVoice(f"{info.name} has no option {strange[0]!r:.80} as on the card of {card.name!r}", _RESTORE)
        if (told := card.config.get("speakers", len(card.speakers))) != len(card.speakers):
            raise BadVoice(f"the net knows {told!r:.40} speakers, the card others", "pack the voice anew")
        vocoder = load_vocoder(card, folder, device)  # before the net, which takes longer
        with no_larger_than(folder, card, f"{card.family}.safetensors"):
            family = info.load(card, folder, device, places)
        for speaker in range(len(card.speakers)):
            family.prompt(speaker)
        slots = places * family.slots_per_row
        vocode = VocodeModule(vocoder, alphabet(card.alphabet), slots, device)
    return Voice(card, family, vocode, device, [*range(slots)][::-1])


@contextmanager
def _told_of(card: Card) -> Generator[None]:
    """Whatever is wrong with a card and its files is told of that voice. Raises BadVoice."""
    try:
        yield
    except BadVoice as error:
        if card.name in error.what:
            raise
        raise BadVoice(f"voice {card.name!r}: {error.what}", error.do) from error
    except BadOption as error:
        raise BadVoice(f"the card of {card.name!r} describes no net that can be built: {error}", _RESTORE) from error
    except (TypeError, ValueError, LookupError, ArithmeticError, RuntimeError, AssertionError) as error:
        raise BadVoice(
            f"the card of {card.name!r} describes no net that can be built: {type(error).__name__}: {error!s:.200}",
            _RESTORE,
        ) from error


def _check_sound(card: Card, config: Mapping[str, Any]) -> None:
    """A voice's frames, its vocoder's and those of its alphabet are one; raises BadVoice."""
    base = dmel.TIME_BASE
    if (card.sample_rate_hz, card.frame_samples, card.phase) != (base.rate_hz, base.frame_samples, base.phase):
        wanted = f"{base.rate_hz} Hz, {base.frame_samples} samples a frame and phase {base.phase}"
        raise BadVoice(f"the card of {card.name!r} has another rate, frame or phase than its alphabet", wanted)
    own = (config.get("sample_rate_hz", base.rate_hz), config.get("frame_samples", base.frame_samples))
    if own != (base.rate_hz, base.frame_samples):
        raise BadVoice(f"a vocoder on the card of {card.name!r} has another rate or frame than the card", _RESTORE)
