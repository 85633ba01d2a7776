"""Decoding of incremental Tacotron 2 in chunks of frames: the state of rows, and the module of both forms."""

import os
from collections.abc import Sequence
from typing import Protocol

import numpy as np
import torch
from torch import Tensor

from studio.core.events import EOS_AT
from studio.engine.families.common.rows import sigmoid
from studio.engine.families.common.runner import MAX_DECODE_ROWS
from studio.engine.families.tacotron.model import TacotronConfig
from studio.engine.families.tacotron.policy import TacotronChunk, TacotronClause, TacotronFrames
from studio.engine.nets.cuda.device import check_memory
from studio.engine.nets.kv_cache import POISON, ContextFull
from studio.engine.nets.sampling import FrameNoise
from studio.engine.tokenizers import dmel

CAPACITY_SYMBOLS = 1792
RESULT_WIDTH = 3 + dmel.CHANNELS  # of a frame


class TacotronSlots:
    """State of all rows (equation 3).

    The CUDA form has one slot more, for the padding of batches; ``encoded`` and ``keys`` are bfloat16 on a GPU.

    Attributes:
        encoded, keys: F_enc [slots, T, D] and attention keys [slots, T, A]; ``symbols`` of them are valid.
        last_shares, sum_shares: W_last and W_acc [slots, T].
        context: A [slots, D].
        attention_hidden, attention_state, decoder_hidden, decoder_state: H and C of both LSTMs [slots, R].
        last: M_last, uint8 [slots, 80].
        symbols, temperature: [slots], on the CPU.
        noise: for the levels, and for the pre-net's dropout; on the CPU.
    """

    def __init__(self, config: TacotronConfig, count: int, device: torch.device, *, is_cuda: bool = False) -> None:
        c, count = config, count + is_cuda
        dtype = torch.bfloat16 if device.type == "cuda" else torch.float32
        fill = float("nan") if os.environ.get(POISON) else 0.0
        numbers = dtype.itemsize * (c.width + c.attention_width) + 8
        check_memory(device, count, CAPACITY_SYMBOLS * numbers)

        def store(*shape: int, dtype: torch.dtype = torch.float32) -> Tensor:
            stored = torch.full((count, *shape), fill, dtype=dtype, device=device)
            if is_cuda:
                stored[-1] = 0.0
            return stored

        self.encoded = store(CAPACITY_SYMBOLS, c.width, dtype=dtype)
        self.keys = store(CAPACITY_SYMBOLS, c.attention_width, dtype=dtype)
        self.last_shares, self.sum_shares = store(CAPACITY_SYMBOLS), store(CAPACITY_SYMBOLS)
        self.context = store(c.width)
        self.attention_hidden, self.attention_state = store(c.decoder_width), store(c.decoder_width)
        self.decoder_hidden, self.decoder_state = store(c.decoder_width), store(c.decoder_width)
        self.last = torch.zeros(count, dmel.CHANNELS, dtype=torch.uint8, device=device)
        self.temperature = torch.ones(count)
        channels = 0 if is_cuda else dmel.CHANNELS + 2 * c.prenet_width  # kernels compute the noise themselves
        self.noise = FrameNoise(count, channels, torch.device("cpu"))
        self.symbols = np.zeros(count, np.int64)
        self._poison = bool(os.environ.get(POISON))

    @property
    def carried(self) -> tuple[Tensor, ...]:
        """The tensors that a frame changes."""
        lstms = (self.attention_hidden, self.attention_state, self.decoder_hidden, self.decoder_state)
        return (*lstms, self.context, self.last_shares, self.sum_shares, self.last)

    def reset(self, slot: int) -> None:
        """Give a slot to a new row; its first clause sets the rest."""
        self.noise.reset(slot)
        self.symbols[slot] = 0
        if self._poison:
            for store in (self.encoded, self.keys, *self.carried[:-1]):
                store[slot] = float("nan")

    def begin(self, slot: int, clause: TacotronClause, encoded: Tensor, keys: Tensor) -> None:
        """Start a clause in a slot: its encoder output [T, D] and keys [T, A], and initial state.

        Raises:
            ContextFull: the clause has too many symbols.
        """
        count = len(encoded)
        if count > CAPACITY_SYMBOLS:
            raise ContextFull(
                f"a clause of {count} phonemes is longer than the {CAPACITY_SYMBOLS} that a slot holds",
                "ask for fewer words of a clause",
            )
        self.encoded[slot, :count], self.keys[slot, :count] = encoded, keys
        for store in self.carried[:5]:
            store[slot] = 0.0
        self.last_shares[slot, :count] = self.sum_shares[slot, :count] = 0.0
        self.last[slot] = torch.from_numpy(clause.last)
        self.symbols[slot], self.temperature[slot] = count, clause.temperature
        self.noise.seek(slot, clause.seed, clause.frame)


class TacotronDrawer(Protocol):
    """Samples frames of rows."""

    def draw(self, slots: TacotronSlots, numbers: list[int], frames: Sequence[int]) -> list[np.ndarray]:
        """At least one and at most ``frames`` frames of each slot.

        Returns:
            float32 [k, RESULT_WIDTH] of each slot: the stop token's logit, a sum that is finite if all logits are, the
            attended step, the levels. Frames after a stop mean nothing.
        """
        ...


class TacotronDecodeModule:
    """Samples a chunk of frames of each row; their state is in the slots.

    A row that has its frames, or reached its clause's end, leaves the batch. What a slot holds after a stop is never
    used: the next clause begins with ``TacotronSlots.begin``.
    """

    max_rows = MAX_DECODE_ROWS

    def __init__(self, runner: TacotronDrawer) -> None:
        self._runner = runner

    @torch.inference_mode()
    def run(
        self, slots: TacotronSlots, rows: Sequence[tuple[int, ...]], inputs: Sequence[TacotronChunk]
    ) -> list[TacotronFrames]:
        """See ``studio.engine.families.base.Module``."""
        numbers = [slot for (slot,) in rows]
        index = torch.tensor(numbers, device=slots.last.device)
        before, frames = [store[index] for store in slots.carried], slots.noise.frame[numbers]
        try:
            return self._run(slots, numbers, inputs)
        except Exception:
            for store, was in zip(slots.carried, before, strict=True):
                store[index] = was
            slots.noise.frame[numbers] = frames
            raise

    def _run(self, slots: TacotronSlots, numbers: list[int], inputs: Sequence[TacotronChunk]) -> list[TacotronFrames]:
        results: list[list[np.ndarray]] = [[] for _ in numbers]
        active = [b for b, chunk in enumerate(inputs) if chunk.frames]
        while active:
            missing = [inputs[b].frames - len(results[b]) for b in active]
            sampled = self._runner.draw(slots, [numbers[b] for b in active], missing)
            for b, frames in zip(active, sampled, strict=True):
                results[b] += [*frames[: next((k for k, one in enumerate(frames, 1) if _is_end(one)), None)]]
            active = [b for b in active if len(results[b]) < inputs[b].frames and not _is_end(results[b][-1])]
        return [_to_frames(np.array(rows, np.float32).reshape(-1, RESULT_WIDTH)) for rows in results]


def _is_end(frame: np.ndarray) -> bool:
    """Whether the clause ends after a frame."""
    return sigmoid(frame[0]) >= EOS_AT


def _to_frames(rows: np.ndarray) -> TacotronFrames:
    return TacotronFrames(
        levels=rows[:, 3:].astype(np.uint8),
        p_stop=[sigmoid(stop) for stop in rows[:, 0]],
        attended=rows[:, 2].astype(np.int64),
        is_finite=bool(np.isfinite(rows[:, :2]).all()),
    )
