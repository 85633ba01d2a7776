"""The engine of one process: voices in memory, a few places, one thread that gives every utterance its turn."""

import logging
import threading
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import torch

from studio.core import events as ev
from studio.core.cards import Card, parse_voice, read_cards
from studio.core.errors import BadOption, BadVoice, Busy, StudioError
from studio.core.ports import MAX_SEED, MAX_TEMPERATURE, Normaliser, SpeakRequest
from studio.core.time import Clock, MonotonicClock
from studio.engine.utterance import LocalUtterance
from studio.engine.voices import Voice, load_voice, pick_device

PLACES = 4
MAX_THREADS = 256
_log = logging.getLogger(__name__)


class LocalEngine:
    """Speaks utterances in turn, one frame each; see ``studio.core.ports.Engine``."""

    def __init__(
        self,
        voices: dict[str, tuple[Card, Path]],
        device: torch.device,
        places: int,
        normalise: Normaliser,
        clock: Clock,
    ) -> None:
        self._cards = {name: card for name, (card, _) in voices.items()}
        self._folders = {name: folder for name, (_, folder) in voices.items()}
        self._device, self._places, self._normalise, self._clock = device, places, normalise, clock
        self._loaded: dict[str, Voice] = {}
        self._loading = threading.Lock()
        self._active: list[LocalUtterance] = []
        self._wake = threading.Condition(threading.RLock())
        self._closed = False
        self._thread = threading.Thread(target=self._run, name="engine", daemon=True)
        self._thread.start()

    def cards(self) -> Sequence[Card]:
        """Cards of the voices that can be spoken, the default first."""
        return list(self._cards.values())

    def voice(self, name: str) -> Voice:
        """A loaded voice. Raises BadVoice."""
        with self._loading:
            if name not in self._loaded:
                self._loaded[name] = load_voice(self._cards[name], self._folders[name], self._device, self._places)
            return self._loaded[name]

    def open(self, request: SpeakRequest) -> LocalUtterance:
        """Begin an utterance. Raises BadVoice, BadOption, Busy."""
        card, speaker = parse_voice(request.voice, self._cards)
        temperature = card.temperature if request.temperature is None else request.temperature
        check_temperature(temperature)
        if not 0 <= request.seed <= MAX_SEED:
            raise BadOption(f"the seed {request.seed} is out of range", f"it is a whole number from 0 to {MAX_SEED}")
        voice = self.voice(card.name)
        with self._wake:
            if self._closed:
                raise Busy("the engine is being closed", "start it again")
            if self._speaking() >= self._places:
                raise Busy(f"all {self._places} places are taken", "try again when one of them has ended")
            stream, options = voice.family.open(
                card.speakers.index(speaker), request.options, temperature, request.seed
            )
            ready = ev.Ready(
                utterance=0,
                voice=card.name,
                speaker=speaker,
                family=card.family,
                rate_hz=card.sample_rate_hz,
                frame_samples=card.frame_samples,
                seed=request.seed,
                options=options | {"temperature": temperature},
            )
            utterance = LocalUtterance(
                voice, stream, ready, self._normalise, self._clock, self._wake, request.credit_samples
            )
            self._active.append(utterance)
            self._wake.notify_all()
            return utterance

    def places_free(self) -> int:
        """How many more utterances can begin now."""
        with self._wake:
            return self._places - self._speaking()

    def _speaking(self) -> int:
        """Utterances that hold a place: one whose last event is out does not, though no turn has passed since."""
        return sum(not utterance.done for utterance in self._active)

    def close(self) -> None:
        """End every utterance and the thread."""
        with self._wake:
            self._closed = True
            self._wake.notify_all()
        self._thread.join()

    def _run(self) -> None:
        while True:
            with self._wake:
                if self._closed:
                    for utterance in self._active:
                        utterance.fail("closed", "the engine was closed")
                    return
                active = [*self._active]
            did = False
            for utterance in active:
                did |= self._turn(utterance)
            with self._wake:
                self._active = [u for u in self._active if not u.done]
                if not did and not self._closed:
                    self._wake.wait(timeout=0.05)

    def _turn(self, utterance: LocalUtterance) -> bool:
        """One utterance's turn; whatever goes wrong in it ends that utterance alone."""
        try:
            return utterance.turn()
        except StudioError as error:
            utterance.fail(error.code, str(error))
        except Exception as error:  # noqa: BLE001 - the engine must go on for the others
            _log.exception("an utterance failed")
            utterance.fail("internal", f"{type(error).__name__} in the engine; the log has the details")
        return True


def check_temperature(temperature: float) -> None:
    """Raises BadOption when a temperature is out of range."""
    if not 0.0 <= temperature <= MAX_TEMPERATURE:
        raise BadOption(f"the temperature {temperature} is out of range", f"it is from 0 (greedy) to {MAX_TEMPERATURE}")


def open_engine(
    voices: Path,
    normalise: Normaliser,
    device: str = "auto",
    voice_names: Sequence[str] | None = None,
    places: int = PLACES,
    threads: int = 1,
    clock: Clock | None = None,
    vocoder: str = "",
) -> LocalEngine:
    """An engine over a folder of voices; the first one is loaded at once, the others when first spoken.

    Args:
        device: auto, cpu or cuda.
        voice_names: which voices, in this order; None for all.
        threads: of arithmetic on a CPU. One is fastest for the shipped voice: its products are too small to share, and
            threads that wait for each other stall whenever something else wants a core.
        vocoder: speak by this one of a voice's vocoders, those voices that have it; empty for each card's own.

    Raises:
        BadVoice, BadOption, NeedsPackage.
    """
    if not 1 <= threads <= MAX_THREADS:
        raise BadOption(f"there cannot be {threads} threads", f"give 1 to {MAX_THREADS}")
    torch.set_num_threads(threads)
    found = read_cards(voices)
    if voice_names:
        for name in voice_names:
            parse_voice(name, {n: card for n, (card, _) in found.items()})
        found = {name: found[name] for name in voice_names}
    if vocoder:
        first = next(iter(found.values()))[0]
        if vocoder not in first.vocoders:
            raise BadVoice(f"voice {first.name!r} has no vocoder {vocoder!r}", f"it has {', '.join(first.vocoders)}")
        for name, (card, folder) in found.items():
            if vocoder in card.vocoders:
                found[name] = (replace(card, vocoder=vocoder), folder)
    engine = LocalEngine(found, pick_device(device), places, normalise, clock or MonotonicClock())
    try:
        engine.voice(next(iter(found)))
    except StudioError:
        engine.close()
        raise
    return engine
