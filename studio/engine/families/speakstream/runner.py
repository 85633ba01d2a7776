"""SpeakStream at inference: a loaded checkpoint and its runner.

Modules: prefill (a segment's text, its first frame), decode (the next frame), read (text ahead).
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import torch
from torch import Tensor

from studio.core.cards import Card
from studio.engine.families.base import FamilyInfo, Module
from studio.engine.families.common.rows import FrameOutput, RowLimits, RowSetup
from studio.engine.families.common.runner import (
    MAX_DECODE_ROWS,
    CpuFrameHead,
    DecodeModule,
    DmelFamily,
    FrameSlots,
    PrefillModule,
    allocate_cache,
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
from studio.engine.nets.cuda import MAX_CUDA_ROWS, BatchedDecodeStep, GraphRunner, padded_rows
from studio.engine.nets.frame_decoder import FrameDecoder, FrameEmbeddingTable
from studio.engine.nets.kv_cache import KVCache
from studio.engine.nets.linear import NumberFormat, RowwiseLinear, check_format
from studio.engine.nets.loading import load_weights
from studio.engine.nets.sampling import sample_levels, uniform
from studio.engine.nets.transformer import DecoderConfig
from studio.engine.tokenizers import dmel

# At m = 6 and .3 s a word, 600 frames with their segments' text take 2,750 tokens, and a segment up to 480 more;
# the rest keeps older checkpoints restorable.
CAPACITY_TOKENS = 4096


class SpeakStreamSlots(FrameSlots):
    """KV cache, speakers [slots] and sampling state of all rows; ``spare`` is the padding slot (GPU only)."""

    @staticmethod
    def allocate(sizes: DecoderConfig, rows: int, capacity_tokens: int, device: torch.device) -> "SpeakStreamSlots":
        """Allocate slots for ``rows`` rows; on a GPU one more, to pad batches."""
        count = rows if device.type == "cpu" else rows + 1
        return SpeakStreamSlots(allocate_cache(sizes, count, capacity_tokens, device), count, device)

    def __init__(self, cache: KVCache, count: int, device: torch.device) -> None:
        super().__init__(count, device, cache)
        self.cache, self.spare = cache, count - 1
        self.speaker = torch.zeros(count, dtype=torch.int64, device=device)

    def start(self, slot: int, span: tuple[int, int], speaker: int, temperature: float, seed: int, frame: int) -> None:
        """Set a slot's first and next token position, its speaker and its sampling state."""
        self.cache.start[slot], self.cache.length[slot] = span
        self.speaker[slot] = speaker
        self.seek(slot, temperature, seed, frame)


class SpeakStreamCudaDecoder:
    """Decode step on a GPU: all rows in one CUDA graph of fixed shapes, one copy in and one out.

    Args:
        embed: frames uint8 [B, 80] of speakers [B] -> [B, D].
        head: [B, D] -> logits [B, 80 * LEVELS + 1], the last for s_eos.
    """

    def __init__(
        self,
        tokens: BatchedDecodeStep,
        embed: Callable[[Tensor, Tensor], Tensor],
        head: Callable[[Tensor], Tensor],
        recorded: GraphRunner,
    ) -> None:
        self._tokens, self._embed, self._head, self._recorded = tokens, embed, head, recorded

    def decode(self, slots: SpeakStreamSlots, numbers: Sequence[int]) -> list[FrameOutput]:
        """Feed back each slot's last frame and sample the next. Raises ContextFull."""
        index, span = self._tokens.plan(slots.cache, numbers)
        noise = torch.tensor([[slots.noise.seed[n], slots.noise.frame[n]] for n in numbers], dtype=torch.int64)
        given = torch.cat((index, noise.T))
        rows = padded_rows(len(numbers))  # the padding uses the spare slot
        idle = torch.zeros(len(given), rows, dtype=torch.int64)
        idle[0] = slots.spare
        filled = torch.cat((given, idle[:, len(numbers) :]), 1)

        def body(given: Tensor) -> Tensor:
            return self._step(slots, given, span)

        outputs = self._recorded.run(("decode", id(slots), rows, span), body, [filled], lambda: [idle]).numpy()
        slots.cache.length[list(numbers)] += 1
        slots.noise.advance(numbers)
        return frame_outputs(outputs[: len(numbers)])

    def _step(self, slots: SpeakStreamSlots, given: Tensor, span: int) -> Tensor:
        """One step of ``given`` int64 [5, B]: slots, token positions, first positions held, seeds, frames.

        Returns:
            See ``sample_frames``.
        """
        (slot, _, _, seed, frame), memory = given, slots.cache
        x = self._embed(slots.last[slot], slots.speaker[slot])
        out = self._head(self._tokens.step(x, memory, given[:3], span))
        logits = out[:, :-1].unflatten(1, (dmel.CHANNELS, dmel.LEVELS))
        levels = sample_levels(logits, slots.temperature[slot], uniform(seed, frame, dmel.CHANNELS))
        slots.last[slot] = levels
        return torch.cat((out[:, -1:], out.sum(1, keepdim=True), levels), 1)


class FrameDecoderRunner:
    """A ``FrameDecoder`` prepared for inference: table look-ups for frame embeddings, one fused head.

    The decode step has three forms: numpy on a CPU in float32, a CUDA graph on a GPU, torch elsewhere.
    """

    @torch.no_grad()
    def __init__(self, net: FrameDecoder, number_format: NumberFormat = "float32") -> None:
        self.decoder = CachedDecoder(net.decoder, number_format)
        self._frames = FrameEmbeddingTable(net.level, net.frame)
        self._speakers = net.speaker.weight + net.frame.bias
        heads, bias = join_heads(net.levels_out, net.eos_out)
        self.head = RowwiseLinear(self.decoder.folded_head(net.decoder, heads), bias, number_format)
        device = heads.device
        self.cuda = None if device.type == "cpu" else self.cuda_decoder(GraphRunner(device))
        self._cpu_step, self._cpu_head = self.decoder.cpu_decode, None
        if self._cpu_step is not None:
            self._cpu_head = CpuFrameHead(self.decoder.cpu_head(net.decoder, heads, bias))
            self._cpu_frames, self._cpu_speakers = self._frames.for_cpu(), self._speakers.numpy()

    def cuda_decoder(self, recorded: GraphRunner) -> SpeakStreamCudaDecoder:
        """A decode step of all rows on a GPU."""
        return SpeakStreamCudaDecoder(self.decoder.batched_decode, self.embed_frames, self.head, recorded)

    def decode_module(self) -> DecodeModule:
        """The module of the decode step."""
        return DecodeModule(self.decode, MAX_DECODE_ROWS if self.cuda is None else MAX_CUDA_ROWS)

    def embed_frames(self, levels: Tensor, speaker: Tensor) -> Tensor:
        """Frames uint8 [N, 80] of speakers [N] -> [N, D]; ``FrameDecoder.embed_frames`` within rounding."""
        return self._frames(levels) + self._speakers[speaker]

    def sample(self, slots: SpeakStreamSlots, numbers: list[int], x: Tensor) -> list[FrameOutput]:
        """Run tokens [B, T, D] of slots and sample each row's next frame; one device-to-host copy for all rows."""
        hidden = self.decoder.extend(x, slots.cache, numbers)
        if self._cpu_head is not None:
            return self._cpu_head.sample(slots, numbers, hidden.numpy())
        return frame_outputs(sample_frames(slots, numbers, self.head(hidden)).cpu().numpy())

    def decode(self, slots: SpeakStreamSlots, numbers: list[int]) -> list[FrameOutput]:
        """Feed back each slot's last frame and sample the next."""
        if self._cpu_step is not None and self._cpu_head is not None:
            last, speaker = slots.last.numpy()[numbers], slots.speaker.numpy()[numbers]
            x = self._cpu_frames(last) + self._cpu_speakers[speaker]
            return self._cpu_head.sample(slots, numbers, self._cpu_step.extend(x, slots.cache, numbers))
        if self.cuda is not None:
            return self.cuda.decode(slots, numbers)
        index = torch.tensor(numbers, device=slots.last.device)
        x = self.embed_frames(slots.last[index], slots.speaker[index])
        return self.sample(slots, numbers, x.unsqueeze(1))


class SpeakStreamRunner(FrameDecoderRunner):
    """The runner of SpeakStream: the prefill of segments, and of text ahead."""

    def __init__(self, net: SpeakStream, number_format: NumberFormat = "float32") -> None:
        super().__init__(net, number_format)
        self._net = net

    def prefill(self, slots: SpeakStreamSlots, slot: int, given: SegmentPrefill) -> FrameOutput:
        """Feed a segment's tokens that are not yet in the slot, and sample its first frame."""
        span = (given.start, given.at + given.known)
        slots.start(slot, span, given.speaker, given.temperature, given.seed, given.frame)
        speaker = slots.speaker[slot : slot + 1]
        pieces = [piece for segment in given.segments for piece in self._tokens_of(segment, speaker)]
        return self.sample(slots, [slot], torch.cat(pieces)[given.known :].unsqueeze(0))[0]

    def read_ahead(self, slots: SpeakStreamSlots, slot: int, given: ReadAheadInput) -> None:
        """Feed text of the first segment before its window is complete (CPU); nothing is sampled."""
        slots.cache.start[slot], slots.cache.length[slot] = 0, given.at
        embedded = self._net.embed_symbols(torch.tensor([[*given.symbols]]), torch.tensor([given.speaker]))
        assert self.decoder.cpu_prefill is not None, "text is fed ahead on a CPU"
        self.decoder.cpu_prefill.extend(embedded[0].numpy(), slots.cache, slot)

    def _tokens_of(self, given: SegmentInput, speaker: Tensor) -> list[Tensor]:
        """Embedded tokens of a segment; ``speaker`` int64 [1]."""
        net, device = self._net, speaker.device
        pieces: list[Tensor] = []
        if given.after_eos:
            eos = torch.full((1, dmel.CHANNELS), dmel.EOS, dtype=torch.uint8, device=device)
            pieces.append(self.embed_frames(eos, speaker))
        if given.symbols:
            pieces.append(net.embed_symbols(torch.tensor([[*given.symbols]], device=device), speaker)[0])
        pieces.append(net.embed_bos(torch.tensor([given.window], device=device), speaker))
        if len(given.frames):
            frames = torch.from_numpy(given.frames).to(device)
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
    ) -> None:
        self.net, c = net.eval(), net.config
        runner = SpeakStreamRunner(net, number_format)
        self.slots = SpeakStreamSlots.allocate(net.decoder.config, rows, capacity_tokens, device)
        self.modules: Mapping[str, Module] = {
            "prefill": PrefillModule(runner.prefill),
            "decode": runner.decode_module(),
        }
        self._ahead_tokens, prefill = 0, runner.decoder.cpu_prefill
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

    def _force(self, row: SpeakStreamRow, given: TeacherForcingInput) -> Iterator[TeacherForcedSegment]:
        return SpeakStreamTeacherForcing(self.net, row, given).segments()


INFO = FamilyInfo(
    "speakstream",
    "SpeakStream (paper 000)",
    OPTION_SPECS,
    SpeakStreamOptions().look_ahead_words,
    SpeakStreamFamily.load,
    compared=tuple({"m": m} for m in range(1, 7)),
    supports_teacher_forcing=True,
)
