"""The engine of one process: voices in memory, a few places, one thread that opens utterances and takes their turns."""

import logging
import threading
from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field, replace
from pathlib import Path

import torch

from studio.core import events as ev
from studio.core.cards import Card, parse_voice, read_cards
from studio.core.errors import BadOption, BadVoice, Stuck, StudioError
from studio.core.load import EngineLoad
from studio.core.options import default_options, merge_options
from studio.core.ports import MAX_SEED, Normaliser, SpeakRequest
from studio.core.printable import escaped
from studio.core.time import Clock, MonotonicClock
from studio.core.traces.forced import Attended, Recording, always
from studio.core.traces.provenance import provenance, sources
from studio.core.traces.trace import Trace
from studio.engine.families.base import family_info
from studio.engine.forcing import Forcing, attend, force
from studio.engine.hosting.limits import Limits
from studio.engine.hosting.meter import Meter
from studio.engine.hosting.places import Places, closing
from studio.engine.hosting.pool import Pool
from studio.engine.hosting.threads import THREADS
from studio.engine.hosting.watch import Watch
from studio.engine.overlapping import overlapped_trace
from studio.engine.utterances.callers import check_temperature
from studio.engine.utterances.local import LocalUtterance
from studio.engine.voices import Voice, load_voice, pick_device

_log = logging.getLogger(__name__)

PLACES = 4
MAX_THREADS = 256
DEFAULT_LIMITS = Limits()
_STUCK_END_S = 1.0  # for a run that does not come back to do so after all
_LATE_S = 0.001  # a wait that ends a little early would be another one


@dataclass(frozen=True)
class _Opening:
    """An utterance that somebody waits for."""

    voice: Voice
    speaker: str
    request: SpeakRequest
    temperature: float
    done: "Future[LocalUtterance]" = field(default_factory=Future)


class LocalEngine:
    """Speaks utterances in turn, one frame each; see ``studio.core.ports.Engine``.

    Slots are taken, made ready and given back on the engine's own thread: no caller waits for another's.
    """

    def __init__(
        self,
        voices: dict[str, tuple[Card, Path]],
        device: torch.device,
        places: int,
        normalise: Normaliser,
        clock: Clock,
        threads: int = 1,
        load: Callable[[Card, Path, torch.device, int], Voice] = load_voice,
        limits: Limits = DEFAULT_LIMITS,
    ) -> None:
        THREADS.begin()
        self._threads, self._load_voice = threads, load
        sources()  # asks git: before anybody waits for it
        self._cards = {name: card for name, (card, _) in voices.items()}
        self._folders = {name: folder for name, (_, folder) in voices.items()}
        self._device, self._normalise, self._clock = device, normalise, clock
        self._loaded: dict[str, Voice | BadVoice] = {}
        self._loading = threading.Lock()
        self._meter = Meter()
        self._watch = Watch(clock, limits.stuck_run_ms, self._give_up)
        self._pool = Pool(clock, self._meter, limits.slow_run_ms, self._watch)
        self._places, self._limits = Places(places, limits, clock, self._begin), limits
        self._openings: deque[_Opening] = deque()
        self._forcing = Forcing()
        self._lock = threading.Lock()  # of the openings and of what follows; never held while anything is computed
        self._news = threading.Event()  # something came in since the last turn began
        self._draining = self._closed = False
        self._thread = threading.Thread(target=self._run, name="engine", daemon=True)
        self._thread.start()

    def cards(self) -> Sequence[Card]:
        """Cards of the voices that can be spoken, the default first."""
        return list(self._cards.values())

    def voice(self, name: str) -> Voice:
        """A loaded voice. Raises BadVoice; what cannot be loaded is not tried again."""
        if name not in self._loaded:  # else nobody waits for another one that is being loaded
            with self._loading:
                if name not in self._loaded:
                    self._loaded[name] = self._load(name)
        loaded = self._loaded[name]
        if isinstance(loaded, BadVoice):
            raise BadVoice(loaded.what, loaded.do)  # a new one: what is raised again and again grows with each time
        return loaded

    def _load(self, name: str) -> Voice | BadVoice:
        try:
            return self._load_voice(self._cards[name], self._folders[name], self._device, self._places.count)
        except BadVoice as error:
            return error

    def is_loaded(self, voice: str) -> bool:
        """Whether a voice was loaded, or could not be, so that nobody waits for that any more."""
        return voice in self._loaded

    def load_first(self) -> None:
        """Load the first voice that can be; those before it are left out, and the log says why.

        Raises:
            BadVoice: none can be loaded.
        """
        damaged: dict[str, BadVoice] = {}
        for name in self._cards:
            try:
                self.voice(name)
                break
            except BadVoice as error:
                damaged[name] = error
        else:
            raise next(iter(damaged.values()))
        for name, error in damaged.items():
            del self._cards[name]
            _log.warning("left out: %s", escaped(str(error)))

    def open(self, request: SpeakRequest) -> LocalUtterance:
        """Begin an utterance, or let it wait for a place. Raises BadVoice, BadOption, Busy, Closing, Stuck."""
        card, speaker = parse_voice(request.voice, self._cards)
        temperature = card.temperature if request.temperature is None else request.temperature
        check_temperature(temperature)
        if not 0 <= request.seed <= MAX_SEED:
            raise BadOption("the seed is out of range", f"it is a whole number from 0 to {MAX_SEED}")
        options = merge_options(card.options, request.options, default_options(card.options))
        opening = _Opening(self.voice(card.name), speaker, replace(request, options=options), temperature)
        with self._lock:
            if self._draining:
                raise closing()
            if self._watch.stuck:
                raise _stuck(self._watch.stuck)
            self._openings.append(opening)
        self._news.set()
        try:
            return opening.done.result(timeout=self._limits.open_ms / 1000.0)
        except TimeoutError:
            if not opening.done.cancel():  # it is answered just now
                return opening.done.result()
            raise _stuck("what the engine computes for others") from None

    def forcible(self) -> Sequence[Card]:
        """Cards of the voices whose nets can be given frames, the default first."""
        return [card for card in self._cards.values() if family_info(card.family).can_force]

    def attend(self, trace: Trace, wanted: Callable[[], bool] = always) -> Attended:
        """Where the net attended while it made a trace's frames. Raises as ``traces.forced.Attends`` says."""
        with self._forcing.place():
            return attend(self.voice(self._named(str(trace.meta.get("voice", "")))), trace, wanted)

    def force(self, recording: Recording, wanted: Callable[[], bool] = always) -> Trace:
        """A recording through a voice's net, as a trace. Raises as ``studio.core.traces.forced.Forces`` says."""
        card, speaker = parse_voice(recording.voice, self._cards)
        about = provenance(card, device=self._device.type, threads=self._threads, temperature=1.0)
        with self._forcing.place():
            return force(self.voice(card.name), speaker, recording, self._normalise, about, wanted)

    def overlap(self, trace: Trace, wanted: Callable[[], bool] = always) -> Trace:
        """A trace's frames, a segment at a time. Raises as ``studio.core.traces.overlapped.Overlaps`` says."""
        with self._forcing.place():
            return overlapped_trace(self.voice(self._named(str(trace.meta.get("voice", "")))), trace, wanted)

    def _named(self, name: str) -> str:
        if name not in self._cards:
            raise BadVoice(f"the voice {name!r} that spoke this is not here", f"there are {', '.join(self._cards)}")
        return name

    def places_free(self) -> int:
        """How many more utterances can begin now."""
        with self._lock:
            return max(0, self._places.free - len(self._openings))

    def stuck(self) -> str:
        """The run that does not come back; empty where none is."""
        return self._watch.stuck

    def load(self) -> EngineLoad:
        """What the engine is doing now, and what it did since it began."""
        load = self._meter.load(self._places)
        on_gpu = torch.cuda.memory_allocated(self._device) if self._device.type == "cuda" else 0
        return replace(load, queue=self._limits.queue, device_bytes=on_gpu)

    def drain(self) -> None:
        """Let nothing new begin; what speaks says what is committed, and ends."""
        with self._lock:
            self._draining = True
        self._news.set()

    def close(self) -> None:
        """End every utterance and the thread."""
        with self._lock:
            was_closed, self._draining, self._closed = self._closed, True, True
        self._news.set()
        while self._thread.is_alive() and not self._watch.stuck:  # it may get stuck just now
            self._thread.join(_STUCK_END_S)
        self._thread.join(_STUCK_END_S)
        self._watch.close()
        if not was_closed:
            THREADS.end()

    def _run(self) -> None:
        torch.set_num_threads(self._threads)  # a thread that was not told takes every core for some of its products
        self._serve()

    def _serve(self) -> None:
        while True:
            self._news.clear()  # before anything is read: what comes in from now on is not waited for
            self._open_waiting()
            for one in self._places.over():
                self._meter.left(one)
            with self._lock:
                draining, closed = self._draining, self._closed
            if closed:
                break
            if draining:
                self._places.drain()
            self._places.settle()
            self._places.end_unused()
            if not self._turn(self._places.speaking()):
                due_ms = self._places.next_due_ms()
                self._news.wait(None if due_ms is None else due_ms / 1000.0 + _LATE_S)
        self._open_waiting()  # which now refuses
        self._places.close()
        for one in self._places.over():
            self._meter.left(one)

    def _turn(self, active: Sequence[LocalUtterance]) -> bool:
        """A turn for all; what no utterance could be blamed for ends those that speak, never the engine."""
        try:
            return self._pool.turn(active)
        except Exception as error:  # noqa: BLE001 - the engine must go on for those to come
            _log.exception("a turn failed")
            for one in active:
                one.fail("internal", f"{type(error).__name__} in the engine; the log has the details")
            return True

    def _give_up(self, what: str) -> None:
        """End everybody while the engine's thread is at a run that does not come back."""
        error = _stuck(what)
        with self._lock:
            openings, self._openings = self._openings, deque()
        for one in openings:
            if one.done.set_running_or_notify_cancel():
                one.done.set_exception(error)
        self._places.give_up(error)

    def _open_waiting(self) -> None:
        """Answer those who asked for an utterance: it has a place, or one in the queue."""
        while True:
            with self._lock:
                if not self._openings:
                    return
                opening, draining = self._openings[0], self._draining
                if not opening.done.set_running_or_notify_cancel():  # its caller waits no longer
                    self._openings.popleft()
                    continue
            try:
                if draining:
                    raise closing()
                self._places.check_room(is_guest=opening.request.is_guest, client=opening.request.client)
                utterance = self._opened(opening)
                self._places.join(utterance)
            except Exception as error:  # noqa: BLE001 - whoever waits is told, and the engine goes on
                with self._lock:
                    self._openings.popleft()
                opening.done.set_exception(error)
                continue
            with self._lock:
                self._openings.popleft()
            self._places.settle()
            opening.done.set_result(utterance)

    def _begin(self, utterance: LocalUtterance) -> None:
        """Give slots to one that has its place now."""
        try:
            utterance.seat()
            utterance.begin()
            self._meter.began(utterance)
        except Exception as error:  # noqa: BLE001 - the engine must go on for the others
            _log.exception("an utterance could not begin")
            utterance.fail("internal", f"{type(error).__name__} in the engine; the log has the details")

    def _opened(self, opening: _Opening) -> LocalUtterance:
        voice, request, card = opening.voice, opening.request, opening.voice.card
        speaker = card.speakers.index(opening.speaker)
        row = voice.row(speaker, request.options, opening.temperature, request.seed)
        ready = ev.Ready(
            utterance=0,
            voice=card.name,
            speaker=opening.speaker,
            family=card.family,
            rate_hz=card.sample_rate_hz,
            frame_samples=card.frame_samples,
            seed=request.seed,
            options=dict(request.options),
        )
        about = provenance(card, device=voice.device.type, threads=self._threads, temperature=opening.temperature)
        wake, credit = self._news.set, request.credit_samples
        utterance = LocalUtterance(voice, row, ready, self._normalise, self._clock, wake, credit, about)
        utterance.is_guest, utterance.client = request.is_guest, request.client
        return utterance


def _stuck(what: str) -> Stuck:
    return Stuck(f"{what} does not come back", "the server's owner restarts it; its log says since when")


def open_engine(
    voices: Path,
    normalise: Normaliser,
    device: str = "auto",
    voice_names: Sequence[str] | None = None,
    places: int = PLACES,
    threads: int = 1,
    clock: Clock | None = None,
    vocoder: str = "",
    limits: Limits = DEFAULT_LIMITS,
) -> LocalEngine:
    """An engine over a folder of voices; the first that can be is loaded at once, the others when first spoken.

    Args:
        device: auto, cpu or cuda.
        voice_names: which voices, in this order, the first of which must load; None for all that can speak.
        threads: of arithmetic on a CPU. One is fastest for the shipped voice: its products are too small to share, and
            threads that wait for each other stall whenever something else wants a core.
        limits: how many wait for a place, and how long.
        vocoder: speak by this one of a voice's vocoders, those voices that have it; empty for each card's own.

    Raises:
        BadVoice, BadOption, NeedsPackage.
    """
    if not 1 <= threads <= MAX_THREADS:
        raise BadOption(f"there cannot be {threads} threads", f"give 1 to {MAX_THREADS}")
    found = read_cards(voices)
    if voice_names:
        cards = {name: card for name, (card, _) in found.items()}
        asked = [parse_voice(name, cards)[0].name for name in voice_names]
        found = {name: found[name] for name in asked}
    if vocoder:
        first = next(iter(found.values()))[0]
        if vocoder not in first.vocoders:
            raise BadVoice(f"voice {first.name!r} has no vocoder {vocoder!r}", f"it has {', '.join(first.vocoders)}")
        for name, (card, folder) in found.items():
            if vocoder in card.vocoders:
                found[name] = (replace(card, vocoder=vocoder), folder)
    clock = clock or MonotonicClock()
    engine = LocalEngine(found, pick_device(device), places, normalise, clock, threads, limits=limits)
    try:
        if voice_names:
            engine.voice(next(iter(found)))
        else:
            engine.load_first()
    except StudioError:
        engine.close()
        raise
    return engine
