"""The vocoder as a module: frames of many requests in, samples out, with a state in each slot."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from studio.engine.nets.cuda.graphs import MAX_CUDA_ROWS, GraphRunner, padded_rows
from studio.engine.nets.linear import use_rowwise_linear
from studio.engine.tokenizers.registry import AcousticTokenizer
from studio.engine.vocoders.base import Vocoder, VocoderState
from studio.engine.vocoders.cpu.sourcefilter import SourceFilterArrays, cpu_vocoder

MAX_CPU_ROWS = 16


class VocodeModule:
    """Runs a vocoder over slots; see ``studio.engine.families.base.Module``.

    Args:
        pads_batches: whether batches are padded with an unused slot; always on a GPU.

    Attributes:
        look_ahead_frames: frames that the vocoder needs beyond those it vocodes; 0 in causal ones.
    """

    def __init__(
        self,
        vocoder: Vocoder[Any],
        tokenizer: AcousticTokenizer,
        slots: int,
        device: torch.device,
        *,
        pads_batches: bool = False,
    ) -> None:
        pads_batches = pads_batches or device.type != "cpu"
        on_cpu = None if pads_batches else cpu_vocoder(vocoder)
        use_rowwise_linear(vocoder)
        cpu_rows = MAX_CPU_ROWS if vocoder.is_batch_invariant else 1
        self.max_rows = MAX_CUDA_ROWS if device.type != "cpu" else cpu_rows
        self.vocoder, self._tokenizer, self._device = vocoder, tokenizer, device
        self._spare = slots if pads_batches else None
        self._graphs = GraphRunner(device)
        self.slots: VocoderState = vocoder.init_state(slots if self._spare is None else slots + 1, device)
        self.look_ahead_frames = vocoder.look_ahead_frames
        self._frame_samples = int(vocoder.config.frame_samples)
        self._skip_frames = [self.look_ahead_frames] * slots  # whose samples belong to the prompt or were sent
        self._prompted: dict[bytes, VocoderState] = {}
        self._cpu = None
        if on_cpu is not None:
            silence = np.zeros((1, 1, vocoder.config.channels), np.float32)
            dummy = SourceFilterArrays(vocoder.init_state(1))
            on_cpu.step(silence, dummy, np.zeros(1, np.int64))  # compile now, before the first utterance
            self._cpu = (on_cpu, SourceFilterArrays(self.slots))

    @torch.inference_mode()
    def reset(self, slot: int, prompt: np.ndarray, seed: int) -> None:
        """Give a slot to a new owner, in the state after the frames of ``prompt``, which are not played."""
        key = prompt.tobytes()
        if key not in self._prompted:  # once per speaker
            _, self._prompted[key] = self.vocoder.step(self._mels(prompt), self.vocoder.init_state(1, self._device))
        self.slots.put(self._index([slot]), self._prompted[key])
        self.slots.seed[slot] = seed
        self._skip_frames[slot] = self.look_ahead_frames  # the prompt's own samples come first

    @torch.inference_mode()
    def checkpoint(self, slot: int) -> tuple[VocoderState, int]:
        """A copy of a slot's state."""
        return self.slots.take(self._index([slot])), self._skip_frames[slot]

    @torch.inference_mode()
    def restore(self, slot: int, checkpoint: tuple[VocoderState, int]) -> None:
        """Return a slot to a checkpoint."""
        state, self._skip_frames[slot] = checkpoint
        self.slots.put(self._index([slot]), state)

    @torch.inference_mode()
    def run(
        self, slots: VocoderState, rows: Sequence[tuple[int, ...]], inputs: Sequence[np.ndarray]
    ) -> list[np.ndarray]:
        """Samples float32 [k * frame_samples] of each row's frames [k, ...], k >= 1 and equal for all rows.

        With look-ahead, the samples are of earlier frames, and fewer at an utterance's beginning.
        """
        results = []
        for (slot, *_), samples in zip(rows, self._samples(slots, [row[0] for row in rows], inputs), strict=True):
            skipped = min(self._skip_frames[slot], len(samples) // self._frame_samples)
            self._skip_frames[slot] -= skipped
            results.append(samples[skipped * self._frame_samples :])
        return results

    def _samples(self, slots: VocoderState, numbers: list[int], inputs: Sequence[np.ndarray]) -> np.ndarray:
        if self._cpu is not None:
            vocoder, arrays = self._cpu
            return vocoder.step(self._mels(*inputs).numpy(), arrays, np.array(numbers))
        index, frames = torch.tensor(numbers), torch.from_numpy(np.stack(inputs))
        if self._spare is not None:
            index = F.pad(index, (0, padded_rows(len(numbers)) - len(numbers)), value=self._spare)
            frames = torch.cat((frames, frames.new_zeros(len(index) - len(frames), *frames.shape[1:])))

        def dummy() -> list[Tensor]:
            assert self._spare is not None, "steps are captured on a GPU only"
            return [torch.full_like(index, self._spare), torch.zeros_like(frames)]

        def step(index: Tensor, frames: Tensor) -> Tensor:
            pcm, after = self.vocoder.step(self._tokenizer.to_mels(frames), slots.take(index))
            slots.put(index, after)
            return pcm.float()

        key = ("vocode", id(slots), frames.shape)
        return self._graphs.run(key, step, [index, frames], dummy)[: len(numbers)].numpy()

    @torch.inference_mode()
    def finish(self, slot: int) -> np.ndarray:
        """Samples that are held back for look-ahead, without a cross-fade; none in a causal vocoder."""
        held = (self.look_ahead_frames - self._skip_frames[slot]) * self._frame_samples
        if not held:
            return np.zeros(0, np.float32)
        self._skip_frames[slot] = self.look_ahead_frames
        return self.vocoder.held_back(self.slots.take(self._index([slot])))[0, -held:].float().cpu().numpy()

    def _mels(self, *frames: np.ndarray) -> Tensor:
        return self._tokenizer.to_mels(torch.from_numpy(np.stack(frames)).to(self._device))

    def _index(self, slots: list[int]) -> Tensor:
        return torch.tensor(slots, device=self._device)
