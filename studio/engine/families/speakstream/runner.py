"""SpeakStream at inference: a loaded checkpoint and its runner.

Modules: prefill (a segment's text, its first frame), decode (the next frame), read (text ahead).
"""

from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path

import torch
from torch import Tensor

from studio.core.cards import Card
from studio.engine.families.base import FamilyInfo, Module
from studio.engine.families.common.rows import FrameOutput, RowLimits, RowSetup
from studio.engine.families.common.runner import (
    CpuFrameHead,
    DecodeModule,
    DmelFamily,
    Form,
    FrameSlots,
    PrefillModule,
    allocate_cache,
    form_on,
    frame_outputs,
    join_heads,
    sample_frames,
)
from studio.engine.families.common.teacher_forcing import NO_LIMIT, TeacherForcedSegment, TeacherForcingInput
from studio.engine.families.speakstream.model import SpeakStream, SpeakStreamConfig
from studio.engine.families.speakstream.policy import (
    OPTION_SPECS,
    ReadAheadInput,
    SegmentInput,
    SegmentPrefill,
    SpeakStreamOptions,
)
from studio.engine.families.speakstream.row import SpeakStreamRow
from studio.engine.families.speakstream.teacher_forcing import ATTENDS_TO, SpeakStreamTeacherForcing
from studio.engine.nets.cached_decoder import CachedDecoder
from studio.engine.nets.cpu.decoder import EXACT_TOKENS
from studio.engine.nets.frame_decoder import FrameDecoder, FrameEmbeddingTable
from studio.engine.nets.kv_cache import KVCache
from studio.engine.nets.linear import NumberFormat, RowwiseLinear, check_format
from studio.engine.nets.loading import load_weights
from studio.engine.tokenizers import dmel

# At m = 6 and .3 s a word, 600 frames with their segments' text take 2,750 tokens, and a segment up to 480 more;
# the rest keeps older checkpoints restorable.
CAPACITY_TOKENS = 4096


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


class FrameDecoderRunner:
    """A ``FrameDecoder`` on a CPU: table look-ups for frame embeddings, one joined head."""

    @torch.no_grad()
    def __init__(self, net: FrameDecoder, number_format: NumberFormat = "float32") -> None:
        self.decoder = CachedDecoder(net.decoder, number_format)
        self._frames = FrameEmbeddingTable(net.level, net.frame)
        self._speakers = net.speaker.weight + net.frame.bias
        heads, bias = join_heads(net.levels_out, net.eos_out)
        self.head = RowwiseLinear(self.decoder.folded_head(net.decoder, heads), bias, number_format)
        self._cpu_step, self._cpu_head = self.decoder.cpu_decode, None
        if self._cpu_step is not None:
            self._cpu_head = CpuFrameHead(self.decoder.cpu_head(net.decoder, heads, bias))
            self._cpu_frames, self._cpu_speakers = self._frames.for_cpu(), self._speakers.numpy()

    def embed_frames(self, levels: Tensor, speaker: Tensor) -> Tensor:
        """Frames uint8 [N, 80] of speakers [N] -> [N, D]; ``FrameDecoder.embed_frames`` within rounding."""
        return self._frames(levels) + self._speakers[speaker]

    def sample(self, slots: SpeakStreamSlots, numbers: list[int], x: Tensor) -> list[FrameOutput]:
        """Run tokens [B, T, D] of slots and sample each row's next frame."""
        hidden = self.decoder.extend(x, slots.cache, numbers)
        if self._cpu_head is not None:
            return self._cpu_head.sample(slots, numbers, hidden.numpy())
        return frame_outputs(sample_frames(slots, numbers, self.head(hidden)).numpy())

    def decode(self, slots: SpeakStreamSlots, numbers: list[int]) -> list[FrameOutput]:
        """Feed back each slot's last frame and sample the next."""
        if self._cpu_step is not None and self._cpu_head is not None:
            last, speaker = slots.last.numpy()[numbers], slots.speaker.numpy()[numbers]
            x = self._cpu_frames(last) + self._cpu_speakers[speaker]
            return self._cpu_head.sample(slots, numbers, self._cpu_step.extend(x, slots.cache, numbers))
        index = torch.tensor(numbers)
        x = self.embed_frames(slots.last[index], slots.speaker[index])
        return self.sample(slots, numbers, x.unsqueeze(1))


class SpeakStreamRunner(FrameDecoderRunner):
    """The runner of SpeakStream: the prefill of segments, and of text ahead."""

    def __init__(self, net: SpeakStream, number_format: NumberFormat = "float32") -> None:
        super().__init__(net, number_format)
        self._net = net

    def prefill(self, slots: SpeakStreamSlots, slot: int, prefill: SegmentPrefill) -> FrameOutput:
        """Feed a segment's tokens that are not yet in the slot, and sample its first frame."""
        span = (prefill.start, prefill.at + prefill.known)
        slots.start(slot, span, prefill.speaker, prefill.temperature, prefill.seed, prefill.frame)
        speaker = slots.speaker[slot : slot + 1]
        pieces = [piece for segment in prefill.segments for piece in self._tokens_of(segment, speaker)]
        return self.sample(slots, [slot], torch.cat(pieces)[prefill.known :].unsqueeze(0))[0]

    def read_ahead(self, slots: SpeakStreamSlots, slot: int, text: ReadAheadInput) -> None:
        """Feed text of the first segment before its window is complete (CPU); nothing is sampled."""
        slots.cache.start[slot], slots.cache.length[slot] = 0, text.at
        embedded = self._net.embed_symbols(torch.tensor([[*text.symbols]]), torch.tensor([text.speaker]))
        assert self.decoder.cpu_prefill is not None, "text is fed ahead on a CPU"
        self.decoder.cpu_prefill.extend(embedded[0].numpy(), slots.cache, slot)

    def _tokens_of(self, segment: SegmentInput, speaker: Tensor) -> list[Tensor]:
        """Embedded tokens of a segment; ``speaker`` int64 [1]."""
        net, device = self._net, speaker.device
        pieces: list[Tensor] = []
        if segment.after_eos:
            eos = torch.full((1, dmel.CHANNELS), dmel.EOS, dtype=torch.uint8, device=device)
            pieces.append(self.embed_frames(eos, speaker))
        if segment.symbols:
            pieces.append(net.embed_symbols(torch.tensor([[*segment.symbols]], device=device), speaker)[0])
        pieces.append(net.embed_bos(torch.tensor([segment.window], device=device), speaker))
        if len(segment.frames):
            frames = torch.from_numpy(segment.frames).to(device)
            pieces.append(self.embed_frames(frames, speaker.expand(len(frames))))
        return pieces


class SpeakStreamFamily(DmelFamily[SpeakStreamRow]):
    """SpeakStream; the prompt is silence (section IV.D)."""

    attends_to = ATTENDS_TO

    def __init__(
        self,
        net: SpeakStream,
        rows: int,
        device: torch.device,
        number_format: NumberFormat = "float32",
        capacity_tokens: int = CAPACITY_TOKENS,
        form: Form | None = None,
    ) -> None:
        self.net, c = net.eval(), net.config
        self.slots = SpeakStreamSlots(allocate_cache(net.decoder.config, rows, capacity_tokens, device, form))
        self._ahead_tokens = 0
        if form_on(device, form) == "cuda":
            from studio.engine.families.speakstream.tokens import (
                SpeakStreamTokens,
                token_modules,
            )  # Triton: on a GPU only

            self.modules: Mapping[str, Module] = token_modules(SpeakStreamTokens(net), self.slots)
        else:
            runner = SpeakStreamRunner(net, number_format)
            prefill = runner.decoder.cpu_prefill
            self.modules = {"prefill": PrefillModule(runner.prefill), "decode": DecodeModule(runner.decode)}
            if prefill is not None and prefill.is_exact:  # the same bits whether text is read at once or as it is typed
                self._ahead_tokens = EXACT_TOKENS
                self.modules = {**self.modules, "read": PrefillModule(runner.read_ahead)}
        self._limits = RowLimits(c.context_frames, c.kept_frames, c.longest_word_frames, capacity_tokens)
        self.prompts = net.silence.cpu().numpy()

    @staticmethod
    def load(card: Card, folder: Path, device: torch.device, rows: int) -> "SpeakStreamFamily":
        """Load a card's checkpoint and verify its weights. Raises BadVoice."""
        net = SpeakStream(SpeakStreamConfig.read(card.config))
        load_weights(net, folder, card, "speakstream.safetensors")
        return SpeakStreamFamily(net.to(device), rows, device, check_format(card.number_format))

    def _row(self, setup: RowSetup, forced: TeacherForcingInput | None) -> SpeakStreamRow:
        silence = self.prompts[setup.speaker]
        if forced is None:
            return SpeakStreamRow(setup, self._limits, silence, self._ahead_tokens)
        limits = replace(self._limits, longest_word_frames=NO_LIMIT, capacity_tokens=NO_LIMIT**2)
        return SpeakStreamRow(setup, limits, silence)

    def _force(self, row: SpeakStreamRow, recording: TeacherForcingInput) -> Iterator[TeacherForcedSegment]:
        return SpeakStreamTeacherForcing(self.net, row, recording).segments()


INFO = FamilyInfo(
    "speakstream",
    "SpeakStream (paper 000)",
    OPTION_SPECS,
    SpeakStreamOptions().look_ahead_words,
    SpeakStreamFamily.load,
    compared=tuple({"m": m} for m in range(1, 7)),
    supports_teacher_forcing=True,
)
