"""Replay: speak a trace's text again and compare every sample."""

import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import zip_longest
from typing import Any

import numpy as np

from studio.core import events as ev
from studio.core.checks import is_number, to_printable
from studio.core.errors import BadFile, StudioError
from studio.core.ports import PLAYED_REPORT_MS, Engine, Utterance
from studio.core.traces.trace import Trace, collect_trace
from studio.inspection.replay_script import ReplayStep, replay_script, revisions
from studio.markup.parts import MarkedEngine

_SEGMENT_TIMEOUT_S = 60.0  # a replay that diverged may never make the awaited segment
_UNLIMITED = 2**53  # samples
_IDLE_S = 5.0  # without events, until an utterance without an end is assumed to wait for text
_PROVENANCE = ("git_sha", "versions", "device", "threads", "dtype", "vocoder", "checkpoint_sha256")


@dataclass(frozen=True)
class Replay:
    """The result of a replay."""

    trace: Trace  # the new trace
    samples: int  # length of the shorter one
    first_difference: int | None  # the first sample that differs, None where all of ``samples`` are equal
    is_whole: bool  # whether both have equally many samples, or the original was stopped early
    differences: tuple[str, ...]  # differences in provenance and input, a sentence each

    @property
    def is_same(self) -> bool:
        """Whether every sample is equal, bit for bit."""
        return self.first_difference is None and self.is_whole


def replay(engine: Engine, before: Trace) -> Replay:
    """Speak a trace's text again, with the same voice, seed, temperature, options and speed.

    At the voice's own speed the arrival times of text do not change the sound, but those of flushes and revisions do:
    segments started by a flush are made with the same words committed, and a revision is sent when the sound that it
    kept has been made. Changes of options within the utterance are not replayed, but listed in ``differences``.

    Raises BadFile: the trace holds no events, or no request; BadVoice, BadOption: the voice is missing, or has no such
    options.
    """
    if not before.events:
        raise BadFile("the trace holds no events", "nothing was spoken")
    was_cut = not isinstance(before.events[-1], ev.Ended) or any(isinstance(one, ev.Cancelled) for one in before.events)
    speed = before.meta.get("speed", 1.0)
    if not is_number(speed):
        raise BadFile("the trace's speed is no number", "its file is damaged")
    engine = MarkedEngine(engine, "plain", speed)
    steps = replay_script(before.events, ends=not was_cut)
    utterance, held = engine.open(replace(before.request, credit_samples=0)), 0
    if speed != 1.0:
        held = round((2 * utterance.card.frame_samples + utterance.card.sample_rate_hz / 10) / speed)
    again = _ReplaySender(utterance, steps, len(before.pcm), was_cut=was_cut, held=held)
    after = collect_trace(dict(again.utterance.provenance), again.events())
    samples = min(len(before.pcm), len(after.pcm))
    differing = np.flatnonzero(before.pcm[:samples] != after.pcm[:samples])
    result = Replay(
        trace=after,
        samples=samples,
        first_difference=int(differing[0]) if len(differing) else None,
        is_whole=samples == len(before.pcm) and (was_cut or samples == len(after.pcm)),
        differences=(
            *again.refused,
            *_speed_pauses(before.events, speed),
            *_option_changes(before.events),
            *_provenance_differences(before.meta, after.meta),
        ),
    )
    if result.is_same:
        return result
    revised = _revision_differences(revisions(before.events), revisions(after.events))
    return replace(result, differences=(*revised, *result.differences))


def _speed_pauses(events: Sequence[ev.Event], speed: float) -> list[str]:
    if speed == 1.0 or not any(isinstance(one, ev.Wait) and one.reason == "text" for one in events):
        return []
    return [
        "the voice waited for text, which leaves seams at another speed; the replay has none, so samples may differ"
    ]


class _ReplaySender:
    """Sends the steps of a script to an utterance from a separate thread.

    Args:
        utterance: opened without credit, so that nothing is spoken before the first texts.
        samples: length of the original.
        was_cut: whether the original was stopped early; then the replay is cancelled at that length.
        held: most samples in a time stretcher's buffer.
    """

    def __init__(
        self, utterance: Utterance, steps: Sequence[ReplayStep], samples: int, *, was_cut: bool, held: int = 0
    ) -> None:
        self.utterance = utterance
        self.refused: list[str] = []  # inputs that the utterance refused, a sentence each
        self._steps, self._samples, self._was_cut, self._held = steps, samples, was_cut, held
        self._changed = threading.Condition()
        self._count = self._end_sample = 0  # events; end of the sound so far
        self._segment_starts: list[int] = []  # first samples of segments
        self._is_over = self._is_ended = False

    def events(self) -> Iterator[ev.Event]:
        """Send the steps and yield the utterance's events."""
        sender = threading.Thread(target=self._send, daemon=True)
        sender.start()
        for event in self.utterance.events():
            with self._changed:
                self._note(event)
                self._changed.notify_all()
            yield event
            if self._was_cut and isinstance(event, ev.Audio) and self._end_sample >= self._samples:
                self._is_over = True  # later inputs change no sample
                self.utterance.cancel()
        sender.join()

    def _note(self, event: ev.Event) -> None:
        self._count += 1
        self._is_over = self._is_over or ev.is_last(event)
        if isinstance(event, ev.Audio):
            self._end_sample = event.sample + len(event.pcm)
        elif isinstance(event, ev.Segment):
            self._segment_starts.append(event.sample)
        elif isinstance(event, ev.Revised):
            self._end_sample = event.from_sample
            self._segment_starts = [sample for sample in self._segment_starts if sample < event.from_sample]

    def _send(self) -> None:
        try:
            with self._changed:  # wait for the slot: until then, text cancels an earlier flush
                self._changed.wait_for(lambda: self._count > 0, timeout=_SEGMENT_TIMEOUT_S)
            for at, step in enumerate(self._steps):
                if step.kind in ("until", "revise"):
                    self._grant_to_revision(at)
                self._do(step)
            self.utterance.grant(_UNLIMITED)
            if self._was_cut:
                self._cut()
        except StudioError as error:
            if not self._is_over:
                self.refused.append(f"an input of the original is refused now: {error}")
                self.utterance.cancel()

    def _grant_to_revision(self, at: int) -> None:
        """Grant samples up to the next revision."""
        sample = next((step.sample for step in self._steps[at:] if step.kind == "revise"), _UNLIMITED)
        self.utterance.grant(sample)

    def _do(self, step: ReplayStep) -> None:
        if step.kind == "text":
            self.utterance.push_text(step.text)
        elif step.kind == "flush":
            self.utterance.flush()
        elif step.kind == "end":
            self._end()
        elif step.kind == "until":
            self._await(lambda: len(self._segment_starts) > step.until, _SEGMENT_TIMEOUT_S)
        else:
            self._revise(step)

    def _revise(self, step: ReplayStep) -> None:
        self._await_samples(step.sample)
        if self._end_sample < step.sample - self._held:
            self._end()  # the original is longer, so its text had ended; a trace does not record that
            self._await_samples(step.sample)
        margin = round(2 * PLAYED_REPORT_MS * self.utterance.card.sample_rate_hz / 1000)
        self.utterance.played(max(0, step.sample - margin))  # so that nothing before it is revised
        self.utterance.revise(step.char, step.text)

    def _end(self) -> None:
        if not self._is_ended:
            self._is_ended = True
            self.utterance.end()

    def _cut(self) -> None:
        self._await_samples(self._samples)
        if not self._is_over and self._end_sample < self._samples:
            self._end()  # the original is longer, so its text had ended; a trace does not record that
            self._await_samples(self._samples)
        self.utterance.cancel()

    def _await_samples(self, samples: int) -> None:
        """Wait until ``samples`` samples have been made, or no event has come for ``_IDLE_S``."""
        count = -1
        while count != self._count:
            count = self._count
            self._await(lambda count=count: self._end_sample >= samples or self._count > count, _IDLE_S)
            if self._end_sample >= samples:
                return

    def _await(self, condition: Callable[[], bool], timeout_s: float) -> None:
        with self._changed:
            self._changed.wait_for(lambda: self._is_over or condition(), timeout=timeout_s)


def _revision_differences(before: Sequence[tuple[int, int]], after: Sequence[tuple[int, int]]) -> list[str]:
    """Revisions that kept a different number of samples or words than in the original."""
    pairs = enumerate(zip_longest(before, after), 1)
    return [
        f"revision {number} kept {_kept_part(then)} then, and keeps {_kept_part(now)} now"
        for number, (then, now) in pairs
        if then != now
    ]


def _kept_part(revision: tuple[int, int] | None) -> str:
    return "nothing (there was none)" if revision is None else f"{revision[0]:,} samples and {revision[1]} words"


def _option_changes(events: Sequence[ev.Event]) -> list[str]:
    if not any(isinstance(event, ev.OptionsChanged) for event in events):
        return []
    return ["its options were changed while it was spoken; the replay uses the first ones, so samples may differ"]


def _provenance_differences(before: Mapping[str, Any], after: Mapping[str, Any]) -> list[str]:
    """Differences in provenance."""
    pairs = ((name, before.get(name), after.get(name)) for name in _PROVENANCE)
    return [f"{name} was {_short(then)}, is {_short(now)}" for name, then, now in pairs if then != now]


def _short(value: object) -> str:
    if isinstance(value, Mapping):
        pairs = sorted((to_printable(name, 40), to_printable(one, 12)) for name, one in value.items())
        return ", ".join(f"{name} {one}" for name, one in pairs)
    return to_printable(value, 80) if value is not None else "unknown"
