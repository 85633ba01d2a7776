"""State of SpeakStream's and RichTTS's rows."""

import torch

from studio.engine.families.common.runner import FrameSlots
from studio.engine.nets.kv_cache import KVCache


class SpeakStreamSlots(FrameSlots):
    """KV cache, speakers [slots] and sampling state of all rows."""

    def __init__(self, cache: KVCache) -> None:
        super().__init__(cache)
        self.cache = cache
        self.speaker = torch.zeros(cache.slots, dtype=torch.int64)

    def start(self, slot: int, span: tuple[int, int], speaker: int, temperature: float, seed: int, frame: int) -> None:
        """Set a slot's first and next token position, its speaker and its sampling state."""
        self.cache.start[slot], self.cache.length[slot] = span
        self.speaker[slot] = speaker
        self.seek(slot, temperature, seed, frame)
