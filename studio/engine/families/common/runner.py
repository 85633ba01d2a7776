"""Code shared by the runners of all families: slots, sampling of frames, prefill and decode modules, loaded family."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Generic, TypeVar

import numpy as np
import torch
from torch import Tensor, nn

from studio.engine.families.base import Module, Row
from studio.engine.families.common.rows import FrameOutput, RowSetup, sigmoid
from studio.engine.families.common.teacher_forcing import TeacherForcedSegment, TeacherForcingInput
from studio.engine.nets.cpu.kernels import PanelLinear
from studio.engine.nets.cuda.device import Form, check_memory, form_on
from studio.engine.nets.cuda.graphs import MAX_FRAMES
from studio.engine.nets.kv_cache import KVCache
from studio.engine.nets.sampling import FrameNoise, sample_levels, sample_levels_numpy
from studio.engine.nets.transformer import DecoderConfig
from studio.engine.tokenizers import dmel

MAX_DECODE_ROWS = 16
RowT = TypeVar("RowT", bound=Row)


class FrameSlots:
    """KV caches and sampling state of all rows.

    Attributes:
        last: uint8 [slots, 80], the last sampled frame, not yet fed back.
        temperature: [slots].
        noise: position in the noise stream.
    """

    def __init__(self, *caches: KVCache) -> None:
        self._caches, count, device = caches, caches[0].slots, caches[0].device
        self.last = torch.zeros(count, dmel.CHANNELS, dtype=torch.uint8, device=device)
        self.temperature = torch.ones(count)  # on the CPU for any device: the inputs of a step are prepared there
        self.noise = FrameNoise(count, dmel.CHANNELS, device)

    def reset(self, slot: int) -> None:
        """Prepare a slot for a new row; its first prefill sets the rest."""
        for cache in self._caches:
            cache.reset(slot)
        self.noise.reset(slot)

    def seek(self, slot: int, temperature: float, seed: int, frame: int) -> None:
        """Set a slot's sampling state."""
        self.temperature[slot] = temperature
        self.noise.seek(slot, seed, frame)


def allocate_cache(
    sizes: DecoderConfig, count: int, capacity: int, device: torch.device, form: Form | None = None
) -> KVCache:
    """The KV cache of a decoder, ``capacity`` tokens in each of ``count`` slots.

    The CUDA form has an additional slot for padded batches, and room for frames that a row drops after its end.
    """
    dtype = torch.bfloat16 if device.type == "cuda" else torch.float32
    spare = form_on(device, form) == "cuda"
    capacity += MAX_FRAMES * spare
    numbers = 2 * sizes.layers * sizes.width * capacity
    check_memory(device, count + spare, numbers * dtype.itemsize)
    return KVCache(sizes.layers, count + spare, sizes.heads, capacity, sizes.head_width, device=device, dtype=dtype)


def join_heads(levels: nn.Linear, end: nn.Linear) -> tuple[Tensor, Tensor]:
    """Joined weights [80 * LEVELS + 1, D] and bias of the heads for a frame's levels and for the end."""
    return torch.cat((levels.weight, end.weight)), torch.cat((levels.bias, end.bias))


def sample_frames(slots: FrameSlots, numbers: Sequence[int], out: Tensor) -> Tensor:
    """Sample each slot's next frame from the joined heads' outputs [B, 80 * LEVELS + 1], the last for the end.

    Returns:
        [B, 2 + 80]: logit of the end, sum of all outputs (not finite if one of them is not), levels.
    """
    logits, end = out[:, :-1].view(len(numbers), dmel.CHANNELS, dmel.LEVELS), out[:, -1:]
    index = torch.tensor(numbers, device=out.device)
    levels = sample_levels(logits, slots.temperature[index], slots.noise.next(numbers))
    slots.last[index] = levels
    slots.noise.advance(numbers)
    return torch.cat((end, out.sum(1, keepdim=True), levels), dim=1)


def frame_outputs(rows: np.ndarray) -> list[FrameOutput]:
    """Outputs of ``sample_frames``, copied to the CPU."""
    return [FrameOutput(row[2:].astype(np.uint8)[None], sigmoid(row[0]), bool(np.isfinite(row[1]))) for row in rows]


class CpuFrameHead:
    """Samples frames from hidden states, in numpy.

    Args:
        head: [D] -> logits [80 * LEVELS + 1], the last for the end.
    """

    def __init__(self, head: PanelLinear) -> None:
        self._head = head

    @np.errstate(all="ignore")  # the row reports outputs that are not finite
    def sample(self, slots: FrameSlots, numbers: Sequence[int], hidden: np.ndarray) -> list[FrameOutput]:
        """Sample each slot's next frame from normalized hidden states [B, D]."""
        out = self._head(hidden)
        logits = out[:, :-1].reshape(len(out), dmel.CHANNELS, dmel.LEVELS)
        levels = sample_levels_numpy(logits, slots.temperature.numpy()[numbers], slots.noise.next_array(numbers))
        slots.last.numpy()[numbers] = levels
        slots.noise.advance(numbers)
        finite = np.isfinite(out.sum(1))
        return [FrameOutput(levels[b : b + 1], sigmoid(out[b, -1]), bool(finite[b])) for b in range(len(out))]


class PrefillModule:
    """Runs one row at a time: lengths differ, and padding would change the rounding.

    Args:
        prefill: (slots, slot, input) -> output of a row.
    """

    max_rows = 1

    def __init__(self, prefill: Callable[[Any, int, Any], Any]) -> None:
        self._prefill = prefill

    @torch.inference_mode()
    def run(self, slots: Any, rows: Sequence[tuple[int, ...]], inputs: Sequence[Any]) -> list[Any]:
        """See ``studio.engine.families.base.Module``."""
        return [self._prefill(slots, slot, row_input) for (slot,), row_input in zip(rows, inputs, strict=True)]


class DecodeModule:
    """Feeds back each row's last frame and samples the next; the inputs are in the slots.

    Args:
        decode: (slots, slots of the rows) -> output of each row.
    """

    def __init__(self, decode: Callable[[Any, list[int]], list[Any]], max_rows: int = MAX_DECODE_ROWS) -> None:
        self._decode, self.max_rows = decode, max_rows

    @torch.inference_mode()
    def run(self, slots: Any, rows: Sequence[tuple[int, ...]], inputs: Sequence[None]) -> list[Any]:
        """See ``studio.engine.families.base.Module``."""
        return self._decode(slots, [slot for (slot,) in rows])


class DmelFamily(ABC, Generic[RowT]):
    """A loaded checkpoint with its slots; see ``studio.engine.families.base.Family``.

    Attributes:
        attends_to: see ``studio.engine.families.common.teacher_forcing.TeacherForcedFamily``.
        prompts: for each speaker, see ``prompt``.
    """

    slots_per_row = 1
    attends_to: str
    slots: Any
    modules: Mapping[str, Module]
    prompts: Sequence[np.ndarray] | np.ndarray

    def prompt(self, speaker: int) -> np.ndarray:
        """Frames before every utterance: silence, after the speaker's recording if there is one; uint8 [S, 80]."""
        return self.prompts[speaker]

    def row(
        self, slots: tuple[int, ...], speaker: int, options: Mapping[str, Any], temperature: float, seed: int
    ) -> RowT:
        """A row in slots that were reset. Raises BadOption."""
        return self._row(RowSetup(slots, dmel.TIME_BASE, speaker, options, temperature, seed), None)

    def teacher_force(self, recording: TeacherForcingInput) -> Iterator[TeacherForcedSegment]:
        """See ``studio.engine.families.common.teacher_forcing.TeacherForcedFamily``."""
        setup = RowSetup((), dmel.TIME_BASE, recording.speaker, recording.options, 1.0, recording.seed)
        return self._force(self._row(setup, recording), recording)

    @abstractmethod
    def _row(self, setup: RowSetup, forced: TeacherForcingInput | None) -> RowT:
        """A row; for teacher forcing without a limit of frames per segment, since a given pause may be long."""

    @abstractmethod
    def _force(self, row: RowT, recording: TeacherForcingInput) -> Iterator[TeacherForcedSegment]:
        """See ``teacher_force``; the row plans the inputs."""
