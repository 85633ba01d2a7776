"""Voices: a card, a family's net and a vocoder, loaded and verified together."""

import logging
import sys
from collections.abc import Generator, Mapping, Sequence
from concurrent.futures import Future
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any

import torch
from rich.progress import Progress

from studio.core.cards import Card, parse_voice
from studio.core.errors import BadOption, BadVoice, NeedsPackage, NoMemory
from studio.core.pulled import check_pulled, find_cards
from studio.engine.families.base import Family, Row, SupportsCapture, SupportsCodec, SupportsLookup, family_info
from studio.engine.families.common.word_times import WordTimes
from studio.engine.nets.cuda.device import check_memory, free_bytes, tensor_bytes
from studio.engine.nets.loading import parameter_limit
from studio.engine.tokenizers.formats import acoustic_tokenizer
from studio.engine.vocoders.base import Vocoder
from studio.engine.vocoders.mimi import Mimi, encode_prefix
from studio.engine.vocoders.module import VocodeModule, slot_bytes, vocoder_kind

_log = logging.getLogger(__name__)

_RESTORE = "restore card.json from the repository"
_USABLE_SHARE = 0.9  # of a GPU's free memory


@dataclass
class Voice:
    """A loaded voice and its free KV slots.

    Attributes:
        card: the voice's card, without added speakers.
        added: numbers of added speakers by name; removed ones remain, for utterances that have begun.
    """

    card: Card
    family: Family
    vocode: VocodeModule
    device: torch.device
    free_slots: list[int]
    added: dict[str, int] = field(default_factory=dict[str, int])

    def number_of(self, speaker: str) -> int:
        """The family's number of a speaker. Raises BadVoice: its files are damaged."""
        if speaker in self.card.speakers:
            return self.card.speakers.index(speaker)
        if speaker not in self.added:
            raise damaged_speaker(speaker)
        return self.added[speaker]

    def slot_bytes(self) -> int:
        """Memory of one concurrency slot: KV caches and the vocoder's state."""
        return (
            tensor_bytes([self.family.slots, self.vocode.slots])
            // max(1, len(self.free_slots))
            * self.family.slots_per_row
        )

    def prepare(self, progress: Progress) -> None:
        """Compile the kernels and capture the steps of all batch sizes, on a GPU."""
        modules = {id(one): one for one in self.family.modules.values()}.values()
        steps = [step for one in modules if isinstance(one, SupportsCapture) for step in one.capture_steps()]
        steps += [partial(self.vocode.capture, size) for size in self.vocode.capture_sizes()]
        prompts = [self.family.prompt(speaker) for speaker in range(len(self.card.speakers))]
        steps += [partial(self.vocode.reset, self.free_slots[-1], prompt, 0) for prompt in prompts]
        for step in progress.track(steps, description=f"preparing {self.card.name}"):
            step()

    @property
    def vocoder(self) -> Vocoder:
        """The vocoder's net."""
        return self.vocode.vocoder

    def start_lookup(self, words: Sequence[str]) -> Future[None] | None:
        """Look up spoken words before they are committed: a future, or None if there is nothing to wait for."""
        return self.family.start_lookup(words) if words and isinstance(self.family, SupportsLookup) else None

    def row(self, speaker: int, options: Mapping[str, Any], temperature: float, seed: int) -> Row:
        """A row without slots. Raises BadOption."""
        return self.family.row((), speaker, options, temperature, seed)

    def assign_slots(self, row: Row, speaker: int, seed: int) -> None:
        """Assign reset slots to a row until ``release``."""
        count = self.family.slots_per_row
        slots = tuple(self.free_slots[-count:])
        assert len(slots) == count, "the engine admits no more rows than there are slots"
        for slot in slots:
            self.family.slots.reset(slot)
        self.vocode.reset(slots[0], self.family.prompt(speaker), seed)
        del self.free_slots[-count:]
        row.slots = slots

    def word_times(self, speaker: int) -> WordTimes:
        """A ``WordTimes`` for an utterance: it moves word events to where the words sound."""
        energies = acoustic_tokenizer(self.card.alphabet).energies
        return WordTimes(self.card.frame_samples, energies, self.family.prompt(speaker))

    def open(self, speaker: int, options: Mapping[str, Any], temperature: float, seed: int) -> Row:
        """A row in free slots. Raises BadOption."""
        row = self.row(speaker, options, temperature, seed)
        self.assign_slots(row, speaker, seed)
        return row

    def release(self, row: Row) -> None:
        """Free a row's slots, if any."""
        self.free_slots.extend(row.slots)


def damaged_speaker(name: str) -> BadVoice:
    """The error for an added speaker whose files are damaged."""
    return BadVoice(f"the files of the speaker {name!r} are damaged", "remove the speaker, and add it again")


def find_voices(folder: Path, names: Sequence[str] | None, vocoder: str) -> dict[str, tuple[Card, Path]]:
    """The voices of a folder, or those named, each with the given vocoder if it has it. Raises BadVoice."""
    voices = find_cards(folder)
    if names:
        cards = {name: card for name, (card, _) in voices.items()}
        chosen = [parse_voice(name, cards)[0].name for name in names]
        voices = {name: voices[name] for name in chosen}
    if vocoder:
        first = next(iter(voices.values()))[0]
        if vocoder not in first.vocoders:
            raise BadVoice(f"voice {first.name!r} has no vocoder {vocoder!r}", f"it has {', '.join(first.vocoders)}")
        for name, (card, path) in voices.items():
            if vocoder in card.vocoders:
                voices[name] = (replace(card, vocoder=vocoder), path)
    return voices


def pick_device(name: str) -> torch.device:
    """``auto`` is the GPU, if any. Raises BadOption, NeedsPackage."""
    if name not in ("auto", "cpu", "cuda"):
        raise BadOption(f"there is no device {name!r}", "it is auto, cpu or cuda")
    if name == "cuda" and not torch.cuda.is_available():
        raise NeedsPackage("this machine has no GPU that torch can use", "--device cpu works everywhere")
    return torch.device("cuda" if name != "cpu" and torch.cuda.is_available() else "cpu")


def load_vocoder(card: Card, folder: Path, device: torch.device, name: str = "") -> Vocoder:
    """Load a vocoder of a card, by default the card's own choice. Raises BadVoice."""
    name = name or card.vocoder
    if name not in card.vocoders:
        raise BadVoice(f"voice {card.name!r} has no vocoder {name!r}", f"it has {', '.join(card.vocoders)}")
    _check_sound(card, name)
    return vocoder_kind(name).load(card, folder).to(device).eval()


def load_voice(card: Card, folder: Path, device: torch.device, slots: int) -> Voice:
    """Load and verify a voice for a number of concurrent utterances. Raises BadVoice."""
    with _naming_voice(card):
        check_pulled(folder, card.sha256)
        info = family_info(card.family)
        if unknown := sorted({one.name for one in card.options} - {one.name for one in info.options}):
            raise BadVoice(f"{info.name} has no option {unknown[0]!r:.80} as on the card of {card.name!r}", _RESTORE)
        if (speakers := card.config.get("speakers", len(card.speakers))) != len(card.speakers):
            raise BadVoice(
                f"the net has {speakers!r:.40} speakers, and the card has {len(card.speakers)}", "pack the voice again"
            )
        vocoder = load_vocoder(card, folder, device)  # first: the net takes longer to load
        with parameter_limit(folder, card, f"{card.family}.safetensors"):
            family = info.load(card, folder, device, slots)
        if isinstance(family, SupportsCodec) and isinstance(vocoder, Mimi):
            (codebooks,) = acoustic_tokenizer(card.alphabet).frame_shape
            family.set_codec(partial(encode_prefix, vocoder, codebooks=codebooks))
        for speaker in range(len(card.speakers)):
            family.prompt(speaker)
        kv_slots = slots * family.slots_per_row
        if device.type == "cuda":
            check_memory(device, kv_slots + 1, slot_bytes(vocoder, device))
        vocode = VocodeModule(vocoder, acoustic_tokenizer(card.alphabet), kv_slots, device)
    voice = Voice(card, family, vocode, device, [*range(kv_slots)][::-1])
    if device.type == "cuda":
        with _naming_voice(card), Progress(transient=True, disable=not sys.stderr.isatty()) as progress:
            voice.prepare(progress)
        held = slots + int(_USABLE_SHARE * free_bytes(device)) // max(1, voice.slot_bytes())
        _log.info("this GPU holds %d streams of %s, %d of which are set up", held, card.name, slots)
    return voice


@contextmanager
def _naming_voice(card: Card) -> Generator[None]:
    """Turn any error while loading into a BadVoice that names the voice."""
    try:
        yield
    except BadVoice as error:
        if card.name in error.what:
            raise
        raise BadVoice(f"voice {card.name!r}: {error.what}", error.do) from error
    except torch.OutOfMemoryError as error:
        raise NoMemory(
            f"{card.name!r} with this many slots does not fit in the GPU's memory", "choose fewer concurrency slots"
        ) from error
    except BadOption as error:
        raise BadVoice(f"the card of {card.name!r} describes no net that can be built: {error}", _RESTORE) from error
    except (TypeError, ValueError, LookupError, ArithmeticError, RuntimeError, AssertionError) as error:
        raise BadVoice(
            f"the card of {card.name!r} describes no net that can be built: {type(error).__name__}: {error!s:.200}",
            _RESTORE,
        ) from error


def _check_sound(card: Card, vocoder: str) -> None:
    """Raises BadVoice unless card, vocoder and acoustic tokenizer agree on rate and frames."""
    tokenizer = acoustic_tokenizer(card.alphabet)
    base = tokenizer.time_base
    if (card.sample_rate_hz, card.frame_samples, card.phase) != (base.rate_hz, base.frame_samples, base.phase):
        expected = f"{base.rate_hz} Hz, {base.frame_samples} samples a frame and phase {base.phase}"
        raise BadVoice(
            f"the card of {card.name!r} has another rate, frame or phase than its acoustic tokenizer", expected
        )
    if vocoder_kind(vocoder).takes_codes != (tokenizer.to_mels is None):
        raise BadVoice(f"{vocoder} is no vocoder of {card.alphabet}, the frames of {card.name!r}", _RESTORE)
    config = card.vocoders[vocoder]
    own = (config.get("sample_rate_hz", base.rate_hz), config.get("frame_samples", base.frame_samples))
    if own != (base.rate_hz, base.frame_samples):
        raise BadVoice(f"a vocoder on the card of {card.name!r} has another rate or frame than the card", _RESTORE)
