"""One utterance of the terminal program: its typed text, and which of its words were played."""

import time
from bisect import bisect_right
from collections import deque

import numpy as np

from studio.core import events as ev
from studio.core.ports import Utterance
from studio.core.text.livetext import LiveText
from studio.core.time import MonotonicClock
from studio.core.traces.trace import Trace, collect_trace
from studio.desktop.player import Player
from studio.measure.latency import arrivals

_KEYS = 256  # whose times are remembered
_KEY_S = 0.1  # if the last key is longer ago, a pause completed the first window


class Line:
    """A line of text while it is typed, spoken and played. One thread calls ``edit``, another one the rest.

    Args:
        has_to_wait: the previous line is still being played, so no latency is measured.

    Attributes:
        first: the player's position of its first sample; None before ``begin``.
        samples: number of samples made.
        stopped: number of samples played before it was interrupted; None if it was not.
        heard: [start, end) in the line of the word being played or played last.
        is_over: whether it was played to its end, or interrupted.
        latency_ms: from the key (or pause) that completed the first window to the first sample at the loudspeaker.
        retracted: number of revisions that discarded sound.
        underruns: how often the player ran out of samples while there was text to speak.
    """

    def __init__(self, utterance: Utterance, *, has_to_wait: bool) -> None:
        self.utterance = utterance
        self.live = LiveText(utterance, MonotonicClock())
        self.text = ""
        self.first: int | None = None
        self.samples = self.retracted = self.underruns = 0
        self.stopped: int | None = None
        self.is_over = False
        self.heard = (0, 0)
        self.latency_ms: float | None = None
        self.last: ev.Event | None = None
        self.events: list[ev.Event] = []
        self._keys_s: deque[float] = deque(maxlen=_KEYS)
        self._words: list[ev.Committed] = []
        self._starts: dict[int, int] = {}
        self._made: list[np.ndarray] = []  # before ``begin``
        self._is_measured = has_to_wait
        self._waits_at = -1  # the sample at which a wait for text or credit, or a cut, explains a pause
        self._epoch_s = float("inf")  # the clock's time at ``ready``

    def edit(self, at: int, remove: int, insert: str, key_s: float) -> None:
        """Change the line; a key was pressed at ``key_s``. Raises Closed, BadText, Full."""
        self._keys_s.append(key_s)
        self.live.edit(at, remove, insert)
        self.text = self.live.text

    def read_events(self, player: Player) -> None:
        """Process the utterance's events; its sound goes to the player if ``begin`` was called."""
        now_s = time.perf_counter()
        for event in self.utterance.poll_events():
            self.events.append(event)
            self.live.on_event(event)
            match event:
                case ev.Committed():
                    self._words.append(event)
                case ev.WordStart(i=i, sample=sample):
                    self._starts[i] = sample
                case ev.Wait(reason=reason, sample=sample) if reason not in ev.STALL_REASONS:
                    self._waits_at = sample
                case ev.Audio() if self.stopped is None:
                    self._on_audio(event, player)
                case ev.Revised():
                    self._on_revised(event, player)
                case _:
                    pass
            if ev.is_last(event):
                self.last = event
            elif not isinstance(event, ev.Queued):  # whose time has another origin
                self._epoch_s = min(self._epoch_s, now_s - event.t_ms / 1000.0)

    def begin(self, player: Player) -> None:
        """Start playback, after the previous line."""
        self.first, player.ran_dry = player.end, False
        for pcm in self._made:
            player.play(pcm)
        self._made.clear()

    def played(self, player: Player) -> int:
        """Number of its samples that have left the loudspeaker."""
        if self.stopped is not None:
            return self.stopped
        return 0 if self.first is None else min(max(0, player.position() - self.first), self.samples)

    def follow(self, player: Player) -> int:
        """Move ``heard`` to the current word, and measure the latency; returns the number of samples played."""
        played = self.played(player)
        sounding = [one for one in self._words if self._starts.get(one.i, played) < played]
        self.heard = self.live.field_span(sounding[-1].char_start, sounding[-1].char_end) if sounding else (0, 0)
        if not self._is_measured and played and self.first is not None:
            self._is_measured = True
            self._measure(player.time_of(self.first))
        return played

    def trace(self) -> Trace:
        """The line's trace, after its last event."""
        return collect_trace(self.utterance.provenance, self.events)

    def _on_audio(self, event: ev.Audio, player: Player) -> None:
        self.samples = event.sample + len(event.pcm)
        if self.first is None:
            self._made.append(event.pcm)
            return
        if player.ran_dry and 0 < event.sample != self._waits_at:
            self.underruns += 1
        player.ran_dry = False
        player.play(event.pcm)

    def _on_revised(self, event: ev.Revised, player: Player) -> None:
        del self._words[event.words :]
        self._starts = {i: sample for i, sample in self._starts.items() if sample < event.from_sample}
        self.retracted += event.from_sample < self.samples
        self.samples = self._waits_at = event.from_sample
        if self.first is not None:
            player.cut(self.first + event.from_sample)
        else:
            self._made = [np.concatenate([*self._made, np.zeros(0, np.int16)])[: event.from_sample]]

    def _measure(self, sound_s: float | None) -> None:
        segment = next((one for one in self.events if isinstance(one, ev.Segment)), None)
        if sound_s is None or segment is None:
            return
        arrived_ms = arrivals(self.events)
        complete_s = self._epoch_s + max((arrived_ms[i] for i in segment.seen if i in arrived_ms), default=0.0) / 1000.0
        keys_s = list(self._keys_s)
        key_s = keys_s[max(0, bisect_right(keys_s, complete_s) - 1)]
        cause_s = key_s if complete_s - key_s < _KEY_S else complete_s
        self.latency_ms = (sound_s - cause_s) * 1000.0
