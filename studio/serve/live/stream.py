"""One utterance of a socket, between the engine and the event loop; no thread is its own.

The *hand* gives the engine what the client sent, in order, on a thread that all share; the *ear* is woken when the
utterance said something, puts it into ``outbox``, and has it recorded.
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
from studio.core.ports import Utterance
from studio.core.text.livetext import MAX_FIELD_CHARS, LiveText
from studio.core.time import MonotonicClock
from studio.serve.live import protocol as wire
from studio.serve.live.inbox import Inbox
from studio.serve.live.recording import Recording
from studio.serve.traces.shelf import TraceShelf
from studio.settings import ServeSettings

OUTBOX = 256  # events and errors taken from the engine and not yet sent: the rest waits there, and holds it up
MAX_UNTOLD_CHARS = 3 * MAX_FIELD_CHARS  # given to the engine and not yet told to the client: it holds that much memory
REST = 9.0  # a message that took so long to obey is followed by a rest of so many times that, for the others' sake
PIECE_CHARS = 4096  # a huge paste reaches the engine in pieces of this size
NETWORK_WAIT_MS = 20.0  # a send that blocks for less is normal life
_OF_USE = (ev.Audio, ev.Ready)  # an utterance of which these come is no quiet one
_UNTOLD = (ev.Frames, ev.Played)  # kept in the trace; no client is told of them

log = logging.getLogger("studio.serve")


class Idle(StudioError):
    """Nothing was sent or spoken for too long, so the place went back."""

    code = "idle"


class Broken(StudioError):
    """Something went wrong inside the server."""

    code = "internal"


@dataclass(frozen=True)
class Over:
    """Nothing more will come; the utterance's trace can be fetched under ``token``, None where none could be kept."""

    token: str | None


Outgoing = ev.Event | StudioError | Over


class Stream:
    """One utterance, its text source, its credit and its trace.

    Args:
        message: how the client opened it.
        utterance: the engine's.
        credit_samples: how far ahead of the listener the voice may run.
        revises: whether what a keyboard sent and nobody has heard follows its edits.
        owner: whose share of the shelf its trace is.
    """

    def __init__(
        self,
        message: wire.Open,
        utterance: Utterance,
        credit_samples: int,
        *,
        shelf: TraceShelf,
        settings: ServeSettings,
        revises: bool = True,
        owner: str = "",
    ) -> None:
        self.number = message.utterance
        self.utterance = utterance
        self.outbox: asyncio.Queue[Outgoing] = asyncio.Queue()
        self.take = self.seq = 0
        self.sent_sample = 0
        self.is_over = False  # its last event has gone out, its trace is perhaps not yet closed
        self.is_queued = True  # it has no place yet
        # Called when nothing was typed for so long that what was sent is spoken. None: typing is repeated, and an edit
        # that changes nothing is such a pause.
        self.on_pause: Callable[[], None] | None = lambda: None
        self._settings = settings
        self._clock = MonotonicClock()
        self._credit_samples = credit_samples
        self._live: LiveText | None = None
        if message.source == "keyboard":
            self._live = LiveText(utterance, self._clock, settings.idle_flush_ms, revises=revises)
        self._loop = asyncio.get_running_loop()
        self._stirred = asyncio.Event()
        self._tasks: list[asyncio.Task[None]] = []  # kept, or they might be collected while they wait
        self._is_woken = self._is_deaf = self._has_more = False
        self._inbox = Inbox()
        self._played_sample = self._reported = 0
        self._closed = self._cancelled = False
        self._chars = self._told_chars = 0
        self._active_ms = self._rest_until_ms = self._clock.now_ms()
        meta = {**utterance.provenance, "source": message.source}
        self._recording = Recording(shelf, meta, settings.max_trace_bytes, owner)

    def start(self) -> None:
        """Begin to listen and to speak."""
        self._recording.start()
        self._tasks = [self._loop.create_task(self._hand())]
        self.utterance.listen(self._news)

    # --- called by the socket, on the event loop --------------------------------------------------

    async def offer(self, message: wire.Message) -> None:
        """Take a message; waits while the engine is behind, so that the client's socket fills up instead of us."""
        while self._inbox.is_full and not self._closed:
            await asyncio.sleep(0.005)
        self._active_ms = self._clock.now_ms()
        if isinstance(message, wire.PlayedReport):
            sample = max(self._played_sample, min(message.sample, self.sent_sample))
            if sample > self._played_sample or not self._has_more:  # who takes nothing cannot have heard anything new
                self._played_sample = sample
                self._report()
        else:
            self._inbox.put(message)
            self._stirred.set()

    def cancel(self, played_sample: int | None = None) -> None:
        """Stop the voice, past everything that waits in the inbox."""
        heard = self._played_sample
        self._inbox.clear()
        self._cancelled = True
        self.utterance.cancel(heard if played_sample is None else min(played_sample, self.sent_sample))

    def sent(self, item: Outgoing, blocked_ms: float) -> None:
        """One thing from the outbox has gone out, after the socket had blocked for so long.

        Sound waits behind an event just as it does behind sound, so a wait is noted for either; but not for the
        notes of waits, or each would bring the next.
        """
        is_note = isinstance(item, ev.Wait) and item.reason == "network"
        if blocked_ms >= NETWORK_WAIT_MS and not is_note:
            with contextlib.suppress(Closed):
                wait = ev.Wait(reason="network", sample=self.sent_sample, duration_ms=round(blocked_ms, 1))
                self.utterance.note(wait)
        if isinstance(item, ev.Audio):
            self.sent_sample = item.sample + len(item.pcm)
        elif isinstance(item, ev.Text):
            self._told_chars += len(item.text)
        elif isinstance(item, ev.Revised):
            self.take, self.sent_sample = item.take, min(self.sent_sample, item.from_sample)
        self.is_over = self.is_over or (isinstance(item, ev.Event) and ev.is_last(item))
        self._take_more()
        if self._inbox:
            self._stirred.set()

    def packet(self, audio: ev.Audio) -> bytes:
        """The next binary packet."""
        self.seq += 1
        return wire.pack_packet(wire.Packet(self.number, self.take, self.seq - 1, audio.sample, audio.pcm))

    # --- the hand: from the client to the engine ---------------------------------------------------

    async def _hand(self) -> None:
        while (work := await self._next_work()) is not None:
            try:
                await asyncio.to_thread(self._timed, work)
            except Closed as error:
                if not self._cancelled:  # what was on its way when the client cancelled is no mistake
                    self.outbox.put_nowait(error)
            except StudioError as error:
                self.outbox.put_nowait(error)
            except Exception:
                log.exception("an utterance could not do what its client asked")
                self.outbox.put_nowait(Broken("this utterance broke off", "the server's log says why; open a new one"))
                self.utterance.cancel(self._reported)

    def _timed(self, work: Callable[[], object]) -> None:
        began_s = time.thread_time()
        try:
            work()
        finally:
            self._rest_until_ms = self._clock.now_ms() + 1000.0 * REST * (time.thread_time() - began_s)

    async def _next_work(self) -> Callable[[], object] | None:
        """What to do next, waiting for it; None when the utterance is over."""
        while not self._closed:
            self._stirred.clear()
            now_ms = self._clock.now_ms()
            rests_ms = max(0.0, self._rest_until_ms - now_ms) if self._inbox else 0.0
            if self._inbox and not rests_ms and not self._is_untold():
                message = self._inbox.take()
                return partial(_DO[type(message)], self, message)
            live, on_pause = self._live, self.on_pause
            deadline_ms = live.next_deadline_ms() if live and on_pause and not self._inbox else None
            if live and on_pause and deadline_ms is not None and now_ms >= deadline_ms:
                on_pause()
                return live.poll
            quiet_ms = self._active_ms + self._settings.quiet_close_ms
            if self.is_queued:  # the engine says when that has been too long
                quiet_ms = math.inf
            if now_ms >= quiet_ms:
                return self._give_up
            due_ms = quiet_ms if deadline_ms is None else min(quiet_ms, deadline_ms)
            left_ms = rests_ms or due_ms - now_ms
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(None if math.isinf(left_ms) else left_ms / 1000.0):
                    await self._stirred.wait()
        return None

    def _is_untold(self) -> bool:
        """Whether the client must wait until it was told more: an edit is told with all the text that follows it, and
        a mistake with what is allowed."""
        if self.outbox.qsize() >= OUTBOX:
            return True
        if self._live is None or not (self.is_queued or self.outbox.qsize()):
            return False
        return self._live.sent_chars - self._told_chars > MAX_UNTOLD_CHARS

    def _report(self) -> None:
        self._reported = self._played_sample
        self.utterance.grant(self._reported + self._credit_samples)
        self.utterance.played(self._reported)

    def _give_up(self) -> None:
        self._active_ms = self._clock.now_ms()
        minutes = self._settings.quiet_close_ms / 60_000
        self.utterance.cancel(self._reported)
        raise Idle(f"nothing was sent or spoken for {minutes:g} minutes", "open a new utterance")

    def _check_count(self, text: str) -> None:
        """Raises BadText where it is too much; only what is taken counts from then on."""
        if self._chars + len(text) > self._settings.max_text_chars:
            limit = self._settings.max_text_chars
            raise BadText(f"an utterance takes at most {limit} characters", "end this one and open another")

    def _edit(self, message: wire.Edit) -> None:
        if self._live is None:
            raise BadMessage("'edit' is for a keyboard", "this utterance is a stream: send 'text'")
        if self.on_pause is None and not message.remove and not message.insert:
            self._live.pause()
            return
        self._check_count(message.insert)
        is_appended = message.at == len(self._live.text) and not message.remove
        pieces = _pieces(message.insert) if is_appended else [message.insert]
        at, remove = message.at, message.remove
        for piece in pieces:
            self._live.edit(at, remove, piece)
            self._chars += len(piece)
            at, remove = at + len(piece), 0
            if not self._breathe():
                return

    def _text(self, message: wire.TextIn) -> None:
        if self._live is not None:
            raise BadMessage("'text' is for a stream", "this utterance is a keyboard: send 'edit'")
        self._check_count(message.text)
        for piece in _pieces(message.text):
            self.utterance.push_text(piece)
            self._chars += len(piece)
            if not self._breathe():
                return

    def _revise(self, message: wire.Revise) -> None:
        if self._live is not None:
            raise BadMessage("'revise' is for a stream", "this utterance is a keyboard: send 'edit'")
        self._check_count(message.text)
        self.utterance.revise(message.at, message.text)
        self._chars += len(message.text)

    def _breathe(self) -> bool:
        """Let the listener's reports in between the pieces of a huge text; False when it was cancelled."""
        if self._played_sample > self._reported:
            self._report()
        return not (self._cancelled or self._closed)

    def _flush(self, _: wire.Flush) -> None:
        self.utterance.flush()

    def _end(self, _: wire.End) -> None:
        if self._live is not None:
            self._live.end()
        else:
            self.utterance.end()

    def _set_options(self, message: wire.SetOptions) -> None:
        self.utterance.set_options(message.options, message.temperature)

    # --- the ear: from the engine to the client ----------------------------------------------------

    def _news(self) -> None:
        """Something was said; called by any thread. The event loop is woken once for all that came meanwhile."""
        if not self._is_woken:
            self._is_woken = True
            with contextlib.suppress(RuntimeError):  # the loop is gone with its server: nobody listens any more
                self._loop.call_soon_threadsafe(self._ear)

    def _ear(self) -> None:
        self._is_woken = False
        room = OUTBOX - self.outbox.qsize()
        events = self._taken(room) if room > 0 else []
        self._has_more = len(events) >= room  # perhaps
        for event in events:
            if self._closed:  # nothing comes after what was told as the last
                return
            try:
                if not self._is_deaf:
                    self._hear(event)
            except Exception:
                log.exception("an event of an utterance could not be taken")
                self._is_deaf = True
                self.utterance.cancel(self._reported)
            if ev.is_last(event):
                self._closed = True
                self._stirred.set()
                self._tasks.append(self._loop.create_task(self._close()))
        self._take_more()

    def _taken(self, most: int) -> Sequence[ev.Event]:
        """What was said; an engine that cannot tell it ends the utterance, or its client would wait for ever."""
        try:
            return self.utterance.taken(most)
        except Exception:
            log.exception("an utterance's events could not be taken")
            with contextlib.suppress(Exception):
                self.utterance.cancel(self._reported)
            return [ev.Failed(code=Broken.code, message="the engine could not tell what it said")]

    def _take_more(self) -> None:
        """Take what waits at the engine, where there is room again."""
        if self._has_more and self.outbox.qsize() <= OUTBOX // 2:
            self._news()

    def _hear(self, event: ev.Event) -> None:
        if self._live is not None:
            self._live.seen(event)
        if isinstance(event, ev.Ready):
            self.is_queued = False
            self._stirred.set()
        if isinstance(event, _OF_USE):
            self._active_ms = self._clock.now_ms()
        if not isinstance(event, _UNTOLD):
            self.outbox.put_nowait(event)
        self._recording.add(event)

    async def _close(self) -> None:
        self.outbox.put_nowait(Over(await self._recording.finish()))


def _pieces(text: str) -> Sequence[str]:
    """A text in pieces that an engine takes quickly; the samples are the same for any cut (law 1)."""
    return [text[at : at + PIECE_CHARS] for at in range(0, len(text), PIECE_CHARS)]


_DO: dict[type[wire.Message], Callable[[Stream, Any], None]] = {
    wire.Edit: Stream._edit,
    wire.TextIn: Stream._text,
    wire.Revise: Stream._revise,
    wire.Flush: Stream._flush,
    wire.End: Stream._end,
    wire.SetOptions: Stream._set_options,
}
