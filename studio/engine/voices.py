"""Voices: a card, a family's net and a vocoder, loaded and verified together."""

from dataclasses import dataclass
from pathlib import Path

import torch
from torch import Tensor

from studio.core.cards import Card
from studio.core.errors import BadOption, BadVoice, NeedsPackage
from studio.engine import dmel
from studio.engine.families.base import Family, family_info
from studio.engine.vocoders.base import State, Vocoder
from studio.engine.vocoders.registry import build_vocoder
from studio.engine.weights import load_weights

_DEQUANTISERS = {dmel.ALPHABET: dmel.dequantise}


@dataclass
class Voice:
    """A voice ready to speak; ``warm`` keeps the vocoder's state after each speaker's silence prompt."""

    card: Card
    family: Family
    vocoder: Vocoder
    device: torch.device
    warm: dict[int, State]

    def mels(self, levels: Tensor) -> Tensor:
        """What the vocoder takes, float32 [1, T, C], for frames uint8 [T, C] of the card's alphabet."""
        return _DEQUANTISERS[self.card.alphabet](levels.to(self.device)).unsqueeze(0)

    @torch.inference_mode()
    def vocoder_state(self, speaker: int, seed: int) -> State:
        """The vocoder after the silence prompt: made once for each speaker, then copied."""
        if speaker not in self.warm:
            _, state = self.vocoder.step(
                self.mels(self.family.prompt(speaker)), self.vocoder.init_state(1, self.device)
            )
            self.warm[speaker] = state
        state = self.warm[speaker].clone()
        state.seed.fill_(seed)
        return state


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
    vocoder = build_vocoder(name, card.vocoders[name])
    load_weights(vocoder, folder, card, f"{name}.safetensors")
    return vocoder.to(device).eval()


def load_voice(card: Card, folder: Path, device: torch.device, places: int) -> Voice:
    """Load and verify a voice. Raises BadVoice."""
    try:
        family = family_info(card.family).load(card, folder, device, places)
        voice = Voice(card, family, load_vocoder(card, folder, device), device, {})
        for speaker in range(len(card.speakers)):
            voice.mels(family.prompt(speaker))
    except (TypeError, ValueError, LookupError, RuntimeError, AssertionError) as error:
        raise BadVoice(
            f"the card of {card.name!r} describes no net that can be built: {type(error).__name__}: {error!s:.200}",
            "restore card.json from the repository",
        ) from error
    return voice
