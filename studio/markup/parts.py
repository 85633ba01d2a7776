"""An utterance in parts, with the pauses between them and the rates that its markup specifies.

Each part is an utterance of the engine. ``PartedUtterance`` joins them to one: words, characters and samples are
numbered continuously, and a pause is silence in whole frames, so that it is used like any other utterance.
"""

import logging
import threading
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from dataclasses import replace
from typing import Any

from studio.core import events as ev
from studio.core.errors import BadText, Closed, StudioError
from studio.core.ports import Engine, SpeakRequest, Utterance
from studio.markup.feed import EventFeed
from studio.markup.stretched import StretchedUtterance, check_speed, samples_of_voice
from studio.markup.whole import Part, WholeEvents
from studio.text.ssml import PART_READERS, PartReader, SpokenPart

_log = logging.getLogger("studio.markup")
_OPENERS = ThreadPoolExecutor(4, thread_name_prefix="parts")


class PartedUtterance(EventFeed):
    """See ``studio.core.ports.Utterance``. It cannot be revised, and wrong markup ends it as ``failed``.

    Text is passed on under one lock, in callers' threads, and events under another one, which is only held briefly.
    """

    def __init__(self, engine: Engine, request: SpeakRequest, reader: PartReader) -> None:
        self._engine, self._request, self._reader = engine, request, reader
        self._text_lock = threading.RLock()
        self._parts: deque[Part] = deque([Part(1.0)])  # the first one is being spoken
        self._speaking: Utterance | None = engine.open(request)
        self.id, self.card = self._speaking.id, self._speaking.card
        self.provenance: Mapping[str, Any] = self._speaking.provenance
        self._whole = WholeEvents(self.card, self._parts[0])
        super().__init__(self._whole.out)
        self._granted, self._pace = request.credit_samples, 1.0
        self._has_ended_text = self._is_cancelled = False
        self._speaking.set_listener(self._tell)

    # --- text, in callers' threads ---------------------------------------------------------------------

    def push_text(self, text: str) -> None:
        self._read(lambda: self._reader.feed(text))

    def end(self) -> None:
        self._read(self._reader.end, is_end=True)

    def flush(self) -> None:
        with self._text_lock:
            self._check_open()
            if self._speaking is not None and not self._parts[0].is_whole:
                self._speaking.flush()

    def _read(self, read: Callable[[], Sequence[SpokenPart]], *, is_end: bool = False) -> None:
        with self._text_lock:
            self._check_open()
            try:
                for part in read():
                    self._add(part)
                if is_end:
                    self._has_ended_text = self._parts[-1].is_whole = True
                self._pass_on()
            except StudioError as error:
                self._fail(error)
        self._tell()

    def _check_open(self) -> None:
        if self._has_ended_text or self._is_cancelled or self._whole.is_over:
            raise Closed("the text of this utterance has ended", "open a new one")

    def _add(self, part: SpokenPart) -> None:
        last = self._parts[-1]
        if part.text.strip():
            if last.is_empty:
                last.rate, last.is_empty = part.rate, False
            elif last.rate != part.rate:
                last.is_whole = True
                self._parts.append(last := Part(part.rate, is_empty=False))
        if part.text and not last.is_whole:
            last.texts.append(part.text)
        if part.pause_ms and not last.is_empty:
            last.is_whole = True
            self._parts.append(last := Part(part.rate))
        last.pause_ms += part.pause_ms
        last.tag += part.tag
        self._whole.has_frames &= part.rate == 1.0 and not (part.pause_ms and self._parts[0].is_empty)

    def _pass_on(self) -> None:
        """Send the first part's pause, and pass its text to its utterance, which is opened if necessary."""
        part = self._parts[0]
        if self._speaking is None and not part.is_empty and not self._whole.is_over:
            with self._lock:
                self._whole.send_tag()
                self._whole.send_silence()  # now: credit for the next part is granted when the silence is played
            credit = None if self._granted is None else max(0, self._whole.to_part(self._granted))
            opened = self._engine.open(replace(self._request, credit_samples=credit))
            with self._lock:
                if self._is_cancelled or self._whole.is_over:
                    opened.cancel()
                    return
                self._speaking = opened
            opened.set_listener(self._tell)
            if self._granted is not None:
                opened.grant(self._whole.to_part(self._granted))
        if self._speaking is None:
            with self._lock:
                self._whole.send_tag()
                self._whole.send_silence()
                if part.is_whole:  # only a pause
                    self._whole.end()
            return
        with suppress(Closed):  # it failed, as its last event reports
            self._speaking.set_pace(self._pace * part.rate)
            while part.texts:
                self._speaking.push_text(part.texts[0])
                part.texts.popleft()
            if part.is_whole:
                self._speaking.end()

    def _begin_next(self) -> None:
        """The first part was spoken: continue with the next one."""
        with self._text_lock:
            with self._lock:
                self._parts.popleft()
                self._whole.begin(self._parts[0])
            try:
                self._pass_on()
            except StudioError as error:
                self._fail(error)
        self._tell()

    def _check_begun(self, begun: "Future[None]") -> None:
        if error := begun.exception():
            _log.error("a part could not begin", exc_info=error)
            self._fail(StudioError("this utterance failed", "the server's log says why; open a new one"))
            self._tell()

    # --- control ---------------------------------------------------------------------------------------

    def cancel(self, played_sample: int = 0) -> None:
        with self._lock:
            if self._is_cancelled or self._whole.is_over:
                return
            self._is_cancelled, self._whole.cancelled_sample = True, played_sample
            if self._speaking is None:
                self._whole.emit_cancelled()
                self._whole.end()
            else:
                self._speaking.cancel(max(0, self._whole.to_part(played_sample)))
        self._tell()

    def settled_chars(self) -> int:
        return self._whole.so_far.chars

    def revise(self, char_start: int, text: str) -> None:
        raise BadText("text with markup cannot be revised", "open the utterance without 'markup'")

    def set_options(self, options: Mapping[str, Any], temperature: float | None = None) -> None:
        with self._lock:
            if self._speaking is not None:
                self._speaking.set_options(options, temperature)
            changed = self._request if temperature is None else replace(self._request, temperature=temperature)
            self._request = replace(changed, options={**changed.options, **options})

    def grant(self, until_sample: int) -> None:
        with self._lock:
            self._granted = max(until_sample, self._granted or 0)
            if self._speaking is not None:
                self._speaking.grant(max(0, self._whole.to_part(until_sample)))

    def played(self, sample: int) -> None:
        with self._lock:
            self._whole.emit(ev.Played(sample=sample), at_ms=self._whole.now_ms())
        self._tell()

    def set_pace(self, pace: float) -> None:
        self._pace = pace  # each part tells it to its utterance, with its rate

    def add_event(self, event: ev.Event) -> None:
        with self._lock:
            if self._whole.is_over:
                raise Closed("this utterance has ended", "open a new one")
            self._whole.emit(event, at_ms=self._whole.now_ms())
        self._tell()

    # --- events ----------------------------------------------------------------------------------------

    def _source(self) -> Utterance | None:
        return None if self._whole.is_over else self._speaking

    def _has_ended(self) -> bool:
        return self._whole.is_over

    def _forward(self, event: ev.Event) -> None:
        if isinstance(event, ev.Ended):
            self._end_part(event)
        else:
            self._whole.forward(event)

    def _fail(self, error: StudioError) -> None:
        with self._lock:
            speaking, self._speaking = self._speaking, None
            self._whole.finish_sound(self._whole.now_ms())
            self._whole.emit(ev.Failed(code=error.code, message=str(error)), at_ms=self._whole.now_ms())
        if speaking is not None:
            speaking.cancel()

    def _end_part(self, ended: ev.Ended) -> None:
        whole, self._speaking = self._whole, None
        if self._is_cancelled:  # the part may have ended before it was cancelled; no sound follows
            whole.emit_cancelled()
        else:
            whole.finish_part(ended)
        whole.compute_ms += ended.compute_ms
        if self._is_cancelled or len(self._parts) == 1:  # also if the engine ends before the text does
            whole.emit(ended, samples=whole.so_far.samples, compute_ms=whole.compute_ms)
        else:
            _OPENERS.submit(self._begin_next).add_done_callback(self._check_begun)


def open_marked(engine: Engine, request: SpeakRequest, markup: str, speed: float = 1.0) -> Utterance:
    """Open an utterance whose text is written in ``markup``.

    Args:
        speed: 2 is twice as fast, at the same pitch; 0.5 to 2.

    Raises:
        BadOption: the speed is out of range.
        NeedsPackage: another speed needs PyAV.
        StudioError: as ``Engine.open``.
    """
    check_speed(speed)
    credit, reader = request.credit_samples, PART_READERS.get(markup)
    if speed != 1.0 and credit is not None:
        request = replace(request, credit_samples=samples_of_voice(credit, speed))
    utterance = engine.open(request) if reader is None else PartedUtterance(engine, request, reader())
    try:
        return utterance if speed == 1.0 else StretchedUtterance(utterance, speed, credit)
    except StudioError:
        utterance.cancel()
        raise


class MarkedEngine:
    """An engine for texts in a given markup, spoken at a given speed; see ``studio.core.ports.Engine``."""

    def __init__(self, engine: Engine, markup: str, speed: float = 1.0) -> None:
        self._engine, self._markup, self._speed = engine, markup, speed
        self.cards, self.is_loaded, self.free_slots = engine.cards, engine.is_loaded, engine.free_slots
        self.drain, self.close = engine.drain, engine.close

    def open(self, request: SpeakRequest) -> Utterance:
        """See ``Engine.open``."""
        return open_marked(self._engine, request, self._markup, self._speed)
