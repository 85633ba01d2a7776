"""Teacher forcing for families: run a net on given frames, segment by segment.

The family's own row plans the inputs, as in synthesis, so segmentation and context follow the same policy.
"""

from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Protocol, runtime_checkable

import numpy as np
from torch import Tensor

from studio.core.errors import BadFile
from studio.core.events import Eos, Event, Frames, Segment
from studio.engine.families.base import ModuleInput, Row
from studio.engine.families.common.rows import FrameOutput, sigmoid

NO_WORD = -1  # of a token that belongs to no word
NO_LIMIT = 1 << 30  # frames, for rows without a limit
MAX_SEGMENT_FRAMES = 2000  # the attention matrices of such a segment, frames by frames, take half a gigabyte


@dataclass(frozen=True)
class TracedSegment:
    """A segment of a recorded trace.

    Attributes:
        words, seen: its spoken words, and those that the net saw.
        first, stop: its first frame, and the frame after its last one.
        spoke: the frame after its last word, where a pause may begin; None if unknown.
        options: the options when it was planned.
        flushed: whether a flush, and not the end of the text, shortened its window.
    """

    words: range
    seen: range
    first: int
    stop: int
    spoke: int | None
    options: Mapping[str, Any]
    flushed: bool


@dataclass(frozen=True)
class TeacherForcingInput:
    """Frames and the words spoken in them.

    Attributes:
        words: spoken words.
        frames: [F, ...] of the voice's acoustic tokenizer.
        spoken: the segments of a trace; empty if the whole text is available from the start.
        word_starts, word_ends: first frame of each word, and the frame after its last; empty if the net decides.
        lead: number of frames before speech, in which no segment ends.
        seed: for nets that also sample something other than frames.
    """

    words: Sequence[str]
    frames: np.ndarray = field(repr=False)
    speaker: int
    options: Mapping[str, Any]
    spoken: Sequence[TracedSegment] = ()
    word_starts: Sequence[int] = ()
    word_ends: Sequence[int] = ()
    lead: int = 0
    seed: int = 0


@dataclass(frozen=True, eq=False)
class TeacherForcedSegment:
    """A net's outputs for one segment of n frames.

    Attributes:
        first: index of its first frame.
        word: the spoken word of column 0 of ``by_layer``.
        by_layer: float32 [L, n, K], see ``studio.core.traces.teacher_forcing.TeacherForcingResult``.
        p_eos, log_likelihood: float32 [n].
        forced: whether a limit or the given word times ended it, not the net.
        events: segment, words and end as the row reports them, without frames.
    """

    index: int
    first: int
    word: int
    by_layer: np.ndarray
    p_eos: np.ndarray
    log_likelihood: np.ndarray
    forced: bool
    events: Sequence[Event]


@runtime_checkable
class TeacherForcedFamily(Protocol):
    """A family that supports teacher forcing.

    Attributes:
        attends_to: description of the columns of its attention.
    """

    attends_to: str

    def teacher_force(self, recording: TeacherForcingInput) -> Iterator[TeacherForcedSegment]:
        """Yields segments until the frames or the words end. Raises BadFile, BadOption."""
        ...


class TextSchedule:
    """Commits the text to a row as the recorded utterance received it."""

    def __init__(self, row: Row, recording: TeacherForcingInput) -> None:
        self._row, self._recording = row, recording
        self._committed = self._segment = 0
        if not recording.spoken:
            row.commit(recording.words)
            row.end()

    def next_input(self) -> ModuleInput | None:
        """The input of the row's next segment; None after the last."""
        recording, row = self._recording, self._row
        if not recording.spoken:
            return row.next_input()
        if self._segment == len(recording.spoken):
            return None
        one = recording.spoken[self._segment]
        row.set_options(one.options, None)
        row.commit(recording.words[self._committed : one.seen.stop])
        self._committed = max(self._committed, one.seen.stop)
        next_input = row.next_input()
        if next_input is None:
            if one.flushed:
                row.flush()
            else:
                row.end()
            next_input = row.next_input()
        if next_input is None:
            raise segment_mismatch(self._segment)
        return next_input

    def stop(self, first: int, words: range, least: int = 1) -> int | None:
        """The frame after the last of a segment that speaks these words; None if the net decides.

        Args:
            least: minimum number of frames.
        """
        recording, total = self._recording, len(self._recording.frames)
        if recording.spoken:
            return min(total, max(first + least, recording.spoken[self._segment].stop))
        if words.stop == len(recording.words):
            return total
        if not recording.word_ends:
            return None
        return min(total, max(first + least, recording.word_ends[words.stop - 1]))

    def check_segment(self, events: Sequence[Event]) -> None:
        """Check a started segment against the trace. Raises BadFile if they differ."""
        if self._recording.spoken:
            one = self._recording.spoken[self._segment]
            started = next(event for event in events if isinstance(event, Segment))
            if (started.words, started.seen) != ([*one.words], [*one.seen]):
                raise segment_mismatch(self._segment)
        self._segment += 1


def segment_mismatch(segment: int) -> BadFile:
    """A segment of the trace differs from the one that the family's policy plans."""
    return BadFile(
        f"segment {segment} of the trace saw other words than its options and its text allow",
        "it was changed in a way that the trace does not record",
    )


class TeacherForcingRun(ABC):
    """One pass over given frames; the row plans the inputs.

    Args:
        row: without slots and without a limit of frames per segment, since a given pause may be long.
    """

    def __init__(self, row: Row, recording: TeacherForcingInput) -> None:
        self._recording, self._schedule = recording, TextSchedule(row, recording)
        self._index = 0  # of the current segment

    def segments(self) -> Iterator[TeacherForcedSegment]:
        """See ``TeacherForcedFamily.teacher_force``."""
        first = 0
        while first < len(self._recording.frames) and (next_input := self._schedule.next_input()) is not None:
            one = self._segment(first, next_input.inputs)
            self._schedule.check_segment(one.events)
            yield one
            first, self._index = first + len(one.p_eos), self._index + 1

    @abstractmethod
    def _segment(self, first: int, fed: Any) -> TeacherForcedSegment:
        """Run the segment that begins at frame ``first`` with an input."""

    def _planned_frames(
        self, first: int, words: range, longest_word: int, most: int | None = MAX_SEGMENT_FRAMES
    ) -> tuple[np.ndarray, int | None]:
        """The frames [n, ...] that a segment of these words may take, and ``TextSchedule.stop``. Raises BadFile."""
        stop = self._schedule.stop(first, words)
        return self._frames(first, stop, longest_word * len(words), most), stop

    def _frames(self, first: int, stop: int | None, longest: int, most: int | None = MAX_SEGMENT_FRAMES) -> np.ndarray:
        """The frames [n, ...] that a segment may take: up to ``stop``, or ``longest`` if the net decides.

        Raises BadFile if there are more than ``most``, for nets whose frames attend to frames.
        """
        frames = self._recording.frames[first : first + longest if stop is None else stop]
        if most is not None and len(frames) > most:
            raise BadFile(
                f"the words that begin with frame {first} would have {len(frames):,} frames, and {most:,} is the most",
                "give the text of all that is said, and cut long pauses out",
            )
        return frames

    def _end(self, ended: np.ndarray, first: int) -> int:
        """Number of frames of a segment that the net ends; ``ended`` bool [n]: whether it has ended after each one."""
        may = np.flatnonzero(ended & (np.arange(first, first + len(ended)) >= self._recording.lead))
        return int(may[0]) + 1 if len(may) else len(ended)

    def _result(
        self,
        first: int,
        word: int,
        by_layer: np.ndarray,
        p_eos: np.ndarray,
        likelihood: np.ndarray,
        events: Sequence[Event],
        *,
        forced: bool,
    ) -> TeacherForcedSegment:
        """The current segment, see ``TeacherForcedSegment``; its events get the net's own probability of the end."""
        if len(p_eos):
            events = with_predicted_eos(events, float(p_eos[-1]), forced=forced)
        p_eos = p_eos.astype(np.float32)
        return TeacherForcedSegment(self._index, first, word, by_layer, p_eos, likelihood, forced, events)


def replay(row: Row, outputs: Iterable[Any]) -> list[Event]:
    """Pass the outputs of its planned segment to a row; returns its events without frames."""
    events = list[Event]()
    for one in outputs:
        row.next_input()
        output = row.on_output(one)
        events += (*output.before, *output.after)
    return [event for event in events if not isinstance(event, Frames)]


def replay_frames(row: Row, frames: np.ndarray, *, ends: bool = True) -> list[Event]:
    """``replay`` of frames [n, ...] for a row that expects ``FrameOutput``; ``ends``: the end follows them."""
    outputs = [FrameOutput(frame[None], 0.0, True) for frame in frames]
    end = [FrameOutput(np.zeros((1, *frames.shape[1:]), np.uint8), 1.0, True)] if ends else []
    return replay(row, [*outputs, *end])


def eos_probabilities(logits: Tensor) -> np.ndarray:
    """p_eos of the logits [n], float32 [n], rounded as in synthesis."""
    return np.array([sigmoid(one) for one in logits.float().cpu().numpy()], np.float32)


def with_predicted_eos(events: Sequence[Event], p: float, *, forced: bool) -> list[Event]:
    """A row's events with the net's own probability of the end."""
    return [replace(one, p=p, forced=forced) if isinstance(one, Eos) else one for one in events]


def sum_by_word(shares: np.ndarray, words: np.ndarray, columns: range) -> np.ndarray:
    """Attention to tokens [L, n, T] summed by the word of each token, int [T]: float32 [L, n, K] for ``columns``."""
    by_layer = np.zeros((*shares.shape[:2], len(columns)), np.float32)
    for k, word in enumerate(columns):
        by_layer[..., k] = shares[..., words == word].sum(-1)
    return by_layer
