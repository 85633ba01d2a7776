"""Making an utterance again from its trace, and telling what differs."""

import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import zip_longest
from typing import Any

import numpy as np

from studio.core import events as ev
from studio.core.errors import BadFile, StudioError
from studio.core.ports import Engine, Utterance
from studio.core.printable import printable
from studio.core.traces.trace import Trace, collect
from studio.engine.utterances.callers import REPORT_MS
from studio.replay_script import Step, revisions, script

_PATIENCE_S = 60.0  # until a segment must have come; a replay that went another way never makes it
_NO_LIMIT = 2**53  # samples
_STILL_S = 5.0  # after which what has no end will not go on
_COMPUTED_BY = ("git_sha", "versions", "device", "threads", "dtype", "vocoder", "checkpoint_sha256")


@dataclass(frozen=True)
class Replay:
    """A trace made again.

    Attributes:
        trace: what was made now.
        samples: that both have.
        first_difference: the first sample that differs, None where all of ``samples`` are the same.
        is_whole: whether both have equally many samples, or the first was broken off.
        differences: in what made them, a sentence each.
    """

    trace: Trace
    samples: int
    first_difference: int | None
    is_whole: bool
    differences: tuple[str, ...]

    @property
    def is_same(self) -> bool:
        """Whether every sample is the same, bit for bit."""
        return self.first_difference is None and self.is_whole


def replay(engine: Engine, before: Trace) -> Replay:
    """Speak a trace's text again, as it was sent: same voice, seed, temperature and options.

    When text came does not change a sample, but a flush and a revision do: what a flush made the voice say early is
    said of as much text as was there then, and a revision comes when what it left of the sound has been made. Options
    that were changed in mid-speech are not followed: those of the start are used, and ``differences`` says so.

    Raises:
        BadFile: the trace does not say how it was spoken, or holds nothing.
        BadVoice, BadOption: the voice is not here, or takes no such options.
    """
    if not before.events:
        raise BadFile("the trace holds no events", "nothing was spoken")
    was_cut = not isinstance(before.events[-1], ev.Ended) or any(isinstance(one, ev.Cancelled) for one in before.events)
    steps = script(before.events, ends=not was_cut)
    again = _Again(engine.open(replace(before.request, credit_samples=0)), steps, len(before.pcm), was_cut=was_cut)
    after = collect(dict(again.utterance.provenance), again.events())
    samples = min(len(before.pcm), len(after.pcm))
    wrong = np.flatnonzero(before.pcm[:samples] != after.pcm[:samples])
    found = Replay(
        trace=after,
        samples=samples,
        first_difference=int(wrong[0]) if len(wrong) else None,
        is_whole=samples == len(before.pcm) and (was_cut or samples == len(after.pcm)),
        differences=(*again.refused, *_not_followed(before.events), *_computed_otherwise(before.meta, after.meta)),
    )
    if found.is_same:
        return found
    revised = _revised_otherwise(revisions(before.events), revisions(after.events))
    return replace(found, differences=(*revised, *found.differences))


class _Again:
    """Sends the steps of a script to an utterance, each in its time, from a thread of its own.

    Args:
        utterance: without credit, until the first texts are there.
        samples: of what is to be made again; the rest is broken off where that was.
    """

    def __init__(self, utterance: Utterance, steps: Sequence[Step], samples: int, *, was_cut: bool) -> None:
        self.utterance = utterance
        self.refused: list[str] = []  # what the utterance would not take, a sentence each
        self._steps, self._samples, self._was_cut = steps, samples, was_cut
        self._came = threading.Condition()
        self._count = self._made = 0  # events, and samples in force
        self._begun: list[int] = []  # samples with which segments began
        self._is_over = self._is_ended = False

    def events(self) -> Iterator[ev.Event]:
        """Every event of the utterance, while the steps are sent."""
        sender = threading.Thread(target=self._send, daemon=True)
        sender.start()
        for event in self.utterance.events():
            with self._came:
                self._note(event)
                self._came.notify_all()
            yield event
            if self._was_cut and isinstance(event, ev.Audio) and self._made >= self._samples:
                self.utterance.cancel()
        sender.join()

    def _note(self, event: ev.Event) -> None:
        self._count += 1
        self._is_over = ev.is_last(event)
        if isinstance(event, ev.Audio):
            self._made = event.sample + len(event.pcm)
        elif isinstance(event, ev.Segment):
            self._begun.append(event.sample)
        elif isinstance(event, ev.Revised):
            self._made = event.from_sample
            self._begun = [sample for sample in self._begun if sample < event.from_sample]

    def _send(self) -> None:
        try:
            with self._came:  # a flush that is sent to a voice that has no place yet is forgotten when text follows
                self._came.wait_for(lambda: self._count > 0, timeout=_PATIENCE_S)
            for at, step in enumerate(self._steps):
                if step.kind in ("until", "revise"):
                    self._let_speak(at)
                self._do(step)
            self.utterance.grant(_NO_LIMIT)
            if self._was_cut:
                self._break_off()
        except StudioError as error:
            if not self._is_over:
                self.refused.append(f"what was sent then is not taken now: {error}")
                self.utterance.cancel()

    def _let_speak(self, at: int) -> None:
        """Up to the next revision, which must find no more than it left."""
        sample = next((step.sample for step in self._steps[at:] if step.kind == "revise"), _NO_LIMIT)
        self.utterance.grant(sample)

    def _do(self, step: Step) -> None:
        if step.kind == "text":
            self.utterance.push_text(step.text)
        elif step.kind == "flush":
            self.utterance.flush()
        elif step.kind == "end":
            self._end()
        elif step.kind == "until":
            self._await(lambda: len(self._begun) > step.until, _PATIENCE_S)
        else:
            self._revise(step)

    def _revise(self, step: Step) -> None:
        self._await_stillness(step.sample)
        if self._made < step.sample:
            self._end()  # more was made before: the end had come, which a trace does not tell
            self._await_stillness(step.sample)
        margin = round(2 * REPORT_MS * self.utterance.card.sample_rate_hz / 1000)
        self.utterance.played(max(0, step.sample - margin))  # so nothing before it is taken back
        self.utterance.revise(step.char, step.text)

    def _end(self) -> None:
        if not self._is_ended:
            self._is_ended = True
            self.utterance.end()

    def _break_off(self) -> None:
        self._await_stillness(self._samples)
        if not self._is_over and self._made < self._samples:
            self._end()  # more was made of this text: its end had come, which a trace does not tell
            self._await_stillness(self._samples)
        self.utterance.cancel()

    def _await_stillness(self, samples: int) -> None:
        """Until so much has been made, or nothing came for a while: what was broken off may have waited for text."""
        count = -1
        while count != self._count:
            count = self._count
            self._await(lambda count=count: self._made >= samples or self._count > count, _STILL_S)
            if self._made >= samples:
                return

    def _await(self, there: Callable[[], bool], patience_s: float) -> None:
        with self._came:
            self._came.wait_for(lambda: self._is_over or there(), timeout=patience_s)


def _revised_otherwise(before: Sequence[tuple[int, int]], after: Sequence[tuple[int, int]]) -> list[str]:
    """Where a revision left another part of the sound, or of the words, than it did."""
    pairs = enumerate(zip_longest(before, after), 1)
    return [
        f"revision {number} left {_left(then)} then, and leaves {_left(now)} now"
        for number, (then, now) in pairs
        if then != now
    ]


def _left(revision: tuple[int, int] | None) -> str:
    return "nothing, for there was none," if revision is None else f"{revision[0]:,} samples and {revision[1]} words"


def _not_followed(events: Sequence[ev.Event]) -> list[str]:
    if not any(isinstance(event, ev.Options) for event in events):
        return []
    return ["its options were changed while it was spoken: those of its start are used here, so samples may differ"]


def _computed_otherwise(before: Mapping[str, Any], after: Mapping[str, Any]) -> list[str]:
    """Every part of the provenance that is another one, both told."""
    pairs = ((name, before.get(name), after.get(name)) for name in _COMPUTED_BY)
    return [f"{name} was {_short(then)}, is {_short(now)}" for name, then, now in pairs if then != now]


def _short(value: object) -> str:
    if isinstance(value, Mapping):
        pairs = sorted((printable(name, 40), printable(one, 12)) for name, one in value.items())
        return ", ".join(f"{name} {one}" for name, one in pairs)
    return printable(value, 80) if value is not None else "not told"
