"""Lines that are typed and played one after another, on one engine and one player."""

import gc
import sys
import threading
import time
from collections import deque
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

from studio.core.cards import Card, parse_voice
from studio.core.clips import write_wav
from studio.core.errors import Closed, StudioError
from studio.core.events import Failed
from studio.core.options import default_options, merge_options
from studio.core.ports import Engine, SpeakRequest
from studio.core.speakers import sound_comment
from studio.core.traces.trace_writer import save_trace
from studio.desktop.devices import TO_NOTHING, Output, open_output
from studio.desktop.line import Line
from studio.desktop.player import Player

MAX_LINE_CHARS = 5_000  # about six minutes
_CREDIT_S = 2.0  # of sound that a voice may make ahead of playback
_SWITCH_S = 0.001  # switch interval of the interpreter's threads, instead of 5 ms
_POLL_S = 0.01
_LATENCIES = 1_000
_REPORT_S = 0.02
_NEVER = 2**31 - 1  # a full garbage collection stops every thread for up to 0.1 s: it runs only during silence


class Session:
    """Speaks typed lines; each is an utterance, played after the previous one. ``close`` must be called.

    A thread passes sound from the engine to the player, so that no screen update delays it.

    Args:
        output: name of the audio output, see ``open_output``.
        folder: for recordings of finished lines, NAME.wav (the sound that was played) and NAME.trace; None for none.

    Attributes:
        typing: the line being typed; None before its first character.
        errors: not displayed yet.
        latencies_ms: of finished lines.
    """

    def __init__(self, engine: Engine, request: SpeakRequest, output: str = "", folder: Path | None = None) -> None:
        gc.collect()
        gc.freeze()  # collections skip the objects loaded so far
        self._switch_s, self._gc_thresholds = sys.getswitchinterval(), gc.get_threshold()
        sys.setswitchinterval(_SWITCH_S)
        gc.set_threshold(*self._gc_thresholds[:2], _NEVER)
        self.engine, self.folder = engine, folder
        self.cards = {card.name: card for card in engine.cards()}
        self.request = request
        self.typing: Line | None = None
        self.errors: deque[StudioError] = deque(maxlen=20)
        self.latencies_ms: deque[float] = deque(maxlen=_LATENCIES)
        self.recorded: list[Path] = []
        self._underruns = self._retracted = 0
        self._lines: deque[Line] = deque()
        self._lock = threading.Lock()  # for ``_lines`` and the lines in it
        self._news, self._is_over = threading.Event(), threading.Event()
        self._writer = ThreadPoolExecutor(1, thread_name_prefix="recorder")
        self.player = Player(self.card.sample_rate_hz)
        self.output_name = output
        self._output: Output = self._open_output(self.player, output)
        self._thread = threading.Thread(target=self._run, name="player feed", daemon=True)
        self._thread.start()

    @property
    def card(self) -> Card:
        """The card of the voice."""
        return parse_voice(self.request.voice, self.cards)[0]

    @property
    def options(self) -> dict[str, Any]:
        """The options of the next line, complete."""
        return {**default_options(self.card.options), **self.request.options}

    @property
    def underruns(self) -> int:
        """Number of breaks in the sound although there was text to speak, and of late callbacks of the device."""
        with self._lock:
            return self._underruns + self.player.underflows + sum(one.underruns for one in self._lines)

    @property
    def retracted(self) -> int:
        """Number of revisions that discarded sound before it was played."""
        with self._lock:
            return self._retracted + sum(one.retracted for one in self._lines)

    def edit(self, at: int, remove: int, insert: str, key_s: float) -> Line:
        """Change the line being typed; the first character begins it. Returns it.

        Raises StudioError: the text cannot be spoken; the line stays as it was.
        """
        line = self.typing
        if line is None:
            credit_samples = round(_CREDIT_S * self.player.rate_hz)
            utterance = self.engine.open(replace(self.request, credit_samples=credit_samples))
            utterance.set_listener(self._news.set)
            with self._lock:
                line = Line(utterance, has_to_wait=bool(self._lines))
                self._lines.append(line)
            self.typing = line
        line.edit(at, remove, insert, key_s)
        self._news.set()
        return line

    def end_line(self) -> Line | None:
        """Complete the line being typed. Returns it."""
        line, self.typing = self.typing, None
        if line is not None:
            with suppress(Closed):  # it has failed, as its last event reports
                line.live.end()
        return line

    def interrupt(self) -> Line | None:
        """Stop the sound at once: every line ends where playback stopped. Returns the line being typed."""
        with self._lock:
            self.player.stop()
            for line in self._lines:
                line.stopped = line.played(self.player)
                line.utterance.cancel(line.stopped)
            typed, self.typing = self.typing, None
        return typed

    def set_options(self, changes: dict[str, Any]) -> None:
        """Change options of the family, including those of the line being typed. Raises BadOption."""
        options = merge_options(self.card.options, changes, self.options)
        if self.typing is not None:
            self.typing.utterance.set_options(options)
        self.request = replace(self.request, options=options)

    def load_voice(self, voice: str) -> SpeakRequest:
        """Load another voice, which takes seconds; returns the request for ``set_voice``. Raises StudioError."""
        request = replace(self.request, voice=voice, options={}, temperature=None)
        self.engine.open(request).cancel()
        return request

    def set_voice(self, request: SpeakRequest) -> Line | None:
        """Speak the next lines with a loaded voice. Completes the line being typed, and returns it.

        Raises BadOption: the output refuses the voice's rate; the line continues with the current voice.
        """
        card, _ = parse_voice(request.voice, self.cards)
        if card.sample_rate_hz == self.player.rate_hz:
            line = self.end_line()
        else:
            line = self._use(Player(card.sample_rate_hz), self.output_name)
        self.request = request
        return line

    def set_output(self, name: str) -> Line | None:
        """Play through another output, which interrupts all lines. Returns the line that was being typed.

        Raises BadOption; then the current output stays.
        """
        return self._use(Player(self.player.rate_hz), name)

    def is_idle(self) -> bool:
        """Whether all completed lines have been played."""
        with self._lock:
            return not self._lines or (len(self._lines) == 1 and self._lines[0] is self.typing)

    def close(self) -> None:
        """Stop, and wait until all lines are recorded."""
        self.interrupt()
        deadline_s = time.monotonic() + 5.0
        while self._lines and time.monotonic() < deadline_s:
            time.sleep(_POLL_S)
        self._is_over.set()
        self.player.close()
        self._thread.join()
        self._output.close()
        self._writer.shutdown()
        sys.setswitchinterval(self._switch_s)
        gc.set_threshold(*self._gc_thresholds)

    def _open_output(self, player: Player, name: str) -> Output:
        return open_output(player, name, TO_NOTHING)

    def _use(self, player: Player, name: str) -> Line | None:
        output = self._open_output(player, name)  # may fail, so before the interruption
        line = self.interrupt()
        player.underflows = self.player.underflows
        with self._lock:
            self.player, self.output_name = player, name
            before, self._output = self._output, output
        before.close()
        return line

    def _run(self) -> None:
        """Pass sound to the player until the session is closed."""
        reported_s = 0.0
        while not self._is_over.is_set():
            self._news.wait(_POLL_S)
            self._news.clear()
            is_due = time.monotonic() - reported_s >= _REPORT_S
            reported_s = time.monotonic() if is_due else reported_s
            with self._lock:
                for line in list(self._lines):
                    self._advance(line, is_due)
            if not self.player.is_playing and gc.get_count()[2] > self._gc_thresholds[2]:
                gc.collect()

    def _advance(self, line: Line, is_due: bool) -> None:
        is_first = line is self._lines[0]
        if is_first and line.first is None and line.stopped is None:
            line.begin(self.player)
        line.read_events(self.player)
        with suppress(StudioError):  # Closed: the line has just ended
            line.live.poll()
        if is_due:
            played = line.follow(self.player)
            with suppress(Closed):
                line.utterance.played(played)
                line.utterance.grant(played + round(_CREDIT_S * self.player.rate_hz))
        is_heard = line.stopped is not None or line.played(self.player) >= line.samples
        if is_first and line.last is not None and is_heard:
            self._finish(line)

    def _finish(self, line: Line) -> None:
        played = line.follow(self.player)
        self._lines.popleft()
        line.is_over = True
        if isinstance(line.last, Failed):
            self.errors.append(StudioError(line.last.message))
        if line is self.typing:
            self.typing = None
        if line.latency_ms is not None:
            self.latencies_ms.append(line.latency_ms)
        self._underruns += line.underruns
        self._retracted += line.retracted
        if self.folder is not None and played:
            self._writer.submit(self._record, line, self.folder, played)

    def _record(self, line: Line, folder: Path, played: int) -> None:
        number = 1 + len(self.recorded)
        name = folder / f"{time.strftime('%Y%m%d-%H%M%S')}-{number:03}"
        try:
            folder.mkdir(parents=True, exist_ok=True)
            trace = line.trace()
            write_wav(name.with_suffix(".wav"), trace.pcm[:played], trace.rate_hz, sound_comment(trace.meta))
            save_trace(trace, name.with_suffix(".trace"))
        except (OSError, StudioError) as error:
            self.errors.append(StudioError(f"the line could not be recorded in {folder}: {error}"))
            return
        self.recorded.append(name)
