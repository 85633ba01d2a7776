"""The vocoder as a module: frames of many utterances in, samples out, each slot's state carried between."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from studio.engine.alphabets.registry import Alphabet
from studio.engine.nets.products import rows_apart
from studio.engine.nets.recorded import MOST_ROWS_ON_DEVICE, Recorded, filled_up
from studio.engine.vocoders.base import State, Vocoder
from studio.engine.vocoders.on_host.ready import made_ready
from studio.engine.vocoders.on_host.sourcefilter import Arrays

MOST_ROWS = 16


class VocodeModule:
    """Runs a vocoder over slots; see ``studio.engine.families.base.Module``.

    Args:
        fills_up: whether batches are filled up with a slot more, which is nobody's; always on a GPU.

    Attributes:
        look_ahead_frames: frames a vocoder must have beyond those it speaks; the causal ones need none.
    """

    def __init__(
        self, vocoder: Vocoder[Any], alphabet: Alphabet, slots: int, device: torch.device, *, fills_up: bool = False
    ) -> None:
        fills_up = fills_up or device.type != "cpu"
        on_host = None if fills_up else made_ready(vocoder)
        rows_apart(vocoder)
        self.most_rows = MOST_ROWS_ON_DEVICE if device.type != "cpu" else MOST_ROWS if vocoder.rows_apart else 1
        self.vocoder, self._alphabet, self._device = vocoder, alphabet, device
        self._spare = slots if fills_up else None
        self._recorded = Recorded(device)
        self.slots: State = vocoder.init_state(slots if self._spare is None else slots + 1, device)
        self.look_ahead_frames = vocoder.look_ahead_frames
        self._frame_samples = int(vocoder.config.frame_samples)
        self._unsaid = [self.look_ahead_frames] * slots  # frames whose samples are somebody else's, or were said
        self._warm: dict[bytes, State] = {}
        self._on_host = None
        if on_host is not None:
            nothing = np.zeros((1, 1, vocoder.config.channels), np.float32)
            on_host.step(nothing, Arrays(vocoder.init_state(1)), np.zeros(1, np.int64))  # compiled before anybody waits
            self._on_host = (on_host, Arrays(self.slots))

    @torch.inference_mode()
    def reset(self, slot: int, prompt: np.ndarray, seed: int) -> None:
        """Give a slot to a new owner, who begins after the frames of ``prompt``, which nobody hears."""
        key = prompt.tobytes()
        if key not in self._warm:  # once for each speaker
            _, self._warm[key] = self.vocoder.step(self._mels(prompt), self.vocoder.init_state(1, self._device))
        self.slots.put(self._index([slot]), self._warm[key])
        self.slots.seed[slot] = seed
        self._unsaid[slot] = self.look_ahead_frames  # the prompt's own come first

    @torch.inference_mode()
    def mark(self, slot: int) -> tuple[State, int]:
        """What a slot remembers, to come back to."""
        return self.slots.take(self._index([slot])), self._unsaid[slot]

    @torch.inference_mode()
    def back(self, slot: int, mark: tuple[State, int]) -> None:
        """Return a slot to a mark."""
        state, self._unsaid[slot] = mark
        self.slots.put(self._index([slot]), state)

    @torch.inference_mode()
    def run(self, slots: State, rows: Sequence[tuple[int, ...]], inputs: Sequence[np.ndarray]) -> list[np.ndarray]:
        """Samples float32 of each row's frames [k, ...], k >= 1 and the same for all: [k * frame_samples].

        Where a vocoder looks ahead, they are of earlier frames, and fewer at an utterance's beginning.
        """
        found = []
        for (slot, *_), samples in zip(rows, self._samples(slots, [row[0] for row in rows], inputs), strict=True):
            unsaid = min(self._unsaid[slot], len(samples) // self._frame_samples)
            self._unsaid[slot] -= unsaid
            found.append(samples[unsaid * self._frame_samples :])
        return found

    def _samples(self, slots: State, numbers: list[int], inputs: Sequence[np.ndarray]) -> np.ndarray:
        if self._on_host is not None:
            vocoder, arrays = self._on_host
            return vocoder.step(self._mels(*inputs).numpy(), arrays, np.array(numbers))
        index, frames = torch.tensor(numbers), torch.from_numpy(np.stack(inputs))
        if self._spare is not None:
            index = F.pad(index, (0, filled_up(len(numbers)) - len(numbers)), value=self._spare)
            frames = torch.cat((frames, frames.new_zeros(len(index) - len(frames), *frames.shape[1:])))

        def idle() -> list[Tensor]:
            assert self._spare is not None, "steps are recorded on a GPU alone"
            return [torch.full_like(index, self._spare), torch.zeros_like(frames)]

        def body(index: Tensor, frames: Tensor) -> Tensor:
            pcm, after = self.vocoder.step(self._alphabet.to_mels(frames), slots.take(index))
            slots.put(index, after)
            return pcm.float()

        key = ("vocode", id(slots), frames.shape)
        return self._recorded.run(key, body, [index, frames], idle)[: len(numbers)].numpy()

    @torch.inference_mode()
    def finish(self, slot: int) -> np.ndarray:
        """What a slot still has to say of the frames that it was given: nothing, in a causal vocoder.

        What comes after is not faded into it.
        """
        held = (self.look_ahead_frames - self._unsaid[slot]) * self._frame_samples
        if not held:
            return np.zeros(0, np.float32)
        self._unsaid[slot] = self.look_ahead_frames
        return self.vocoder.held_back(self.slots.take(self._index([slot])))[0, -held:].float().cpu().numpy()

    def _mels(self, *frames: np.ndarray) -> Tensor:
        return self._alphabet.to_mels(torch.from_numpy(np.stack(frames)).to(self._device))

    def _index(self, slots: list[int]) -> Tensor:
        return torch.tensor(slots, device=self._device)
