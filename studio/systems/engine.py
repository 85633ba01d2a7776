"""The engine of one third-party system: admission, and a separate event loop, so that no other voice waits for it."""

import asyncio
import logging
import threading
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace
from typing import Any

from studio.core import events as ev
from studio.core.cards import Card, parse_voice
from studio.core.errors import BadOption, Closing, NeedsPackage, Stuck
from studio.core.options import OptionSpec, default_options, merge_options
from studio.core.ports import MAX_SEED, EngineLoad, SpeakRequest
from studio.core.time import Clock, MonotonicClock
from studio.core.traces.provenance import ANOTHER_SYSTEM, loaded_git_sha, provenance
from studio.core.via import new_id, through
from studio.engine.admission import Admission, EngineLimits, engine_closing
from studio.engine.monitoring import LoadMeter
from studio.systems.adapters.registry import open_adapter
from studio.systems.base import Adapter
from studio.systems.request import RemoteRequest
from studio.systems.settings import CutSystem
from studio.systems.sound import RATE_HZ, Resampler
from studio.systems.text import CUTS

_FRAME_SAMPLES = 600  # as the studio's own voices
_CLOSING_S = 3.0

_log = logging.getLogger("studio.systems")


def system_card(name: str, system: Any, adapter: Adapter) -> Card:
    """The card of a system, with its limits."""
    title = system.title or f"{name.capitalize()}: {system.kind}"
    return Card(
        name=name,
        family=system.kind,
        vocoder="its own",
        title=title,
        about=system.about or "Another maker's system, spoken through the studio.",
        config={},
        vocoders={},
        alphabet="its own",
        sample_rate_hz=RATE_HZ,
        frame_samples=_FRAME_SAMPLES,
        phase=0,
        speakers=system.names,
        temperature=0.0,
        look_ahead_words=0,
        delay_frames=0,
        options=_options(system),
        licence=system.licence or "its maker's",
        learned_from="unknown",
        parameters={},
        sha256={},
        number_format="unknown",
        notes=f"Limits: {'; '.join(adapter.cannot)}; the seed and the temperature have no effect.",
    )


def _options(system: Any) -> tuple[OptionSpec, ...]:
    if not isinstance(system, CutSystem):
        return ()
    cut = "where the text is cut: the system speaks a whole cut at a time"
    return (
        OptionSpec("cut", "choice", system.cut, "Cut", cut, choices=CUTS),
        OptionSpec("words", "int", system.words, "Words per cut", "where the text is cut after words", 1, 40),
    )


class RemoteEngine:
    """One third-party system as an engine; see ``studio.core.ports.Engine``.

    Everything except the public methods runs on the thread of its event loop.

    Attributes:
        last_failure: reason and time (ms of the clock) of the last failure; None before the first.

    Args:
        slots: utterances at once; None for the system's own limit.
        hides_failures: write the reason of a failure only to the log, not to the utterance.
    """

    def __init__(
        self,
        name: str,
        system: Any,
        limits: EngineLimits | None = None,
        slots: int | None = None,
        clock: Clock | None = None,
        *,
        hides_failures: bool = False,
    ) -> None:
        self._hides_failures, self._id = hides_failures, new_id()
        loaded_git_sha()  # runs git and caches the result: not during a request
        self.settings = system
        self._clock = clock or MonotonicClock()
        self._adapter = open_adapter(system)
        self._card = system_card(name, system, self._adapter)
        self._limits = limits or EngineLimits()
        self._meter = LoadMeter()
        self._admission = Admission(slots or system.max_concurrent, self._limits, self._clock, self._begin)
        self._draining = self._closed = False
        self.last_failure: tuple[str, float] | None = None
        self._loop = asyncio.new_event_loop()
        self._wakeup = asyncio.Event()
        self._thread = threading.Thread(target=self._run, name=f"system {name}", daemon=True)
        self._thread.start()

    def cards(self) -> Sequence[Card]:
        """The system's card."""
        return [self._card]

    def is_loaded(self, voice: str) -> bool:
        """Always true: there is nothing to load."""
        return True

    def open(self, request: SpeakRequest) -> RemoteRequest:
        """Begin an utterance, or queue it for a slot. Raises BadVoice, BadOption, Busy, Closing, LeadsBack, Stuck."""
        via = through(self._card.name, self._id, request.via)
        _, speaker = parse_voice(request.voice, {self._card.name: self._card})
        options = merge_options(self._card.options, request.options, default_options(self._card.options))
        if not 0 <= request.seed <= MAX_SEED:
            raise BadOption("the seed is out of range", f"it is a whole number from 0 to {MAX_SEED}")
        if self._closed:
            raise self._gone()
        if self._draining:
            raise engine_closing()
        opening = asyncio.run_coroutine_threadsafe(
            self._open(replace(request, options=options, via=via), speaker), self._loop
        )
        try:
            return opening.result(timeout=self._limits.open_ms / 1000.0)
        except TimeoutError:
            opening.cancel()
            raise Stuck(f"the system {self._card.name} does not answer", "try again, or restart the studio") from None

    def free_slots(self) -> int:
        """Number of utterances that could begin now."""
        return self._admission.free

    def load(self) -> EngineLoad:
        """Current load, and counters since the engine began."""
        return replace(self._meter.load(self._admission), queue=self._limits.queue)

    def seconds_since(self, t_ms: float) -> float:
        """Seconds since a time of the clock."""
        return (self._clock.now_ms() - t_ms) / 1000.0

    def drain(self) -> None:
        """Refuse new utterances; running ones speak their committed text and end."""
        self._draining = True
        self._wake()

    def close(self) -> None:
        """End every utterance and the thread."""
        self._draining = self._closed = True
        self._wake()
        self._thread.join(_CLOSING_S)

    def _gone(self) -> Closing:
        return Closing(f"the system {self._card.name} was removed, or the studio ends", "choose another voice")

    # ------------------------------------------------------------ the event loop's thread

    def _wake(self) -> None:
        if not self._loop.is_closed():
            self._loop.call_soon_threadsafe(self._wakeup.set)

    def _run(self) -> None:
        try:
            with suppress(NeedsPackage):
                Resampler(RATE_HZ // 2)  # imports FFmpeg before the first utterance
            self._loop.run_until_complete(self._serve())
        finally:
            self._loop.close()

    async def _serve(self) -> None:
        while not self._closed:
            self._wakeup.clear()
            try:
                self._step()
            except Exception:  # noqa: BLE001 - the loop goes on for later requests
                _log.exception("a step of a system failed")
            timeout_ms = self._admission.next_timeout_ms()
            waiting = asyncio.ensure_future(self._wakeup.wait())
            await asyncio.wait((waiting,), timeout=None if timeout_ms is None else timeout_ms / 1000.0 + 0.001)
            waiting.cancel()
        self._admission.fail_all(self._gone())
        tasks = asyncio.all_tasks() - {asyncio.current_task()}
        if tasks:
            await asyncio.wait(tasks, timeout=_CLOSING_S / 2)
        await self._adapter.close()
        await self._loop.shutdown_asyncgens()

    def _step(self) -> None:
        self._drop_finished()
        if self._draining:
            self._admission.drain()
        self._admission.admit()
        self._admission.end_idle()
        for request in self._admission.running():
            if isinstance(request, RemoteRequest) and not request.done:
                request.notify()
        self._drop_finished()

    def _drop_finished(self) -> None:
        for request in self._admission.pop_finished():
            self._meter.on_end(request)

    async def _open(self, request: SpeakRequest, speaker: str) -> RemoteRequest:
        self._drop_finished()
        self._admission.check_room(is_guest=request.is_guest, client=request.client, may_wait=request.may_wait)
        card = self._card
        ready = ev.Ready(
            utterance=0,
            voice=card.name,
            speaker=speaker,
            family=card.family,
            rate_hz=card.sample_rate_hz,
            frame_samples=card.frame_samples,
            seed=request.seed,
            options=dict(request.options),
        )
        meta = provenance(card, device=ANOTHER_SYSTEM, threads=0, temperature=card.temperature)
        new = RemoteRequest(self.settings, card, ready, self._clock, self._wake, request.credit_samples, meta)
        new.is_guest, new.client, new.via = request.is_guest, request.client, request.via
        new.hides_failures, new.note_failure = self._hides_failures, self._note_failure
        self._admission.enqueue(new)
        self._admission.admit()
        return new

    def _note_failure(self, why: str) -> None:
        self.last_failure = why, self._clock.now_ms()

    def _begin(self, request: Any) -> None:
        request.begin()
        self._meter.on_begin(request)
        request.start(self._adapter)
