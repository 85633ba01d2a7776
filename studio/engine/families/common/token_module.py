"""The module of frame families on a GPU: one token of each decoding row and the prefills of new rows in one step.

The first frame of a new row takes one step, however many rows are running (instant request pooling of paper 004,
section 3). A long prefill is split into chunks, so that other rows wait for it no longer than one step.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Protocol

import numpy as np
import torch

from studio.engine.families.base import PENDING
from studio.engine.families.common.rows import FrameOutput, sigmoids
from studio.engine.families.common.runner import FrameSlots
from studio.engine.nets.cuda.frame_step import (
    MAX_TOKENS,
    NO_ROW,
    FrameStep,
    StepFrames,
    TokenBatch,
    TokenRows,
)
from studio.engine.nets.cuda.graphs import MAX_FRAMES, MAX_ROWS, padded_rows
from studio.engine.nets.kv_cache import KVCache

MAX_CHUNK = 256  # tokens of one row in a step


def max_tokens(cache: KVCache) -> int:
    """Tokens of a step: a chunk of a prefill and a token of each slot, a power of two up to ``MAX_TOKENS``."""
    return min(MAX_TOKENS, padded_rows(MAX_CHUNK + cache.slots))


class TokenPlanner(Protocol):
    """How a family turns the inputs of its rows into tokens, for ``TokenModule``."""

    def cache(self, slots: Any) -> KVCache:
        """The KV cache of the decoder."""
        ...

    def prefill(self, slots: Any, slot: int, row_input: Any) -> TokenRows:
        """Apply a prefill's input to its slot (first and next position, sampling), and return its tokens."""
        ...

    def feedback(self, slots: Any, numbers: np.ndarray) -> TokenRows:
        """The tokens that feed back the last frame of each slot, int64 [B]."""
        ...

    def output(self, frame: FrameOutput, attended: np.ndarray | None) -> Any:
        """The output that the family's row gets."""
        ...


@dataclass
class _Prefill:
    """A prefill in progress."""

    row_input: Any
    tokens: TokenRows
    done: int = 0


class TokenModule:
    """Runs all inputs of a family's rows in one batch of tokens; see ``studio.engine.families.base.Module``.

    A row's output is PENDING until its prefill has been fed completely.
    """

    max_rows = MAX_ROWS

    def __init__(self, step: FrameStep, planner: TokenPlanner, max_frames: int = MAX_FRAMES) -> None:
        self.step, self._planner, self.max_frames = step, planner, max_frames
        self._prefills: dict[int, _Prefill] = {}

    def capture_steps(self) -> list[Callable[[], None]]:
        """See ``studio.engine.families.base.SupportsCapture``."""
        step = self.step
        return [
            partial(step.capture, size, is_mixed=mixed) for mixed in (False, True) for size in step.sizes(mixed=mixed)
        ]

    @torch.inference_mode()
    def run(
        self, slots: FrameSlots, rows: Sequence[tuple[int, ...]], inputs: Sequence[Any], frames: int = 1
    ) -> list[Any]:
        """One step of several rows; ``None`` feeds back a row's last frame. Raises ContextFull.

        With several ``frames``, all inputs are None and each row's output is a list.
        """
        assert frames == 1 or all(row_input is None for row_input in inputs), "a prefill samples one frame"
        numbers = [slot for slot, *_ in rows]
        decoding = [b for b, row_input in enumerate(inputs) if row_input is None]
        filling = [b for b, row_input in enumerate(inputs) if row_input is not None]
        room, parts = self.step.max_tokens - len(decoding), list[tuple[int, _Prefill, int]]()
        for b in filling:
            prefill = self._prefill(slots, numbers[b], inputs[b])
            count = min(len(prefill.tokens) - prefill.done, MAX_CHUNK, room)
            if count:
                parts.append((b, prefill, count))
                room -= count
        steps, sampled = self._run(slots, numbers, decoding, parts, frames)
        if frames > 1:
            return [*map(list, zip(*(self._outputs(one, sampled) for one in steps), strict=True))]
        outputs: list[Any] = [PENDING] * len(rows)
        done = [*decoding, *(b for b, prefill, _ in parts if prefill.done == len(prefill.tokens))]
        for b, output in zip(done, self._outputs(steps[0], sampled), strict=True):
            outputs[b] = output
            self._prefills.pop(numbers[b], None)
        return outputs

    def _outputs(self, frames: StepFrames, sampled: np.ndarray) -> list[Any]:
        """The outputs of the sampled tokens of a step."""
        probabilities = sigmoids(frames.end[sampled]).tolist()
        finite, outputs = np.isfinite(frames.check[sampled]).tolist(), list[Any]()
        for at, p, is_finite in zip(sampled.tolist(), probabilities, finite, strict=True):
            frame = FrameOutput(frames.levels[at : at + 1], p, is_finite)
            outputs.append(self._planner.output(frame, None if frames.attended is None else frames.attended[at]))
        return outputs

    def _prefill(self, slots: FrameSlots, slot: int, row_input: Any) -> _Prefill:
        """The prefill in progress of a slot, or a new one: a row requests the same input until it has its output."""
        prefill = self._prefills.get(slot)
        if prefill is None or prefill.row_input is not row_input:
            prefill = _Prefill(row_input, self._planner.prefill(slots, slot, row_input))
            cache = self._planner.cache(slots)
            start, length = cache.bounds_arrays
            cache.check_room(int(start[slot]), int(length[slot]) + len(prefill.tokens))
            self._prefills[slot] = prefill
        return prefill

    def _run(
        self,
        slots: FrameSlots,
        numbers: list[int],
        decoding: list[int],
        parts: list[tuple[int, _Prefill, int]],
        frames: int,
    ) -> tuple[list[StepFrames], np.ndarray]:
        """Run a token of each decoding row and a part of each prefill; then their lengths grow.

        Returns:
            The frames of each step, and the indices of the tokens that were sampled for a row.
        """
        cache = self._planner.cache(slots)
        start, length = cache.bounds_arrays
        slot = np.array([numbers[b] for b in decoding], np.int64)
        if len(slot):
            longest = slot[np.argmax(length[slot] - start[slot])]
            cache.check_room(int(start[longest]), int(length[longest]) + frames)
        counts = [1] * len(decoding) + [count for _, _, count in parts]
        of_row = np.array([*slot, *(numbers[b] for b, _, _ in parts)], np.int64)
        all_slots = np.repeat(of_row, counts)
        last = np.cumsum(counts) - 1
        offset = np.arange(len(all_slots)) - np.repeat(last + 1 - counts, counts)
        is_sampled = np.ones(len(counts), bool)
        is_sampled[len(decoding) :] = [p.done + count == len(p.tokens) for _, p, count in parts]
        target = np.full(len(all_slots), NO_ROW, np.int64)
        target[last[is_sampled]] = of_row[is_sampled]
        tokens = [self._planner.feedback(slots, slot)] if len(slot) else []
        tokens += [prefill.tokens.part(prefill.done, prefill.done + count) for _, prefill, count in parts]
        noise = slots.noise
        batch = TokenBatch(
            TokenRows.join(tokens),
            all_slots,
            length[all_slots] + offset,
            start[all_slots],
            target,
            noise.seed[all_slots],
            noise.frame[all_slots],
            slots.temperature.numpy()[all_slots],
            is_mixed=bool(parts),
        )
        steps = self.step.run(batch, frames)
        length[of_row] += np.array(counts) * frames
        noise.frame[of_row[is_sampled]] += frames
        for _, prefill, count in parts:
            prefill.done += count
        return steps, last[is_sampled]

    def feed(self, slots: FrameSlots, slot: int, tokens: TokenRows) -> None:
        """Feed tokens of one slot now, without sampling."""
        cache = self._planner.cache(slots)
        start, length = cache.bounds_arrays
        for first in range(0, len(tokens), MAX_CHUNK):
            part = tokens.part(first, min(first + MAX_CHUNK, len(tokens)))
            zeros, ones = np.zeros(len(part), np.int64), np.ones(len(part), np.int64)
            position = int(length[slot]) + np.arange(len(part))
            cache.check_room(int(start[slot]), int(position[-1]) + 1)
            batch = TokenBatch(
                part, slot * ones, position, int(start[slot]) * ones, NO_ROW * ones, zeros, zeros, zeros, is_mixed=True
            )
            self.step.run(batch)
            length[slot] += len(part)
