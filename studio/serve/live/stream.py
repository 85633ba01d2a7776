"""One utterance of a socket, between the engine's threads and the event loop.

The input loop passes the client's messages to the engine, in order, on shared worker threads. The engine's listener
schedules ``_drain_events`` on the event loop, which fills ``outbox`` and records the trace.
"""

import asyncio
import contextlib
import logging
import math
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from studio.core import events as ev
from studio.core.errors import BadMessage, BadText, Closed, StudioError
from studio.core.packets import Packet, pack_packet
from studio.core.ports import Utterance
from studio.core.text.livetext import MAX_FIELD_CHARS, LiveText, join_surrogates
from studio.core.time import MonotonicClock
from studio.serve.live import protocol as wire
from studio.serve.live.backpressure import Inbox
from studio.serve.live.in_turn import in_turn
from studio.serve.settings import ServeSettings
from studio.serve.trace_store import TraceRecorder, TraceStore
from studio.text.markdown import MarkdownStream

OUTBOX = 256  # events and errors that are not sent yet; further events stay in the engine
MAX_UNACKNOWLEDGED_CHARS = 3 * MAX_FIELD_CHARS  # passed to the engine and not yet reported back: bounds the memory
BACKOFF_FACTOR = 9.0  # after a message, wait this many times its CPU time, for fairness
PIECE_CHARS = 4096  # a huge paste reaches the engine in pieces of this size
NETWORK_WAIT_MS = 20.0  # a shorter block of a send is not a wait
_ACTIVITY = (ev.Audio, ev.Ready)  # events that show that the utterance is in use
_TRACE_ONLY = (ev.Frames, ev.Played)  # events that are recorded and not sent

log = logging.getLogger("studio.serve")


class IdleTimeout(StudioError, code="idle"):
    """Nothing was sent or spoken for too long, so the slot was freed."""


class InternalError(StudioError, code="internal"):
    """An unexpected exception in the server."""


@dataclass(frozen=True)
class StreamEnd:
    """The last item of an outbox; ``token`` is that of the stored trace, None if it could not be stored."""

    token: str | None


Outgoing = ev.Event | StudioError | StreamEnd


class UtteranceStream:
    """One utterance, its text source, its credit and its trace.

    Args:
        message: the client's ``open``.
        credit_samples: how far the voice may run ahead of the playback position.
        revises: whether edits of a keyboard revise text that was sent and not yet played.
        owner: the client's network address; the trace counts towards its share of the trace store, and its messages
            take turns with those of other addresses.
    """

    def __init__(
        self,
        message: wire.Open,
        utterance: Utterance,
        credit_samples: int,
        *,
        trace_store: TraceStore,
        settings: ServeSettings,
        revises: bool = True,
        owner: str = "",
    ) -> None:
        self.number, self.source = message.utterance, message.source
        self.utterance = utterance
        self.outbox: asyncio.Queue[Outgoing] = asyncio.Queue()
        self.take = self.seq = 0
        self.sent_sample = 0
        self.is_over = False  # the last event was sent; the trace may not be closed yet
        self.is_queued = True  # waits for a slot
        self.on_pause: Callable[[], None] = lambda: None  # called when an idle keyboard flushes
        self.replays_typing = False  # typing is replayed: an empty edit is a pause, and idle time flushes nothing
        self._settings = settings
        self._clock = MonotonicClock()
        self._credit_samples = credit_samples
        self._live: LiveText | None = None
        if message.source == "keyboard":
            self._live = LiveText(utterance, self._clock, settings.idle_flush_ms, revises=revises)
        self._is_marked = message.markup != "plain"
        self._markdown = MarkdownStream() if message.markup == "markdown" else None
        self._loop = asyncio.get_running_loop()
        self._wakeup = asyncio.Event()
        self._tasks: list[asyncio.Task[None]] = []  # referenced here, so that they are not garbage collected
        self._is_scheduled = self._ignores_events = self._has_more = False
        self._inbox = Inbox()
        self._played_sample = self._reported_sample = 0
        self._half = ""  # a high surrogate at the end of a stream's message
        self._closed = self._cancelled = False
        self._chars = self._acknowledged_chars = 0
        self._active_ms = self._backoff_until_ms = self._clock.now_ms()
        meta = {**utterance.provenance, "source": message.source}
        self._owner = owner
        self._recorder = TraceRecorder(trace_store, meta, settings.max_trace_bytes, owner)

    def start(self) -> None:
        """Start passing messages and events."""
        self._recorder.start()
        self._tasks = [self._loop.create_task(self._pass_messages())]
        self.utterance.set_listener(self._on_events)

    # --- called by the socket, on the event loop --------------------------------------------------

    async def put(self, message: wire.Message) -> None:
        """Accept a message; waits while the engine is behind, so that the client's socket fills up."""
        while self._inbox.is_full and not self._closed:
            await asyncio.sleep(0.005)
        self._active_ms = self._clock.now_ms()
        if isinstance(message, wire.PlayedReport):
            sample = max(self._played_sample, min(message.sample, self.sent_sample))
            if sample > self._played_sample or not self._has_more:  # a stalled client has nothing new to report
                self._played_sample = sample
                self._report_played()
        else:
            self._inbox.put(message)
            self._wakeup.set()

    def cancel(self, played_sample: int | None = None) -> None:
        """Cancel the utterance at once, before the messages in the inbox."""
        played = self._played_sample if played_sample is None else min(played_sample, self.sent_sample)
        self._inbox.clear()
        self._cancelled = True
        self.utterance.cancel(played)

    def sent(self, item: Outgoing, blocked_ms: float) -> None:
        """Account for an item of the outbox that was sent, after the socket had blocked for ``blocked_ms``.

        A long block is recorded as a network wait, unless the item itself is one: that would repeat forever.
        """
        is_network_wait = isinstance(item, ev.Wait) and item.reason == "network"
        if blocked_ms >= NETWORK_WAIT_MS and not is_network_wait:
            with contextlib.suppress(Closed):
                wait = ev.Wait(reason="network", sample=self.sent_sample, duration_ms=round(blocked_ms, 1))
                self.utterance.add_event(wait)
        if isinstance(item, ev.Audio):
            self.sent_sample = item.sample + len(item.pcm)
        elif isinstance(item, ev.TextReceived):
            self._acknowledged_chars += len(item.text)
        elif isinstance(item, ev.Revised):
            self.take, self.sent_sample = item.take, min(self.sent_sample, item.from_sample)
        self.is_over = self.is_over or (isinstance(item, ev.Event) and ev.is_last(item))
        self._resume_events()
        if self._inbox:
            self._wakeup.set()

    def grant_ahead(self) -> None:
        """Allow the credit beyond what was sent; for clients that report no playback."""
        self.utterance.grant(self.sent_sample + self._credit_samples)

    @property
    def trace_token(self) -> str:
        """The token of the trace once it is stored; empty if none is written."""
        return self._recorder.token

    def packet(self, audio: ev.Audio) -> bytes:
        """The next binary packet."""
        self.seq += 1
        return pack_packet(Packet(self.number, self.take, self.seq - 1, audio.sample, audio.pcm))

    # --- from the client to the engine -------------------------------------------------------------

    async def _pass_messages(self) -> None:
        while (work := await self._next_work()) is not None:
            try:
                await in_turn(self._owner, partial(self._run_timed, work))
            except Closed as error:
                if not self._cancelled:  # a message that arrives after a cancel is not an error
                    self.outbox.put_nowait(error)
            except StudioError as error:
                self.outbox.put_nowait(error)
            except Exception:
                log.exception("a client message failed")
                error = InternalError("this utterance failed", "the server's log says why; open a new one")
                self.outbox.put_nowait(error)
                self.utterance.cancel(self._reported_sample)

    def _run_timed(self, work: Callable[[], object]) -> None:
        began_s = time.thread_time()
        try:
            work()
        finally:
            cpu_ms = 1000.0 * (time.thread_time() - began_s)
            self._backoff_until_ms = self._clock.now_ms() + BACKOFF_FACTOR * cpu_ms

    async def _next_work(self) -> Callable[[], object] | None:
        """Wait for the next message or deadline and return its work; None when the utterance is over."""
        while not self._closed:
            self._wakeup.clear()
            now_ms = self._clock.now_ms()
            backoff_ms = max(0.0, self._backoff_until_ms - now_ms) if self._inbox else 0.0
            if self._inbox and not backoff_ms and not self._must_wait_for_client():
                message = self._inbox.take()
                return partial(_HANDLERS[type(message)], self, message)
            live = None if self.replays_typing else self._live
            deadline_ms = live.next_deadline_ms() if live and not self._inbox else None
            if live and deadline_ms is not None and now_ms >= deadline_ms:
                self.on_pause()
                return live.poll
            quiet_ms = self._active_ms + self._settings.quiet_close_ms
            if self.is_queued:  # the engine has a time limit for the queue
                quiet_ms = math.inf
            if now_ms >= quiet_ms:
                return self._cancel_quiet
            due_ms = quiet_ms if deadline_ms is None else min(quiet_ms, deadline_ms)
            left_ms = backoff_ms or due_ms - now_ms
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(None if math.isinf(left_ms) else left_ms / 1000.0):
                    await self._wakeup.wait()
        return None

    def _must_wait_for_client(self) -> bool:
        """Whether too much is unsent: an edit reports all text after it, and an error lists what is allowed."""
        if self.outbox.qsize() >= OUTBOX:
            return True
        if self._live is None or not (self.is_queued or self.outbox.qsize()):
            return False
        return self._live.sent_chars - self._acknowledged_chars > MAX_UNACKNOWLEDGED_CHARS

    def _report_played(self) -> None:
        self._reported_sample = self._played_sample
        self.utterance.grant(self._reported_sample + self._credit_samples)
        self.utterance.played(self._reported_sample)

    def _cancel_quiet(self) -> None:
        self._active_ms = self._clock.now_ms()
        minutes = self._settings.quiet_close_ms / 60_000
        self.utterance.cancel(self._reported_sample)
        raise IdleTimeout(f"nothing was sent or spoken for {minutes:g} minutes", "open a new utterance")

    def _check_length(self, text: str) -> None:
        """Raises BadText where the utterance's text would be too long."""
        limit = self._settings.max_text_chars
        if self._chars + len(text) > limit:
            raise BadText(f"an utterance takes at most {limit} characters", "end this one and open another")

    def _edit(self, message: wire.EditText) -> None:
        if self._live is None:
            raise BadMessage("'edit' is for a keyboard", "this utterance is a stream: send 'text'")
        if self.replays_typing and not message.remove and not message.insert:
            self._live.pause()
            return
        self._check_length(message.insert)
        is_appended = message.at == len(self._live.text) and not message.remove
        at, remove = message.at, message.remove
        for piece in _pieces(message.insert) if is_appended else [message.insert]:
            self._live.edit(at, remove, piece)
            self._chars += len(piece)
            at, remove = at + len(piece), 0
            if not self._continue():
                return

    def _text(self, message: wire.TextIn) -> None:
        self._require_stream("text")
        self._check_length(message.text)
        text = join_surrogates(self._half + message.text)
        self._half = text[-1:] if "\ud800" <= text[-1:] <= "\udbff" else ""
        text = text[: len(text) - len(self._half)]
        self._chars += len(text)
        for piece in _pieces(text):
            self._push(piece)
            if not self._continue():
                return

    def _push(self, text: str) -> None:
        if text := self._markdown.feed(text) if self._markdown else text:
            self.utterance.push_text(text)

    def _revise(self, message: wire.Revise) -> None:
        self._require_stream("revise")
        if self._is_marked:
            raise BadMessage("text with markup cannot be revised", "open the utterance without 'markup'")
        self._check_length(message.text)
        self._push_half()
        self.utterance.revise(message.at, message.text)
        self._chars += len(message.text)

    def _push_half(self) -> None:
        """Pass on half a character whose other half did not follow."""
        if self._half:
            self._half = ""
            self._push("\ufffd")

    def _require_stream(self, kind: str) -> None:
        if self._live is not None:
            raise BadMessage(f"{kind!r} is for a stream", "this utterance is a keyboard: send 'edit'")

    def _continue(self) -> bool:
        """Report playback between the pieces of a huge text; False when the utterance was cancelled."""
        if self._played_sample > self._reported_sample:
            self._report_played()
        return not (self._cancelled or self._closed)

    def _flush(self, _: wire.Flush) -> None:
        if self._markdown and (text := self._markdown.flush()):
            self.utterance.push_text(text)
        self.utterance.flush()

    def _end(self, _: wire.End) -> None:
        if self._live is not None:
            self._live.end()
        else:
            self._push_half()
            if self._markdown and (text := self._markdown.end()):
                self.utterance.push_text(text)
            self.utterance.end()

    def _set_options(self, message: wire.SetOptions) -> None:
        self.utterance.set_options(message.options, message.temperature)

    # --- from the engine to the client -------------------------------------------------------------

    def _on_events(self) -> None:
        """Schedule ``_drain_events`` once for all new events; called by any thread."""
        if not self._is_scheduled:
            self._is_scheduled = True
            with contextlib.suppress(RuntimeError):  # the loop is closed
                self._loop.call_soon_threadsafe(self._drain_events)

    def _drain_events(self) -> None:
        self._is_scheduled = False
        room = OUTBOX - self.outbox.qsize()
        events = self._poll_events(room) if room > 0 else []
        self._has_more = len(events) >= room  # perhaps
        for event in events:
            if self._closed:  # nothing follows the last event
                return
            try:
                if not self._ignores_events:
                    self._on_event(event)
            except Exception:
                log.exception("an event of an utterance failed")
                self._ignores_events = True
                self.utterance.cancel(self._reported_sample)
            if ev.is_last(event):
                self._closed = True
                self._wakeup.set()
                self._tasks.append(self._loop.create_task(self._close()))
        self._resume_events()

    def _poll_events(self, limit: int) -> Sequence[ev.Event]:
        """The engine's events; if the engine raises, the utterance fails: its client would wait forever."""
        try:
            return self.utterance.poll_events(limit)
        except Exception:
            log.exception("the events of an utterance could not be read")
            with contextlib.suppress(Exception):
                self.utterance.cancel(self._reported_sample)
            return [ev.Failed(code=InternalError.code, message="the engine's events could not be read")]

    def _resume_events(self) -> None:
        """Read more events from the engine once the outbox is half empty."""
        if self._has_more and self.outbox.qsize() <= OUTBOX // 2:
            self._on_events()

    def _on_event(self, event: ev.Event) -> None:
        if self._live is not None:
            self._live.on_event(event)
        if isinstance(event, ev.Ready):
            self.is_queued = False
            self._wakeup.set()
        if isinstance(event, _ACTIVITY):
            self._active_ms = self._clock.now_ms()
        if not isinstance(event, _TRACE_ONLY):
            self.outbox.put_nowait(event)
        self._recorder.add(event)

    async def _close(self) -> None:
        self.outbox.put_nowait(StreamEnd(await self._recorder.finish()))


def _pieces(text: str) -> Sequence[str]:
    """Pieces of a text that the engine accepts quickly; the samples do not depend on the cuts (law 1)."""
    return [text[at : at + PIECE_CHARS] for at in range(0, len(text), PIECE_CHARS)]


_HANDLERS: dict[type[wire.Message], Callable[[UtteranceStream, Any], None]] = {
    wire.EditText: UtteranceStream._edit,
    wire.TextIn: UtteranceStream._text,
    wire.Revise: UtteranceStream._revise,
    wire.Flush: UtteranceStream._flush,
    wire.End: UtteranceStream._end,
    wire.SetOptions: UtteranceStream._set_options,
}
