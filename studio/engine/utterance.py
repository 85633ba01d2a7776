"""One utterance inside the engine: text in from any thread, turns from the engine's thread, events out."""

import itertools
import threading
from collections import deque
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from queue import SimpleQueue
from typing import Any

import numpy as np
import torch

from studio.core import events as ev
from studio.core.cards import Card
from studio.core.errors import BadVoice, Closed, Full
from studio.core.ports import Normaliser
from studio.core.time import Clock
from studio.core.words import WordChanges, WordStream
from studio.engine.families.base import FamilyStream
from studio.engine.voices import Voice

MAX_PENDING_CHARS = 1_000_000
_AHEAD_WORDS = 64  # committed before they are needed: a long paste is read as it is spoken

_ids = itertools.count(1)


@dataclass(frozen=True)
class _Push:
    text: str


@dataclass(frozen=True)
class _Flush:
    pass


@dataclass(frozen=True)
class _End:
    pass


@dataclass(frozen=True)
class _SetOptions:
    options: dict[str, Any]
    temperature: float | None


class LocalUtterance:
    """An utterance spoken in this process; see ``studio.core.ports.Utterance``."""

    def __init__(
        self,
        voice: Voice,
        stream: FamilyStream,
        ready: ev.Ready,
        normalise: Normaliser,
        clock: Clock,
        wake: threading.Condition,
        credit_samples: int | None,
    ) -> None:
        self.id = next(_ids)
        self.card: Card = voice.card
        self.done = False
        self._voice, self._stream, self._clock, self._wake = voice, stream, clock, wake
        self._vocoder_state = voice.vocoder_state(voice.card.speakers.index(ready.speaker), ready.seed)
        self._words = WordStream(normalise)
        self._feeding: Iterator[WordChanges] = iter(())
        self._inbox: deque[_Push | _Flush | _End | _SetOptions] = deque()
        self._pending_chars = self._sent_chars = self._said_words = 0
        self._closing: int | None = None  # the played sample of a cancel
        self._input_over = self._over = False
        self._granted = credit_samples
        self._samples = 0
        self._word_ends: list[tuple[int, int]] = []  # (sample, word) not yet known to be heard
        self._compute_ms = 0.0
        self._blocked: ev.WaitReason | None = None
        self._dry_at_ms: float | None = None  # when an ideal player runs out of what was made
        self._start_ms = clock.now_ms()
        self._out: SimpleQueue[ev.Event] = SimpleQueue()
        self._emit(replace(ready, utterance=self.id))

    # ------------------------------------------------------------ what callers do

    def push_text(self, text: str) -> None:
        """Append text. Raises Closed, Full."""
        if not text:
            return
        text = text.encode("utf-8", "replace").decode("utf-8") if not text.isascii() else text  # lone surrogates
        with self._wake:
            self._check_open()
            if self._pending_chars + len(text) > MAX_PENDING_CHARS:
                raise Full(
                    f"{MAX_PENDING_CHARS:,} characters wait to be spoken already",
                    "send more when some of it has been spoken",
                )
            self._emit(ev.Text(char_start=self._sent_chars, text=text))
            self._sent_chars += len(text)
            self._pending_chars += len(text)
            self._inbox.append(_Push(text))
            self._wake.notify_all()

    def flush(self) -> None:
        """Speak every committed word without waiting for more."""
        self._send(_Flush())

    def end(self) -> None:
        """No more text will come."""
        with self._wake:
            self._check_open()
            self._input_over = True
            self._inbox.append(_End())
            self._wake.notify_all()

    def set_options(self, options: Mapping[str, Any], temperature: float | None = None) -> None:
        """Options from the next segment on. Raises BadOption, Closed."""
        self._stream.check(options)
        self._send(_SetOptions(dict(options), temperature))

    def cancel(self, played_sample: int = 0) -> None:
        """Stop; nothing happens when it is over already."""
        with self._wake:
            if self._closing is None and not self.done:
                self._input_over = True
                self._closing = max(0, played_sample)
                self._wake.notify_all()

    def grant(self, until_sample: int) -> None:
        """Let the voice run on until this sample."""
        with self._wake:
            if self._granted is not None and until_sample > self._granted:
                self._granted = until_sample
                self._wake.notify_all()

    def played(self, sample: int) -> None:
        """Record what the listener has heard."""
        self._emit(ev.Played(sample=sample))

    def note(self, event: ev.Event) -> None:
        """Add an event of the caller's."""
        self._emit(event)

    def events(self) -> Iterator[ev.Event]:
        """Every event in order, waiting for the next."""
        while True:
            event = self._out.get()
            yield event
            if ev.is_last(event):
                return

    # ------------------------------------------------------------ what the engine's thread does

    def turn(self) -> bool:
        """Do one thing, if there is one to do; answers whether there was."""
        if self._closing is not None:
            self._cancel(self._closing)
            return True
        read = self._read_inbox()
        if self._granted is not None and self._samples + self.card.frame_samples > self._granted:
            self._blocked = "credit"
            return read
        begun = self._clock.now_ms()
        made = self._stream.turn()
        if made is None:
            if self._stream.over and not self._inbox:
                self._finish(ev.Ended(samples=self._samples, compute_ms=round(self._compute_ms, 3)))
                return True
            self._blocked = self._blocked or "text"
            return read
        for event in made.before:  # stamped when the frame is there: the ladder's t1
            self._emit(event)
        pcm = self._vocode(made.levels) if len(made.levels) else None
        self._compute_ms += self._clock.now_ms() - begun
        if pcm is not None:
            self._send_audio(pcm)
        for event in made.after:
            self._emit(event)
        return True

    def fail(self, code: str, message: str) -> None:
        """End it badly."""
        if not self.done:
            self._finish(ev.Failed(code=code, message=message))

    @torch.inference_mode()
    def _vocode(self, levels: np.ndarray) -> np.ndarray:
        frames = self._voice.mels(torch.from_numpy(levels))
        pcm, self._vocoder_state = self._voice.vocoder.step(frames, self._vocoder_state)
        samples = pcm[0].float().cpu().numpy()
        if not np.isfinite(samples).all():
            raise BadVoice("the voice made samples that are no numbers", "fetch the voice again, or choose another")
        return np.clip(np.rint(samples * 32768.0), -32768, 32767).astype(np.int16)

    def _send_audio(self, pcm: np.ndarray) -> None:
        now = self._clock.now_ms()
        length_ms = 1000.0 * len(pcm) / self.card.sample_rate_hz
        if self._dry_at_ms is None:
            self._dry_at_ms = now
        elif now > self._dry_at_ms:
            reason = self._blocked or "compute"
            self._emit(ev.Wait(reason=reason, sample=self._samples, duration_ms=round(now - self._dry_at_ms, 3)))
            self._dry_at_ms = now
        self._blocked = None
        self._dry_at_ms += length_ms
        self._emit(ev.Audio(sample=self._samples, pcm=pcm))
        self._samples += len(pcm)

    def _read_inbox(self) -> bool:
        """Commit words while few are waiting; a long text is read only as fast as it is spoken."""
        did = False
        while self._stream.unspoken < _AHEAD_WORDS:
            changes = next(self._feeding, None)
            if changes is not None:
                self._take(changes)
                did = True
                continue
            with self._wake:
                if not self._inbox:
                    return did
                message = self._inbox.popleft()
            self._handle(message)
            did = True
        return did

    def _handle(self, message: _Push | _Flush | _End | _SetOptions) -> None:
        match message:
            case _Push(text):
                self._pending_chars -= len(text)
                self._feeding = iter(self._words.feed(text))
            case _Flush():
                self._take(self._words.flush())
                self._stream.flush()
                self._emit(ev.Flushed(words=self._said_words))
            case _End():
                self._take(self._words.end())
                self._stream.end()
            case _SetOptions(options, temperature):
                self._emit(ev.Options(options=self._stream.set_options(options, temperature)))

    def _take(self, changes: WordChanges) -> None:
        for word in changes.words:
            place = {"written": word.written, "char_start": word.char_start, "char_end": word.char_end}
            self._emit(ev.Committed(i=word.i, word=word.word, **place))
        for span in changes.unsupported:
            self._emit(ev.Unsupported(char_start=span.char_start, char_end=span.char_end, why=span.why))
        self._stream.commit([word.word for word in changes.words])
        self._said_words += len(changes.words)

    def _cancel(self, played_sample: int) -> None:
        played = min(played_sample, self._samples)
        heard = [word for sample, word in self._word_ends if sample <= played]
        self._emit(ev.Cancelled(heard=heard, sample=played))
        self._finish(ev.Ended(samples=self._samples, compute_ms=round(self._compute_ms, 3)))

    def _finish(self, last: ev.Event) -> None:
        with self._wake:
            self.done = True
            self._input_over = True
        self._stream.close()
        self._emit(last)

    def _send(self, message: _Flush | _SetOptions) -> None:
        with self._wake:
            self._check_open()
            self._inbox.append(message)
            self._wake.notify_all()

    def _check_open(self) -> None:
        if self._input_over or self.done:
            raise Closed("this utterance takes no more text", "open another one")

    def _emit(self, event: ev.Event) -> None:
        if isinstance(event, ev.WordEnd):
            self._word_ends.append((event.sample, event.i))
        with self._wake:  # one order for all threads; nothing comes after the last event
            if self._over:
                return
            self._over = ev.is_last(event)
            self._out.put(replace(event, t_ms=self._clock.now_ms() - self._start_ms))
