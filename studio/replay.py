"""Making an utterance again from its trace, and telling what differs."""

import re
import threading
from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np

from studio.core import events as ev
from studio.core.errors import BadFile
from studio.core.ports import Engine, Utterance
from studio.core.text.typography import WHITE, printable
from studio.core.traces.trace import Trace, collect

_PATIENCE_S = 60.0  # until a segment must have come; a replay that went another way never makes it
_NO_LIMIT = 2**53  # samples
_STILL_S = 5.0  # after which what has no end will not go on
_SPACE = re.compile(f"[{WHITE}]")
_COMPUTED_BY = ("git_sha", "versions", "device", "threads", "dtype", "vocoder", "checkpoint_sha256")


@dataclass(frozen=True)
class Step:
    """What is sent next: text (``text``), a ``flush``, the ``end``, or nothing until segment ``until`` has begun."""

    kind: Literal["text", "flush", "end", "until"]
    text: str = ""
    until: int = 0


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

    When text came does not change a sample, but a flush does: what it made the voice say early is said of as much text
    as was there then. Options that were changed in mid-speech, and what was revised, are not followed: the options
    of the start and the text of the end are spoken, and ``differences`` says so.

    Raises:
        BadFile: the trace does not say how it was spoken, or holds nothing.
        BadVoice, BadOption: the voice is not here, or takes no such options.
    """
    if not before.events:
        raise BadFile("the trace holds no events", "nothing was spoken")
    was_cut = not isinstance(before.events[-1], ev.Ended) or any(isinstance(one, ev.Cancelled) for one in before.events)
    steps = script(before.events, ends=not was_cut)
    utterance = engine.open(replace(before.request, credit_samples=0))  # until the first texts are there
    about = dict(utterance.provenance)
    came = threading.Condition()
    last_begun = -1
    made: list[ev.Event] = []

    def is_begun(segment: int) -> bool:
        return last_begun >= segment

    def is_over() -> bool:
        return bool(made) and ev.is_last(made[-1])

    def is_still() -> bool:
        """Whether nothing has come for a while; what was broken off may have been about to wait for text."""
        count = len(made)
        with came:
            return not came.wait_for(lambda: len(made) > count, timeout=_STILL_S)

    def await_stillness() -> None:
        while not is_over() and not is_still():
            pass

    def made_samples() -> int:
        return max((one.sample + len(one.pcm) for one in made if isinstance(one, ev.Audio)), default=0)

    def send() -> None:
        with came:  # a flush that is sent to a voice that has no place yet is forgotten when text follows
            came.wait_for(lambda: bool(made), timeout=_PATIENCE_S)
        held = next((at for at, step in enumerate(steps) if step.kind == "until"), len(steps))
        for at, step in enumerate(steps):
            if at == held:
                utterance.grant(_NO_LIMIT)
            if step.kind == "until":
                with came:
                    came.wait_for(lambda step=step: is_begun(step.until), timeout=_PATIENCE_S)
            else:
                _send(utterance, step)
        utterance.grant(_NO_LIMIT)
        if was_cut:
            await_stillness()
            if not is_over() and made_samples() < len(before.pcm):
                utterance.end()  # more was made of this text: its end had come, which a trace does not tell
                await_stillness()
            utterance.cancel()

    sender = threading.Thread(target=send, daemon=True)
    sender.start()
    for event in utterance.events():
        with came:
            made.append(event)
            if isinstance(event, ev.Segment) or ev.is_last(event):
                last_begun = event.index if isinstance(event, ev.Segment) else len(before.events)
            came.notify_all()
        if was_cut and isinstance(event, ev.Audio) and event.sample + len(event.pcm) >= len(before.pcm):
            utterance.cancel()
    sender.join()
    after = collect(about, made)
    samples = min(len(before.pcm), len(after.pcm))
    wrong = np.flatnonzero(before.pcm[:samples] != after.pcm[:samples])
    return Replay(
        trace=after,
        samples=samples,
        first_difference=int(wrong[0]) if len(wrong) else None,
        is_whole=samples == len(before.pcm) and (was_cut or samples == len(after.pcm)),
        differences=(*_not_followed(before.events), *_computed_otherwise(before.meta, after.meta)),
    )


def script(events: Sequence[ev.Event], *, ends: bool = True) -> list[Step]:
    """What to send so that the same is said: the text in force at the end, in its pieces, flushes in their places.

    A flush stands behind the words that were committed when it was read. What it let begin before its time was planned
    of the words that were committed then: they are sent, it is waited for, and the text after it comes later.
    """
    pieces = _pieces(events)
    if any(isinstance(event, ev.Revised) for event in events):
        return [*(Step("text", piece) for piece in pieces), *_end(ends)]
    text, steps = "".join(pieces), list[Step]()
    waiting = deque(pieces)
    sent_chars = flushed = begun = awaited = 0
    word_ends: list[int] = []
    planned_of = 0  # words, what begun last

    def send_words(count: int) -> None:
        """The pieces that close so many words."""
        space = _SPACE.search(text, word_ends[count - 1]) if count else None
        send_chars(0 if not count else space.end() if space else len(text))

    def send_chars(until: int) -> None:
        nonlocal sent_chars
        while waiting and sent_chars < until:
            steps.append(Step("text", waiting[0]))
            sent_chars += len(waiting.popleft())

    def await_segment() -> None:
        nonlocal awaited
        if begun > awaited:
            send_words(planned_of)
            if steps and steps[-1].kind == "until":
                steps.pop()
            steps.append(Step("until", until=begun - 1))
            awaited = begun

    for event in events:
        if isinstance(event, ev.Committed):
            word_ends.append(event.char_end)
        elif isinstance(event, ev.Flushed):
            await_segment()  # or that would be planned after the flush
            flushed = min(max(event.words, 0), len(word_ends))
            send_words(flushed)
            steps.append(Step("flush"))
        elif isinstance(event, ev.Segment):
            begun, planned_of = begun + 1, len(word_ends)
            if not event.words or event.words[0] < flushed:
                await_segment()
    send_chars(len(text))
    return [*steps, *_end(ends)]


def _pieces(events: Sequence[ev.Event]) -> list[str]:
    """The text in force at the end, as it was sent."""
    text, pieces, sent = _text(events), list[str](), 0
    for event in events:
        if isinstance(event, ev.Text) and (until := min(event.char_start + len(event.text), len(text))) > sent:
            pieces.append(text[sent:until])
            sent = until
    return pieces


def _end(ends: bool) -> list[Step]:
    return [Step("end")] if ends else []


def _send(utterance: Utterance, step: Step) -> None:
    if step.kind == "text":
        utterance.push_text(step.text)
    elif step.kind == "flush":
        utterance.flush()
    else:
        utterance.end()


def _text(events: Sequence[ev.Event]) -> str:
    text = ""
    for event in events:
        if isinstance(event, ev.Text):
            text = text[: event.char_start] + event.text
    return text


def _not_followed(events: Sequence[ev.Event]) -> list[str]:
    kinds = {
        ev.Revised: "it was revised while it was spoken: its last text is spoken at once here, so samples differ",
        ev.Options: "its options were changed while it was spoken: those of its start are used here, so samples differ",
    }
    return [told for kind, told in kinds.items() if any(isinstance(event, kind) for event in events)]


def _computed_otherwise(before: Mapping[str, Any], after: Mapping[str, Any]) -> list[str]:
    """Every part of the provenance that is another one, both told."""
    pairs = ((name, before.get(name), after.get(name)) for name in _COMPUTED_BY)
    return [f"{name} was {_short(then)}, is {_short(now)}" for name, then, now in pairs if then != now]


def _short(value: object) -> str:
    if isinstance(value, Mapping):
        pairs = sorted((printable(name, 40), printable(one, 12)) for name, one in value.items())
        return ", ".join(f"{name} {one}" for name, one in pairs)
    return printable(value, 80) if value is not None else "not told"
