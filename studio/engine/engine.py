"""The engine of one process: loaded voices, concurrency slots, and one thread that opens requests and runs steps."""

import logging
import threading
from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field, replace
from pathlib import Path

import torch

from studio.core import events as ev
from studio.core.cards import Card, parse_voice
from studio.core.errors import BadOption, Stuck, StudioError
from studio.core.options import default_options, merge_options
from studio.core.ports import MAX_SEED, EngineLoad, Normaliser, SpeakRequest
from studio.core.speakers import REFERENCE, AddedSpeaker, SpeakerStore
from studio.core.time import Clock, MonotonicClock
from studio.core.traces.provenance import loaded_git_sha, provenance
from studio.engine.admission import Admission, EngineLimits, engine_closing
from studio.engine.monitoring import LoadMeter, Watchdog
from studio.engine.nets.cpu.threads import THREADS
from studio.engine.nets.cuda.device import usable_device
from studio.engine.recomputing import Recomputer
from studio.engine.request.client import check_temperature
from studio.engine.request.request import EngineRequest
from studio.engine.scheduler import Scheduler
from studio.engine.voice_store import VoiceStore
from studio.engine.voices import Voice, find_voices, load_voice, pick_device

_log = logging.getLogger(__name__)

DEFAULT_SLOTS = 4
MAX_THREADS = 256
DEFAULT_LIMITS = EngineLimits()
_HUNG_GRACE_S = 1.0  # grace period for a hung step
_TIMEOUT_MARGIN_S = 0.001  # an early wake-up would cost another wait
_WARM_UP_TEXT = "Good morning to you."


@dataclass(frozen=True)
class _PendingOpen:
    """An ``open`` call that waits for the engine's thread."""

    voice: Voice
    speaker: str
    number: int  # of the speaker
    added: AddedSpeaker | None
    request: SpeakRequest
    temperature: float
    result: "Future[EngineRequest]" = field(default_factory=Future)


class LocalEngine:
    """An engine in this process; see ``studio.core.ports.Engine``.

    KV slots are assigned, reset and freed on the engine's own thread, so callers do not wait for each other.
    """

    def __init__(
        self,
        voices: dict[str, tuple[Card, Path]],
        device: torch.device,
        slots: int,
        normalise: Normaliser,
        clock: Clock,
        threads: int = 1,
        load: Callable[[Card, Path, torch.device, int], Voice] = load_voice,
        limits: EngineLimits = DEFAULT_LIMITS,
        speakers: Path | None = None,
    ) -> None:
        THREADS.begin()
        loaded_git_sha()  # runs git: before the first request
        self._voices = VoiceStore(
            voices, lambda card, folder: load(card, folder, device, slots), SpeakerStore(speakers)
        )
        self._threads, self._device, self._normalise, self._clock = threads, device, normalise, clock
        self._meter = LoadMeter()
        self._watchdog = Watchdog(clock, limits.stuck_run_ms, self._fail_all)
        self._scheduler = Scheduler(clock, self._meter, limits.slow_run_ms, self._watchdog)
        self._admission, self._limits = Admission(slots, limits, clock, self._begin), limits
        self._pending: deque[_PendingOpen] = deque()
        self._to_warm_up: deque[Voice] = deque()
        self._recomputer = Recomputer(self._voices, device, threads, normalise)
        self._lock = threading.Lock()  # of the pending opens and the two flags; not held during computation
        self._wakeup = threading.Event()  # set when something arrived since the last step began
        self._draining = self._closed = False
        self._thread = threading.Thread(target=self._run, name="engine", daemon=True)
        self._thread.start()

    def cards(self) -> Sequence[Card]:
        """Cards of the available voices, the default first."""
        return list(self._voices.current_cards().values())

    def voice(self, name: str) -> Voice:
        """Load a voice, once. Raises BadVoice; a failed load is not retried."""
        return self._voices.get(name)

    def warm_up(self, name: str) -> None:
        """Load a voice and, while the engine is idle, run a short synthesis whose output is discarded. Raises BadVoice.

        The first run of a process loads kernels and fills caches; without this the first listener waits for it.
        """
        self._to_warm_up.append(self.voice(name))
        self._wakeup.set()

    def is_loaded(self, voice: str) -> bool:
        """Whether a voice was loaded, or failed to load."""
        return self._voices.is_loaded(voice)

    def open(self, request: SpeakRequest) -> EngineRequest:
        """Begin an utterance, or queue it for a slot. Raises BadVoice, BadOption, Busy, Closing, Stuck."""
        card, speaker = parse_voice(request.voice, self._voices.current_cards())
        temperature = card.temperature if request.temperature is None else request.temperature
        check_temperature(temperature)
        if not 0 <= request.seed <= MAX_SEED:
            raise BadOption("the seed is out of range", f"it is a whole number from 0 to {MAX_SEED}")
        options = merge_options(card.options, request.options, default_options(card.options))
        voice = self.voice(card.name)
        number, added = self._voices.speaker(voice, speaker)  # resolved once: a later removal changes neither
        pending = _PendingOpen(voice, speaker, number, added, replace(request, options=options), temperature)
        with self._lock:
            if self._draining:
                raise engine_closing()
            if self._watchdog.hung_run:
                raise _stuck(f"{self._watchdog.hung_run} hangs")
            self._pending.append(pending)
        self._wakeup.set()
        try:
            return pending.result.result(timeout=self._limits.open_ms / 1000.0)
        except TimeoutError:
            if not pending.result.cancel():  # the engine is setting the result right now
                return pending.result.result()
            raise _stuck("the engine did not respond in time") from None

    def recomputer(self) -> Recomputer:
        """See ``studio.core.traces.teacher_forcing.SupportsRecomputer``."""
        return self._recomputer

    def free_slots(self) -> int:
        """How many more utterances can begin now."""
        with self._lock:
            return max(0, self._admission.free - len(self._pending))

    def stuck(self) -> str:
        """The name of the hung module run; empty if none."""
        return self._watchdog.hung_run

    def load(self) -> EngineLoad:
        """Current load, and counters since the engine began."""
        load = self._meter.load(self._admission)
        on_gpu = torch.cuda.memory_allocated(self._device) if self._device.type == "cuda" else 0
        return replace(load, queue=self._limits.queue, device_bytes=on_gpu)

    def drain(self) -> None:
        """Refuse new utterances; running ones speak what is committed, and end."""
        with self._lock:
            self._draining = True
        self._wakeup.set()

    def close(self) -> None:
        """End every utterance and the thread."""
        with self._lock:
            was_closed, self._draining, self._closed = self._closed, True, True
        self._wakeup.set()
        while self._thread.is_alive() and not self._watchdog.hung_run:  # a run may hang during the join
            self._thread.join(_HUNG_GRACE_S)
        self._thread.join(_HUNG_GRACE_S)
        self._watchdog.close()
        if not was_closed:
            THREADS.end()

    # ------------------------------------------------------------ the engine's thread

    def _run(self) -> None:
        """The loop of the engine's thread: open, admit, step; wait if there is nothing to do."""
        torch.set_num_threads(self._threads)  # per thread: by default torch uses every core for some matrix products
        while self._admit():
            if not self.step() and not self._warm_up_next():
                timeout_ms = self._admission.next_timeout_ms()
                self._wakeup.wait(None if timeout_ms is None else timeout_ms / 1000.0 + _TIMEOUT_MARGIN_S)
        self._open_pending()  # refuses them now
        self._admission.close()
        self._drop_finished()

    def _admit(self) -> bool:
        """Open and admit new requests, end idle ones, drop finished ones; False once the engine is closed."""
        self._wakeup.clear()  # before anything is read, so that later arrivals set it again
        self._open_pending()
        self._drop_finished()
        with self._lock:
            draining, closed = self._draining, self._closed
        if closed:
            return False
        if draining:
            self._admission.drain()
        self._admission.admit()
        self._admission.end_idle()
        return True

    def step(self) -> bool:
        """One engine step for all running requests: schedule, run, dispatch. Returns whether anything was done.

        An error that cannot be attributed to one request ends all running requests, but not the engine.
        """
        running = self._admission.running()
        try:
            return self._scheduler.step(running)
        except Exception as error:  # noqa: BLE001 - the engine must stay available
            _log.exception("an engine step failed")
            for request in running:
                request.fail("internal", f"{type(error).__name__} in the engine; the log has the details")
            return True

    def _warm_up_next(self) -> bool:
        """Warm up a voice until a request arrives; returns whether a voice was waiting to be warmed up.

        The request has KV slots but no concurrency slot: it is not counted, and ends before another is admitted.
        """
        if self._admission.running() or not self._to_warm_up:
            return False
        voice = self._to_warm_up.popleft()
        card, scheduler = voice.card, Scheduler(self._clock, watchdog=self._watchdog)
        asked = SpeakRequest(voice=card.name, options=default_options(card.options))
        try:
            request = self._new_request(_PendingOpen(voice, card.speakers[0], 0, None, asked, card.temperature))
            request.push_text(_WARM_UP_TEXT)
            request.end()
            request.assign_slots()
            try:
                request.begin()
                while not (request.done or self._has_pending_work()) and scheduler.step([request]):
                    pass
            finally:
                request.fail("closed", "the voice is warm")
        except Exception:  # noqa: BLE001 - the first utterance of this voice reports the error
            _log.exception("%s could not be warmed up", card.name)
        return True

    def _has_pending_work(self) -> bool:
        with self._lock:
            return bool(self._pending) or self._draining or self._closed

    def _drop_finished(self) -> None:
        for request in self._admission.pop_finished():
            self._meter.on_end(request)

    def _open_pending(self) -> None:
        """Answer every pending ``open``: the request gets a slot or a position in the queue."""
        while True:
            with self._lock:
                if not self._pending:
                    return
                pending, draining = self._pending[0], self._draining
                if not pending.result.set_running_or_notify_cancel():  # the caller timed out
                    self._pending.popleft()
                    continue
            try:
                if draining:
                    raise engine_closing()
                asked = pending.request
                self._admission.check_room(is_guest=asked.is_guest, client=asked.client, may_wait=asked.may_wait)
                request = self._new_request(pending)
                self._admission.enqueue(request)
            except Exception as error:  # noqa: BLE001 - the caller gets the error
                with self._lock:
                    self._pending.popleft()
                pending.result.set_exception(error)
                continue
            with self._lock:
                self._pending.popleft()
            self._admission.admit()
            pending.result.set_result(request)

    def _new_request(self, pending: _PendingOpen) -> EngineRequest:
        voice, request, card = pending.voice, pending.request, pending.voice.card
        row = voice.row(pending.number, request.options, pending.temperature, request.seed)
        ready = ev.Ready(
            utterance=0,
            voice=card.name,
            speaker=pending.speaker,
            family=card.family,
            rate_hz=card.sample_rate_hz,
            frame_samples=card.frame_samples,
            seed=request.seed,
            options=dict(request.options),
        )
        meta = provenance(card, device=voice.device.type, threads=self._threads, temperature=pending.temperature)
        if pending.added:
            meta |= {REFERENCE: pending.added.provenance}
        wake, credit = self._wakeup.set, request.credit_samples
        new = EngineRequest(voice, row, pending.number, ready, self._normalise, self._clock, wake, credit, meta)
        new.is_guest, new.client = request.is_guest, request.client
        return new

    def _begin(self, request: EngineRequest) -> None:
        """Assign KV slots to an admitted request."""
        try:
            request.assign_slots()
            request.begin()
            self._meter.on_begin(request)
        except Exception as error:  # noqa: BLE001 - the other requests must continue
            _log.exception("an utterance could not begin")
            request.fail("internal", f"{type(error).__name__} in the engine; the log has the details")

    def _fail_all(self, hung_run: str) -> None:
        """End everything while the engine's thread hangs in a run; called by the watchdog's thread."""
        error = _stuck(f"{hung_run} hangs")
        with self._lock:
            pending_opens, self._pending = self._pending, deque()
        for pending in pending_opens:
            if pending.result.set_running_or_notify_cancel():
                pending.result.set_exception(error)
        self._admission.fail_all(error)


def _stuck(problem: str) -> Stuck:
    return Stuck(problem, "try again; if this persists, ask the server's owner to restart it; its log has the time")


def open_engine(
    voices: Path,
    normalise: Normaliser,
    device: str = "auto",
    voice_names: Sequence[str] | None = None,
    slots: int = DEFAULT_SLOTS,
    threads: int = 1,
    clock: Clock | None = None,
    vocoder: str = "",
    limits: EngineLimits = DEFAULT_LIMITS,
    speakers: Path | None = None,
    *,
    warms_up: bool = False,
) -> LocalEngine:
    """An engine over a folder of voices. The first loadable voice is loaded at once, the others on first use.

    Args:
        device: auto, cpu or cuda.
        voice_names: which voices, in this order, the first of which must load; None for all that can speak.
        slots: concurrent utterances.
        threads: CPU threads for tensor operations. One is fastest for the shipped voices: their matrix products are
            too small to split, and threads that wait for each other stall whenever another process needs a core.
        speakers: folder of added speakers; None for none.
        vocoder: use this vocoder for the voices that have it; empty for each card's default.
        warms_up: warm the first voice up in the background, for a process whose first listener comes later.

    Raises:
        BadVoice, BadOption, NeedsPackage.
    """
    if not 1 <= threads <= MAX_THREADS:
        raise BadOption(f"there cannot be {threads} threads", f"give 1 to {MAX_THREADS}")
    cards = find_voices(voices, voice_names, vocoder)
    engine = LocalEngine(
        cards,
        usable_device(pick_device(device), fall_back=device == "auto"),
        slots,
        normalise,
        clock or MonotonicClock(),
        threads,
        limits=limits,
        speakers=speakers,
    )
    try:
        if voice_names:
            engine.voice(next(iter(cards)))
        else:
            engine._voices.load_first()
        if warms_up:
            engine.warm_up(next(iter(engine._voices.cards)))
    except StudioError:
        engine.close()
        raise
    return engine
