"""Speaks a reply while its pieces arrive, and reports which of its words were played."""

import asyncio
import threading
import time
from collections.abc import AsyncGenerator, Callable, Coroutine, Mapping
from concurrent.futures import CancelledError, Future
from contextlib import aclosing, suppress
from dataclasses import dataclass, replace
from typing import Any, Protocol

import numpy as np

from studio.chat.conversation import ChatMessage, heard_message
from studio.core import events as ev
from studio.core.cards import parse_voice
from studio.core.errors import Closed, Full, StudioError
from studio.core.ports import PLAYED_REPORT_MS, Engine, SpeakRequest, Utterance
from studio.text.markdown import MarkdownStream

CREDIT_S = 2.0  # of sound that the voice may make ahead of playback
_POLL_S = 0.01
_FULL_S = 0.25


class Player(Protocol):
    """Plays an utterance."""

    def play(self, pcm: np.ndarray) -> None:
        """Add samples int16 [T]; returns at once."""
        ...

    def position(self) -> int:
        """Number of samples that have left the loudspeaker."""
        ...

    def stop(self) -> int:
        """Stop the sound at once; returns the position."""
        ...


@dataclass
class Ladder:
    """Milliseconds from the question to each step of its reply; None for a step that was not reached.

    Attributes:
        token: the first piece of the reply arrived.
        word: the first word was committed.
        sound: the first sample left the loudspeaker.
        end: the last sample did, or the reply was interrupted.
    """

    token: float | None = None
    word: float | None = None
    sound: float | None = None
    end: float | None = None

    def __str__(self) -> str:
        steps = {"token": self.token, "word": self.word, "sound": self.sound, "end": self.end}
        names = {"token": "first text", "word": "first word", "sound": "first sound", "end": "end"}
        parts = [f"{names[step]} {ms:,.0f} ms" for step, ms in steps.items() if ms is not None]
        return " -> ".join(["question", *parts])


@dataclass(frozen=True)
class Spoken:
    """A spoken reply.

    Attributes:
        text: as sent to the voice.
        heard_chars: its characters up to the last word whose sound has begun to play.
        was_interrupted: whether the listener interrupted it.
        pcm: its sound, int16 [T].
        provenance: of its utterance.
        error: the reason why it ended early, if any.
    """

    text: str
    heard_chars: int
    was_interrupted: bool
    ladder: Ladder
    pcm: np.ndarray
    rate_hz: int
    provenance: Mapping[str, Any]
    error: StudioError | None = None

    def message(self) -> ChatMessage:
        """The reply as a message for the model."""
        return heard_message(self.text, self.heard_chars, is_cut=self.was_interrupted or self.error is not None)


class Background:
    """An event loop on a separate thread, for requests."""

    def __init__(self) -> None:
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="chat", daemon=True)
        self._thread.start()

    def start(self, work: Coroutine[Any, Any, None]) -> Future[None]:
        """Run a coroutine; cancelling the future cancels it."""
        return asyncio.run_coroutine_threadsafe(work, self._loop)

    def close(self) -> None:
        """Stop the loop."""
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()


def heard_chars(words: list[ev.Committed], starts: dict[int, int], sample: int) -> int:
    """The end of the last word whose sound began before a sample, in characters of the text as sent."""
    return max((one.char_end for one in words if one.i in starts and starts[one.i] < sample), default=0)


def speak_reply(
    engine: Engine,
    request: SpeakRequest,
    pieces: AsyncGenerator[str],
    background: Background,
    player: Player,
    *,
    is_interrupted: Callable[[], bool] = lambda: False,
    on_heard: Callable[[str], None] = lambda text: None,
    plays: bool = True,
) -> Spoken:
    """Speak a reply as one utterance until it is played or interrupted; an error ends it early.

    Args:
        on_heard: called with each part of the text when its last word begins to play.
        plays: whether the player plays in real time; otherwise it takes all sound at once.

    Raises BadVoice, BadOption, Busy: as ``Engine.open``.
    """
    card, _ = parse_voice(request.voice, {card.name: card for card in engine.cards()})
    credit_samples = round(CREDIT_S * card.sample_rate_hz) if plays else None
    reply = _Reply(engine.open(replace(request, credit_samples=credit_samples)), player, on_heard, credit_samples)
    source = background.start(reply.feed(pieces))
    try:
        reply.run(source, is_interrupted)
    finally:
        source.cancel()
        reply.utterance.cancel()
    return reply.result()


class _Reply:
    def __init__(
        self, utterance: Utterance, player: Player, on_heard: Callable[[str], None], credit_samples: int | None
    ) -> None:
        self.utterance = utterance
        self._player, self._on_heard = player, on_heard
        self._rate_hz = utterance.card.sample_rate_hz
        self._credit_samples = credit_samples
        self._reported = 0  # last position sent to the engine
        self._began_s = time.monotonic()
        self._ladder = Ladder()
        self._news = threading.Event()
        self._text = ""
        self._words: list[ev.Committed] = []
        self._starts: dict[int, int] = {}
        self._pcm: list[np.ndarray] = []
        self._samples = self._shown_chars = 0
        self._stopped: int | None = None  # the position of the interruption
        self._last: ev.Event | None = None
        self._error: StudioError | None = None

    def _ms(self) -> float:
        return (time.monotonic() - self._began_s) * 1000.0

    # --- on the background's loop --------------------------------------------------------------------

    async def feed(self, pieces: AsyncGenerator[str]) -> None:
        """Send the speakable text of the pieces, then end the text, even if the reply breaks off."""
        spoken = MarkdownStream()
        try:
            async with aclosing(pieces):
                async for piece in pieces:
                    self._ladder.token = self._ladder.token or self._ms()
                    await self._push(spoken.feed(piece))
        except Closed:  # it was interrupted, or the voice failed
            return
        except StudioError as error:
            self._error = error
        with suppress(Closed):
            await self._push(spoken.end())
            self.utterance.end()

    async def _push(self, text: str) -> None:
        while text:
            try:
                return self.utterance.push_text(text)
            except Full:
                await asyncio.sleep(_FULL_S)
        return None

    # --- on the caller's thread ----------------------------------------------------------------------

    def run(self, source: Future[None], is_interrupted: Callable[[], bool]) -> None:
        """Process events and play the sound until all of it has been played."""
        self.utterance.set_listener(self._news.set)
        while self._last is None or (self._stopped is None and self._player.position() < self._samples):
            self._news.wait(_POLL_S)
            self._news.clear()
            for event in self.utterance.poll_events():
                self._on_event(event)
            if self._stopped is None:
                self._report()
                if is_interrupted():
                    self._interrupt(source)
        self._ladder.end = self._ms()
        source.cancel()  # still running if the voice failed
        with suppress(CancelledError):
            source.result()

    def _interrupt(self, source: Future[None]) -> None:
        self._stopped = min(self._player.stop(), self._samples)
        source.cancel()
        self.utterance.cancel(self._stopped)

    def _show(self, chars: int) -> None:
        if chars > self._shown_chars:
            self._on_heard(self._text[self._shown_chars : chars])
            self._shown_chars = chars

    def _report(self) -> None:
        position = min(self._player.position(), self._samples)
        if position and self._ladder.sound is None:
            self._ladder.sound = self._ms()
        if position - self._reported >= PLAYED_REPORT_MS * self._rate_hz / 1000.0:
            self._reported = position
            self.utterance.played(position)
            if self._credit_samples is not None:
                self.utterance.grant(position + self._credit_samples)
        chars = heard_chars(self._words, self._starts, position)
        self._show(chars)

    def _on_event(self, event: ev.Event) -> None:
        match event:
            case ev.TextReceived():
                self._text = self._text[: event.char_start] + event.text
            case ev.Committed():
                self._ladder.word = self._ladder.word or self._ms()
                self._words.append(event)
            case ev.WordStart():
                self._starts[event.i] = event.sample
            case ev.Audio() if self._stopped is None:
                self._pcm.append(event.pcm)
                self._samples = event.sample + len(event.pcm)
                self._player.play(event.pcm)
            case ev.Failed():
                self._error = self._error or StudioError(event.message)
            case _:
                pass
        if ev.is_last(event):
            self._last = event

    def result(self) -> Spoken:
        """The result, after ``run``."""
        was_interrupted = self._stopped is not None
        if was_interrupted:
            chars = heard_chars(self._words, self._starts, self._stopped or 0)
        elif isinstance(self._last, ev.Failed):
            chars = heard_chars(self._words, self._starts, self._samples)
        else:
            chars = len(self._text.rstrip())
        self._show(chars)
        pcm = np.concatenate(self._pcm) if self._pcm else np.zeros(0, np.int16)
        provenance = self.utterance.provenance
        return Spoken(self._text, chars, was_interrupted, self._ladder, pcm, self._rate_hz, provenance, self._error)
