"""Replay: speak a trace's text again and compare every sample."""

import math
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
from studio.markup.stretched import IDLE_MS, StretchedUtterance

_SEGMENT_TIMEOUT_S = 60.0  # a replay that diverged may never make the awaited segment
_UNLIMITED = 2**53  # samples
_IDLE_S = 5.0  # without events, until an utterance without an end is assumed to wait for text
_POLL_S = 0.02  # sound that a stretcher holds back comes without an event
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
    kept has been made. At another speed, pauses of the voice change it, too. Changes of options within the utterance
    are not replayed, but listed in ``differences``.

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
    utterance = engine.open(replace(before.request, credit_samples=0))
    was_stopped = any(isinstance(one, ev.Cancelled | ev.Failed) for one in before.events)
    again = _ReplaySender(utterance, steps, len(before.pcm), was_cut=was_cut, was_stopped=was_stopped)
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
            *_option_changes(before.events),
            *_provenance_differences(before.meta, after.meta),
        ),
    )
    if result.is_same:
        return result
    revised = _revision_differences(revisions(before.events), revisions(after.events))
    return replace(result, differences=(*revised, *_seams(before.events, speed), *result.differences))


def _seams(events: Sequence[ev.Event], speed: float) -> list[str]:
    """Why sound at another speed may differ: the stretcher ended within it, where the replay lets it go on."""
    last_ms, reasons = math.inf, dict[str, None]()
    for event in events if speed != 1.0 else ():
        if isinstance(event, ev.Revised):
            last_ms = math.inf
            reasons["at another speed the last 0.1 s before a revision depend on how far the voice was ahead"] = None
        elif isinstance(event, ev.Audio):
            if event.t_ms - last_ms > IDLE_MS - 1.0:
                reasons["the voice paused, which leaves seams at another speed; the replay has none"] = None
            last_ms = event.t_ms
    return [f"{one}, so samples may differ" for one in reasons]


class _ReplaySender:
    """Sends the steps of a script to an utterance from a separate thread.

    Args:
        utterance: opened without credit, so that nothing is spoken before the first texts.
        samples: length of the original.
        was_cut: whether the original was stopped early; then the replay is cancelled at that length.
        was_stopped: whether it says so: then a stretcher has sent what it held back.
    """

    def __init__(
        self, utterance: Utterance, steps: Sequence[ReplayStep], samples: int, *, was_cut: bool, was_stopped: bool
    ) -> None:
        self.utterance = utterance
        self._stretched = utterance if isinstance(utterance, StretchedUtterance) else None
        self._credit = samples if self._stretched is not None and was_stopped else _UNLIMITED  # after the last step
        self.refused: list[str] = []  # inputs that the utterance refused, a sentence each
        self._steps, self._samples, self._was_cut = steps, samples, was_cut
        self._changed = threading.Condition()
        self._count = self._end_sample = 0  # events; end of the sound so far
        self._segment_starts: list[int] = []  # first samples of segments
        self._is_over = self._is_ended = False
        self._revisions = sum(step.kind == "revise" for step in steps)  # that are to come

    def events(self) -> Iterator[ev.Event]:
        """Send the steps and yield the utterance's events."""
        sender = threading.Thread(target=self._send, daemon=True)
        sender.start()
        for event in self.utterance.events():
            with self._changed:
                self._note(event)
                self._changed.notify_all()
            yield event
            if self._was_cut and isinstance(event, ev.Audio) and self._is_at_cut():
                self._is_over = True  # an input that is sent from now on changes no sample
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
            self._revisions -= 1
            self._end_sample = event.from_sample
            self._segment_starts = [sample for sample in self._segment_starts if sample < event.from_sample]

    def _is_at_cut(self) -> bool:
        """Whether the sound is as long as the original; before a revision it may have been longer."""
        return self._end_sample >= self._samples and self._revisions <= 0

    def _send(self) -> None:
        try:
            with self._changed:  # wait for the slot: until then, text cancels an earlier flush
                self._changed.wait_for(lambda: self._count > 0, timeout=_SEGMENT_TIMEOUT_S)
            for at, step in enumerate(self._steps):
                if step.kind in ("until", "revise"):
                    self._grant_to_revision(at)
                self._do(step)
            self.utterance.grant(self._credit)
            if self._was_cut:
                self._cut()
        except StudioError as error:
            if not self._is_over:
                self.refused.append(f"an input of the original is refused now: {error}")
                self.utterance.cancel()

    def _grant_to_revision(self, at: int) -> None:
        """Grant samples up to the next revision, or those after the last step."""
        sample = next((step.sample for step in self._steps[at:] if step.kind == "revise"), self._credit)
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
        self._reach(step.sample)
        if step.runs_on and self._stretched is not None:
            self._run_on(step.sample, self._stretched)
        margin = round(2 * PLAYED_REPORT_MS * self.utterance.card.sample_rate_hz / 1000)
        if self._stretched is not None:
            margin += 1  # a sample may stand for two of the voice: none after the revision's counts as played
        self.utterance.played(max(0, step.sample - margin))  # so that nothing before it is revised
        self.utterance.revise(step.char, step.text)

    def _end(self) -> None:
        if not self._is_ended:
            self._is_ended = True
            self.utterance.end()

    def _cut(self) -> None:
        self._reach(self._samples, is_sent=self._credit == _UNLIMITED)
        self.utterance.cancel()

    def _run_on(self, sample: int, stretched: StretchedUtterance) -> None:
        """Let the voice go on, a frame at a time, until what is kept was sent: else the stretcher would end there."""
        frame_samples = math.ceil(stretched.card.frame_samples / stretched.provenance["speed"])
        while stretched.sent_samples < sample and not self._is_over:
            made = stretched.made_samples
            self.utterance.grant(made + frame_samples)
            self._reach(made + 1)
            if stretched.made_samples == made:
                return

    def _reach(self, samples: int, *, is_sent: bool = False) -> None:
        """Wait for samples; where the voice stops before, the original's text had ended, which no trace records."""
        self._await_samples(samples, is_sent)
        if not self._is_over and not self._is_made(samples, is_sent):
            self._end()
            self._await_samples(samples, is_sent)

    def _await_samples(self, samples: int, is_sent: bool) -> None:
        """Wait until ``samples`` samples were made, or also sent, or until no event came for a while."""
        idle_s = 0.0
        while not self._is_over and not self._is_made(samples, is_sent) and idle_s < _IDLE_S:
            count = self._count
            self._await(lambda count=count: self._is_made(samples, is_sent) or self._count > count, _POLL_S)
            idle_s = 0.0 if self._count > count else idle_s + _POLL_S

    def _is_made(self, samples: int, is_sent: bool = False) -> bool:
        """Whether the voice has made them; a stretcher sends the last ones later."""
        made = self._end_sample if self._stretched is None or is_sent else self._stretched.made_samples
        return made >= samples

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
