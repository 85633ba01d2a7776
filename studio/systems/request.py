"""An utterance of a third-party system: text in written words, sound under credit, word times as sent or estimated."""

import asyncio
import math
from collections import deque
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import aclosing
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from studio.core import events as ev
from studio.core.cards import Card
from studio.core.errors import StudioError
from studio.core.text.reasons import UnsupportedSpan
from studio.core.text.words import SpokenWord
from studio.core.time import Clock
from studio.core.via import set_current
from studio.engine.request.request import EngineRequest
from studio.engine.request.text_intake import IntakeStep, TextIntake
from studio.systems.base import Adapter, CutAdapter, LiveAdapter, log
from studio.systems.settings import SystemSettings, without_secret
from studio.systems.sound import SoundReader, SystemFailed
from studio.systems.text import MAX_CUT_CHARS, WrittenWords, cut_length
from studio.systems.word_times import WordTimer

_BLOCK_SAMPLES = 2400  # per audio event
_BASE_S, _CHAR_S = 10.0, 0.5  # longest sound of n characters: _BASE_S + n * _CHAR_S
_SLOWEST = 4.0  # longest time that this sound may take to arrive, as a multiple of it
_AUDIBLE = 33  # -60 dB of full scale


@dataclass
class RemoteRow:
    """The part of a row that ``EngineRequest`` uses: it counts words, and runs no net."""

    options: Mapping[str, Any]
    slots: tuple[int, ...] = ()
    waiting: int = 0  # committed words that were not passed on
    words: int = 0  # committed words
    flushed: int = 0  # of these, words to be spoken without waiting for more
    has_ended: bool = False
    is_finished: bool = False
    on_cancel: Any = field(default=list)

    def commit(self, words: list[str]) -> None:
        self.waiting, self.words = self.waiting + len(words), self.words + len(words)

    @property
    def unspoken(self) -> int:
        """As ``waiting``; 0 if the whole text has to be read before any of it is spoken."""
        return 0 if self.options.get("cut") == "text" else self.waiting

    def flush(self) -> None:
        self.flushed = self.words

    def end(self) -> None:
        self.flushed, self.has_ended = self.words, True

    def check(self, options: Mapping[str, Any]) -> None:
        """Every combination is allowed."""

    def set_options(self, options: Mapping[str, Any], temperature: float | None) -> None:
        self.options = options

    def next_input(self) -> None:
        """There is nothing to run."""


@dataclass(frozen=True)
class _NoVoice:
    """The part of a voice that ``EngineRequest`` uses; there are no weights."""

    card: Card

    def word_times(self, speaker: int) -> None: ...

    def start_lookup(self, words: list[str]) -> None: ...

    def release(self, row: RemoteRow) -> None: ...


@dataclass(frozen=True)
class Cut:
    """A piece of the text as sent that is passed to the system as a whole."""

    text: str
    words: list[SpokenWord]


class RemoteRequest(EngineRequest):
    """An utterance of a third-party system; see ``studio.core.ports.Utterance``. Stepped on its engine's event loop."""

    _row: Any
    note_failure: Callable[[str], None] = staticmethod(lambda why: None)  # the reason, for the owner
    via: tuple[str, ...] = ()  # see ``studio.core.via``; with this system
    hides_failures = False  # from visitors: messages of systems may contain addresses and output of programs

    def __init__(
        self,
        system: SystemSettings,
        card: Card,
        ready: ev.Ready,
        clock: Clock,
        wake: Any,
        credit_samples: int | None,
        provenance: Mapping[str, Any],
    ) -> None:
        row: Any = RemoteRow(ready.options)
        voice: Any = _NoVoice(card)
        super().__init__(voice, row, 0, ready, lambda tokens, before=(): [], clock, wake, credit_samples, provenance)
        self._intake = TextIntake(lambda tokens, before=(): [], self._lock, WrittenWords())
        row.on_cancel = self._open_word_events
        self._system = system
        self._times = WordTimer(card.sample_rate_hz)
        self._unsent: deque[SpokenWord] = deque()
        self._sent_words = self._sent_chars = 0
        self._segments = self._flushed = 0
        self._loud: tuple[int, int] | None = None  # first and last audible sample of the current cut
        self._changed = asyncio.Event()
        self._waits_for_text = False
        self._task: asyncio.Task[None] | None = None

    def start(self, adapter: Adapter) -> None:
        """Begin to speak, on the running event loop."""
        self._task = asyncio.get_running_loop().create_task(self._run(adapter))

    def notify(self) -> None:
        """Read new text, credit or a cancel, and continue."""
        self.read_input()
        changed, self._changed = self._changed, asyncio.Event()
        changed.set()

    # ------------------------------------------------------------ overrides of EngineRequest

    def _record_revision_point(self) -> None:
        with self._lock:
            self._intake.discard_before(self._sent_words)

    def _commit(self, step: IntakeStep) -> None:
        self._unsent.extend(step.changes.words)
        super()._commit(step)

    def _flush_vocoder(self) -> None:
        """There is no vocoder."""

    def _finish(self, last: ev.Event) -> None:
        super()._finish(last)
        if self._task is not None and self._task is not asyncio.current_task():
            self._task.cancel()
        self._wake()  # its slot is free

    # ------------------------------------------------------------ speaking

    async def _run(self, adapter: Adapter) -> None:
        set_current(self.via)
        try:
            if isinstance(adapter, CutAdapter):
                await self._speak_cuts(adapter)
            elif isinstance(adapter, LiveAdapter):
                await self._converse(adapter)
            if not self.done:
                self._finish_normally()
        except StudioError as error:
            message = without_secret(self._system, str(error))
            self.note_failure(message)
            if self.hides_failures and isinstance(error, SystemFailed):
                log.warning("the system %s failed: %s", self._ready.voice, message)
                message = f"the system {self._ready.voice} failed; the server's log says why"
            self._fail_with_words(error.code, message)
        except Exception as error:  # noqa: BLE001 - the client gets it, and the engine goes on
            log.exception("a system could not be used")
            what = f"the system answers what is not understood ({type(error).__name__})"
            message = f"{what}; see its kind and its address, and the studio's log"
            self.note_failure(message)
            self._fail_with_words(SystemFailed.code, message)

    def _fail_with_words(self, code: str, message: str) -> None:
        if not self.done:
            for event in self._open_word_events():
                self._emit(event)
        self.fail(code, message)

    async def _cuts(self, *, is_live: bool) -> AsyncIterator[Cut]:
        """Yield cuts as their text arrives; for live systems, every committed word at once."""
        while True:
            if (cut := self._next_cut(is_live=is_live)) is not None:
                self._waits.resume(self._intake.at_ms)
                self._wake()  # there is room for more words
                yield cut
                continue
            if self._row.has_ended:
                return
            self._waits.hold("text")
            self._waits_for_text = True
            try:
                await self._changed.wait()
            finally:
                self._waits_for_text = False

    def _next_cut(self, *, is_live: bool) -> Cut | None:
        words = [*self._unsent]
        if is_live:
            count = len(words)
            if not count and self._row.flushed > self._flushed and not self._row.has_ended:
                self._flushed = self._row.flushed
                return Cut("", [])
        else:
            options = {"cut": "clause", "words": 1, **self._row.options}
            is_all = self._row.flushed > self._sent_words
            length = cut_length([one.word for one in words], options["cut"], options["words"], is_all=is_all)
            count = length or 0
        if not count:
            return None
        words_sent = [self._unsent.popleft() for _ in range(count)]
        end = self._intake.chars if self._row.has_ended and not self._unsent else words_sent[-1].char_end + is_live
        text = self._intake.text(self._sent_chars, end)
        if len(text) > MAX_CUT_CHARS:
            left = (self._sent_chars + MAX_CUT_CHARS, end)
            self._emit(UnsupportedSpan(*left, "long_cut", {"count": str(MAX_CUT_CHARS)}).event())
        self._sent_chars, self._sent_words = self._sent_chars + len(text), self._sent_words + count
        self._row.waiting -= count
        self._record_revision_point()
        return Cut(text[:MAX_CUT_CHARS], words_sent)

    async def _speak_cuts(self, adapter: CutAdapter) -> None:
        async for cut in self._cuts(is_live=False):
            begin, limit_s = self._samples, _BASE_S + _CHAR_S * len(cut.text)
            self._loud, reader, waited_s = None, SoundReader(adapter.rate_hz), 0.0
            self._times.begin(cut.words, begin)
            async with aclosing(adapter.fetch(cut.text, self._ready.speaker)) as blocks:  # pyright: ignore[reportArgumentType]
                while True:
                    block, took_s = await self._next(blocks)
                    waited_s += took_s
                    await self._play(reader.finish() if block is None else reader.feed(block), cut, begin, limit_s)
                    if block is None:
                        break
                    if waited_s > self._system.timeout_s + _SLOWEST * limit_s:
                        raise SystemFailed(f"the system took {waited_s:.0f} s for {len(cut.text)} characters", _SEE)
            self._check_sound(begin, cut.text)
            for event in self._times.spread(*(self._loud or (begin, self._samples))):
                self._emit(event)

    async def _converse(self, adapter: LiveAdapter) -> None:
        cuts, passed = self._cuts(is_live=True), list[Cut]()

        async def texts() -> AsyncIterator[str]:
            async for cut in cuts:
                passed.append(cut)
                self._times.add(cut.words)
                yield cut.text

        async with aclosing(adapter.converse(texts(), self._ready.speaker)) as pieces:  # pyright: ignore[reportArgumentType]
            while True:
                piece, _ = await self._next(pieces)
                if piece is None:
                    break
                if isinstance(piece, np.ndarray):
                    words = [word for cut in passed for word in cut.words] if not self._segments else []
                    await self._play(piece, Cut("", words), 0, _BASE_S + _CHAR_S * self._sent_chars)
                else:
                    for event in self._times.on_times(piece, self._samples):
                        self._emit(event)
        if not self._row.has_ended or self._unsent:
            raise SystemFailed("the system ended its speech before the text had ended", _SEE)
        if self._sent_words:
            self._check_sound(0, "this text")
        for event in self._times.finish(self._samples):
            self._emit(event)

    async def _next(self, pieces: AsyncIterator[Any]) -> tuple[Any, float]:
        """The next piece (None at the end), and the seconds waited. Raises SystemFailed: sound is overdue."""
        coming = asyncio.ensure_future(anext(pieces, None))
        since_ms, owed_ms = self._clock.now_ms(), 0.0
        interval_s = min(0.25, self._system.timeout_s / 4)
        try:
            while not coming.done():
                await asyncio.wait((coming,), timeout=interval_s)
                now_ms = self._clock.now_ms()
                if self._waits_for_text:
                    owed_ms = 0.0
                else:
                    owed_ms += min(now_ms - since_ms, 2000.0 * interval_s)  # excludes pauses of this process
                    self._compute_ms += now_ms - since_ms
                since_ms = now_ms
                if not coming.done() and owed_ms >= 1000.0 * self._system.timeout_s:
                    raise SystemFailed(f"the system sent nothing for {self._system.timeout_s:g} s", _SEE)
            return coming.result(), owed_ms / 1000.0
        finally:
            if not coming.done():
                coming.cancel()
                await asyncio.wait((coming,), timeout=1.0)

    async def _play(self, pcm: np.ndarray, cut: Cut, begin: int, limit_s: float) -> None:
        """Send samples as far as the credit allows. Raises SystemFailed for too many."""
        rate_hz = self.card.sample_rate_hz
        if self._samples + len(pcm) - begin > limit_s * rate_hz:
            what = f"the system sent more than {limit_s:.0f} s of sound for its text"
            raise SystemFailed(what, "its sound does not end, or the rate is wrong: see its --sample-rate-hz")
        if self._samples + len(pcm) > self._system.max_audio_s * rate_hz:
            raise SystemFailed(f"the utterance is longer than {self._system.max_audio_s:g} s", "raise its max_audio_s")
        for at in range(0, len(pcm), _BLOCK_SAMPLES):
            block = pcm[at : at + _BLOCK_SAMPLES]
            while len(block):
                room = await self._room()
                self._begin_segment(cut)
                self._note_loud(block[:room])
                self._send_audio(block[:room])
                block = block[room:]
            await asyncio.sleep(0)  # let other utterances of this system run

    async def _room(self) -> int:
        """Wait until samples may be sent; returns how many."""
        while True:
            room = math.inf if self._credit_until is None else self._credit_until - self._samples
            if room > 0 and not self._outbox.is_full:
                if self._waits.held_by == "credit":
                    self._waits.resume(self._credited_ms)
                return int(min(room, _BLOCK_SAMPLES))
            self._waits.hold("credit")
            await self._changed.wait()

    def _begin_segment(self, cut: Cut) -> None:
        if not cut.words or (self._times.segment_words == cut.words):
            return
        self._times.segment_words = cut.words
        words = [one.i for one in cut.words]
        frame = self._samples // self.card.frame_samples
        self._emit(ev.Segment(index=self._segments, words=words, seen=words, sample=self._samples, frame=frame))
        self._segments += 1

    def _note_loud(self, block: np.ndarray) -> None:
        loud = np.flatnonzero(np.abs(block.astype(np.int32)) >= _AUDIBLE)
        if len(loud):
            first = self._loud[0] if self._loud else self._samples + int(loud[0])
            self._loud = first, self._samples + int(loud[-1]) + 1

    def _check_sound(self, begin: int, text: str) -> None:
        if self._samples == begin:
            raise SystemFailed(f"the system sent no sound for {text[:60]!r}", _SEE)
        if self._loud is None:
            raise SystemFailed(f"the system sent silence for {text[:60]!r}", _SEE)

    def _open_word_events(self) -> list[ev.Event]:
        """Word times of an interrupted cut."""
        return self._times.break_off(self._loud[0] if self._loud else None, self._samples)


_SEE = "see what studio systems test NAME says"
