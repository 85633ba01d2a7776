"""State of DSM-TTS's rows, and the speakers that they attend to."""

from collections.abc import Sequence

import torch

from studio.engine.families.dsm.model import Dsm
from studio.engine.families.dsm.policy import MOST_SPEAKERS, DsmInput
from studio.engine.nets.kv_cache import KVCache
from studio.engine.nets.sampling import FrameNoise
from studio.engine.tokenizers import dmel

ACTION_CHANNEL = dmel.CHANNELS  # of the noise


class SpeakerEmbeddings:
    """Embeddings of all speakers of a net."""

    @torch.no_grad()
    def __init__(self, net: Dsm) -> None:
        self._net, self._embedded = net, net.encoder(net.extract)

    def write(self, cache: KVCache, slot: int, speakers: Sequence[int]) -> None:
        """Write the K and V of these speakers, and of none for the others, to a slot."""
        padded = [*speakers, *[-1] * (MOST_SPEAKERS - len(speakers))]
        embedded = self._net.speakers(self._embedded, torch.tensor([padded], device=self._embedded.device))
        for layer, cross in enumerate(self._net.crossings()):
            keys, values = cross.keys_values(embedded)
            cache.write(layer, slot, 0, keys[0], values[0])
        cache.length[slot] = MOST_SPEAKERS


class DsmSlots:
    """State of all rows, two slots each; the second is for guidance.

    Attributes:
        steps: KV cache of the backbone.
        speakers: KV cache of the cross-attention.
        last: uint8 [slots, 80], levels of the step before, in a row's first slot.
        noise: position in the noise stream; on the CPU.
    """

    def __init__(self, steps: KVCache, speakers: KVCache) -> None:
        self.steps, self.speakers = steps, speakers
        shape = steps.slots, dmel.CHANNELS
        self.last = torch.full(shape, dmel.PAD, dtype=torch.uint8, device=steps.device)
        self.noise = FrameNoise(steps.slots, ACTION_CHANNEL + 1, torch.device("cpu"))

    def reset(self, slot: int) -> None:
        """Give a slot to a new row; its first step sets the rest."""
        for cache in (self.steps, self.speakers):
            cache.reset(slot)
        self.noise.reset(slot)

    def update(self, row: tuple[int, ...], step_input: DsmInput, embeddings: SpeakerEmbeddings) -> None:
        """Apply a step's inputs to its row's slots."""
        pair = row if step_input.guidance != 1.0 else row[:1]
        start, length = self.steps.bounds_arrays
        for slot in pair:
            start[slot], length[slot] = step_input.start, step_input.at
        self.noise.seek(row[0], step_input.seed, step_input.at)
        if step_input.last is not None:
            self.last[row[0]] = torch.from_numpy(step_input.last)
        elif step_input.begins:
            self.last[row[0]] = dmel.PAD
        if step_input.begins:
            for slot, speakers in zip(pair, (step_input.speakers, ()), strict=False):
                embeddings.write(self.speakers, slot, speakers)
