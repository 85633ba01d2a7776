"""DSM-TTS at inference. Modules: warm (only the backbone, during the delay) and decode (also the depth transformer).

On a CPU, rows without sound yet take the cheaper steps (appendix I of the paper); on a GPU both modules are one. A
guided row runs its second slot beside the first, with the same sound but no text and no speaker.
"""

from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import replace
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from studio.core.cards import Card
from studio.core.errors import BadVoice
from studio.engine.families.base import FamilyInfo, Module
from studio.engine.families.common.rows import RowSetup
from studio.engine.families.common.runner import MAX_DECODE_ROWS, DmelFamily, Form, allocate_cache, form_on
from studio.engine.families.common.teacher_forcing import NO_LIMIT, TeacherForcedSegment, TeacherForcingInput
from studio.engine.families.common.text_tokens import Bpe
from studio.engine.families.dsm.depth import GROUP_CHANNELS, DepthCpuRunner, DepthRunner
from studio.engine.families.dsm.model import Dsm, DsmConfig
from studio.engine.families.dsm.policy import MOST_SPEAKERS, OPTION_SPECS, DsmInput, DsmOutput, options_of
from studio.engine.families.dsm.row import DsmDelays, DsmRow
from studio.engine.families.dsm.slots import DsmSlots, SpeakerEmbeddings
from studio.engine.families.dsm.teacher_forcing import ATTENDS_TO, DsmTeacherForcing, passages
from studio.engine.nets.cached_decoder import CachedCrossAttention, CachedDecoder
from studio.engine.nets.cpu.decoder import CpuCrossAttention, CpuDecodeStep
from studio.engine.nets.cpu.kernels import PanelLinear
from studio.engine.nets.frame_decoder import CpuFrameEmbeddingTable, FrameEmbeddingTable
from studio.engine.nets.linear import NumberFormat, RowwiseLinear, check_format
from studio.engine.nets.loading import load_weights
from studio.engine.nets.sampling import sample_levels, sample_levels_numpy
from studio.engine.tokenizers import dmel


class DsmCpuRunner:
    """A step of ``DsmRunner`` in numpy, over the same slots; rows are independent (law 3).

    Args:
        text, ahead: embeddings of symbols, [symbols, D].
        frames: table of frame embeddings; ``bias`` [D] is added.
        action: [D] -> [1].
        nothing: text symbol of a guided row's second slot.
    """

    def __init__(
        self,
        tokens: CpuDecodeStep,
        cross: Sequence[CpuCrossAttention],
        depth: DepthCpuRunner,
        text: np.ndarray,
        ahead: np.ndarray,
        frames: CpuFrameEmbeddingTable,
        bias: np.ndarray,
        action: PanelLinear,
        nothing: int,
    ) -> None:
        self._tokens, self._cross, self._depth, self._nothing = tokens, cross, depth, nothing
        self._text, self._ahead, self._frames, self._bias, self._action = text, ahead, frames, bias, action

    @np.errstate(all="ignore")  # NotFinite is raised by the row
    def run(self, slots: DsmSlots, rows: Sequence[tuple[int, ...]], inputs: Sequence[DsmInput]) -> list[DsmOutput]:
        """One step of rows whose slots are up to date."""
        count, firsts = len(inputs), [slot for slot, *_ in rows]
        guided = np.array([b for b, step_input in enumerate(inputs) if step_input.guidance != 1.0], dtype=np.int64)
        hidden = self._hidden(slots, rows, inputs, guided)
        noise = slots.noise.next_array(firsts)
        action = self._action(hidden[:count])[:, 0]
        levels, check = np.full((count, dmel.CHANNELS), dmel.PAD, np.uint8), hidden[:count].sum(1)
        if inputs[0].groups != "none":
            levels, check = self._levels(inputs, hidden, guided, noise)
            slots.last.numpy()[firsts] = levels
        return [
            DsmOutput.of(levels[b], action[b], float(noise[b, -1]), check[b], step_input.temperature)
            for b, step_input in enumerate(inputs)
        ]

    def _hidden(
        self, slots: DsmSlots, rows: Sequence[tuple[int, ...]], inputs: Sequence[DsmInput], guided: np.ndarray
    ) -> np.ndarray:
        """See ``DsmRunner.backbone``."""
        nothing = [self._nothing] * len(guided)
        past = slots.last.numpy()[[rows[b][0] for b in (*range(len(rows)), *guided)]]
        x = self._text[[step_input.text for step_input in inputs] + nothing]
        x = x + self._ahead[[step_input.ahead for step_input in inputs] + nothing]
        x += self._frames(past)
        x += self._bias
        numbers = [slot for slot, *_ in rows] + [rows[b][1] for b in guided]

        def between(layer: int, h: np.ndarray) -> np.ndarray:
            return self._cross[layer](h, slots.speakers, numbers)[0]

        return self._tokens.extend(x, slots.steps, numbers, between)

    def _levels(
        self, inputs: Sequence[DsmInput], hidden: np.ndarray, guided: np.ndarray, noise: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray]:
        """See ``DsmRunner._sample_levels``."""
        count = len(inputs)
        alpha = np.array([inputs[b].guidance for b in guided], np.float32)[:, None, None]
        temperature = np.array([step_input.temperature for step_input in inputs], np.float32)
        check = np.zeros(count, np.float32)

        def draw(group: int, all_logits: np.ndarray) -> np.ndarray:
            logits = all_logits[:count]
            if len(guided):
                without = all_logits[count:]
                logits[guided] = without + alpha * (logits[guided] - without)
            here = slice(group * GROUP_CHANNELS, (group + 1) * GROUP_CHANNELS)
            levels = sample_levels_numpy(logits, temperature, noise[:, here])
            np.add(check, logits.sum((1, 2)), out=check)
            return np.concatenate((levels, levels[guided])) if len(guided) else levels

        levels = self._depth.frame(hidden, draw)[:count]
        levels[[step_input.groups == "first" for step_input in inputs], GROUP_CHANNELS:] = dmel.PAD
        return levels, check


class DsmRunner:
    """The net on a CPU, with a table in the place of a product over a frame's levels.

    Attributes:
        cpu: the step in float32; None in int8.
    """

    @torch.no_grad()
    def __init__(self, net: Dsm, number_format: NumberFormat = "float32") -> None:
        self.net, self._nothing = net, net.config.symbols.nothing
        self.decoder = CachedDecoder(net.decoder, number_format)
        self._cross = [CachedCrossAttention(i, one, number_format) for i, one in enumerate(net.crossings())]
        self._frames = FrameEmbeddingTable(net.level, net.frame)
        self._bias = net.frame.bias.detach()
        self._action = RowwiseLinear(
            self.decoder.folded_head(net.decoder, net.action_out.weight), net.action_out.bias, number_format
        )
        self._depth = DepthRunner(net.depth, net.level, net.decoder, number_format)
        self._speakers = SpeakerEmbeddings(net)
        self.cpu = None if self.decoder.cpu_decode is None else self._for_cpu(self.decoder.cpu_decode)

    def _for_cpu(self, tokens: CpuDecodeStep) -> DsmCpuRunner:
        net = self.net
        return DsmCpuRunner(
            tokens,
            [cross.for_decode() for cross in self._cross],
            DepthCpuRunner(self._depth),
            net.text.weight.detach().numpy(),
            net.ahead.weight.detach().numpy(),
            self._frames.for_cpu(),
            self._bias.numpy(),
            self.decoder.cpu_head(net.decoder, net.action_out.weight, net.action_out.bias),
            self._nothing,
        )

    @torch.inference_mode()
    def run(self, slots: DsmSlots, rows: Sequence[tuple[int, ...]], inputs: Sequence[DsmInput]) -> list[DsmOutput]:
        """One step of several rows: all of them warm, or none; see ``studio.engine.families.base.Module``."""
        for row, step_input in zip(rows, inputs, strict=True):
            slots.update(row, step_input, self._speakers)
        if self.cpu is not None:
            return self.cpu.run(slots, rows, inputs)
        return self._sample(slots, rows, inputs, self.backbone(slots, rows, inputs))

    def backbone(self, slots: DsmSlots, rows: Sequence[tuple[int, ...]], inputs: Sequence[DsmInput]) -> Tensor:
        """Hidden states of the first slots, then of the second slots of guided rows.

        Returns:
            [N, D], each divided by its length.
        """
        guided = [b for b, step_input in enumerate(inputs) if step_input.guidance != 1.0]
        text = [step_input.text for step_input in inputs] + [self._nothing] * len(guided)
        ahead = [step_input.ahead for step_input in inputs] + [self._nothing] * len(guided)
        source = [slot for slot, *_ in rows] + [rows[b][0] for b in guided]
        x = self.net.text.weight[text] + self.net.ahead.weight[ahead]
        x = x + self._frames(slots.last[source]) + self._bias
        numbers = [slot for slot, *_ in rows] + [rows[b][1] for b in guided]

        def between(layer: int, h: Tensor) -> Tensor:
            return self._cross[layer](h, slots.speakers, numbers)[0]

        return self.decoder.extend(x.unsqueeze(1), slots.steps, numbers, between)

    def _sample_levels(self, inputs: Sequence[DsmInput], hidden: Tensor, noise: Tensor) -> tuple[Tensor, Tensor]:
        """Levels of each row, uint8 [B, 80]; and a sum [B] that is finite if all logits were.

        A guided row's logits are l0 + alpha (lc - l0), where l0 is its second slot's (equation 8).
        """
        count = len(inputs)
        guided = torch.tensor([b for b, step_input in enumerate(inputs) if step_input.guidance != 1.0]).long()
        alpha = torch.tensor([step_input.guidance for step_input in inputs])[guided, None, None]
        temperature = torch.tensor([step_input.temperature for step_input in inputs])
        check = torch.zeros(count)

        def draw(group: int, all_logits: Tensor) -> Tensor:
            logits = all_logits[:count]
            if len(guided):
                without = all_logits[count:]
                logits = logits.index_copy(0, guided, without + alpha * (logits[guided] - without))
            here = slice(group * GROUP_CHANNELS, (group + 1) * GROUP_CHANNELS)
            levels = sample_levels(logits, temperature, noise[:, here])
            check.add_(logits.sum((1, 2)))
            return torch.cat((levels, levels[guided])) if len(guided) else levels

        levels = self._depth.frame(hidden, draw)[:count]
        alone = torch.tensor([step_input.groups == "first" for step_input in inputs])
        levels[:, GROUP_CHANNELS:].masked_fill_(alone[:, None], dmel.PAD)
        return levels, check

    def _sample(
        self, slots: DsmSlots, rows: Sequence[tuple[int, ...]], inputs: Sequence[DsmInput], hidden: Tensor
    ) -> list[DsmOutput]:
        """Sample the step's outputs; warm rows have only the action."""
        count, firsts = len(inputs), [slot for slot, *_ in rows]
        noise = slots.noise.next(firsts)
        action = self._action(hidden[:count])
        if inputs[0].groups == "none":
            levels = torch.full((count, dmel.CHANNELS), dmel.PAD, dtype=torch.uint8)
            check = hidden[:count].sum(1)
        else:
            levels, check = self._sample_levels(inputs, hidden, noise)
            slots.last[firsts] = levels
        samples = zip(levels.numpy(), action[:, 0].numpy(), noise[:, -1].tolist(), check.numpy(), strict=True)
        return [DsmOutput.of(*one, step_input.temperature) for one, step_input in zip(samples, inputs, strict=True)]


class DsmModule:
    """Steps of a ``DsmRunner``; see ``studio.engine.families.base.Module``. Rows of one object run together."""

    max_rows = MAX_DECODE_ROWS

    def __init__(self, runner: DsmRunner) -> None:
        self.run = runner.run


MOST_CONTEXT_FRAMES = 4000
LOOK_AHEAD_WORDS = 2
NOTES = (
    "Sound follows the text by 1.28 s, so a word's sound needs the words that come meanwhile; while one is missing, "
    "everything waits. After a flush it starts again, as after a sentence."
)


class DsmFamily(DmelFamily[DsmRow]):
    """DSM-TTS; the prompt is silence, for the vocoder only."""

    slots_per_row = 2  # the second is for guidance
    attends_to = ATTENDS_TO

    def __init__(
        self,
        net: Dsm,
        bpe: Bpe,
        rows: int,
        device: torch.device,
        number_format: NumberFormat = "float32",
        form: Form | None = None,
    ) -> None:
        self.net, self.bpe, c = net.eval(), bpe, net.config
        count, sizes = rows * self.slots_per_row, net.decoder.config
        steps, speakers = (allocate_cache(sizes, count, n, device, form) for n in (c.context_frames, MOST_SPEAKERS))
        self.slots = DsmSlots(steps, speakers)
        if form_on(device, form) == "cuda":
            from studio.engine.families.dsm.cuda import DsmCudaModule  # Triton: on a GPU only

            module = DsmCudaModule(net, self.slots)
            self.modules: Mapping[str, Module] = {"warm": module, "decode": module}
        else:
            runner = DsmRunner(net, number_format)
            self.modules = {name: DsmModule(runner) for name in ("warm", "decode")}
        self._delays = DsmDelays(
            sound=c.delay_frames,
            acoustic=c.acoustic_delay_frames,
            first_channels=GROUP_CHANNELS,
            look_ahead_words=c.look_ahead_words,
            context=c.context_frames,
            longest_word=c.longest_word_frames,
            tail=c.tail_frames,
        )
        self.prompts = net.silence.cpu().numpy()

    @staticmethod
    def load(card: Card, folder: Path, device: torch.device, rows: int) -> "DsmFamily":
        """Load a card's checkpoint and verify its weights. Raises BadVoice."""
        config = DsmConfig.read(card.config)
        bpe = Bpe.of_voice(card, folder, config.text_tokens)
        net = Dsm(config)
        load_weights(net, folder, card, "dsm.safetensors")
        check(card, net)
        return DsmFamily(net.to(device), bpe, rows, device, check_format(card.number_format))

    def start_lookup(self, words: Sequence[str]) -> Future[None] | None:
        """See ``studio.engine.families.base.SupportsLookup``."""
        return self.bpe.start_lookup(words)

    def _row(self, setup: RowSetup, forced: TeacherForcingInput | None) -> DsmRow:
        config, delays = self.net.config, self._delays
        if forced is not None:
            ends = len(passages(forced)) == 1  # with the frames
            delays = replace(delays, longest_word=NO_LIMIT, tail=NO_LIMIT if ends else delays.tail)
        return DsmRow(setup, delays, config.symbols, self.bpe.encode, config.speakers)

    def _force(self, row: DsmRow, recording: TeacherForcingInput) -> Iterator[TeacherForcedSegment]:
        return DsmTeacherForcing(self.net, row, recording).segments()


def check(card: Card, net: Dsm) -> None:
    """Raises BadVoice unless every speaker has a recording, and delays and limits are consistent."""
    c = net.config
    for speaker, frames in zip(card.speakers, net.extract, strict=True):
        real = frames[frames[:, 0] != dmel.PAD]
        if not len(real) or int(real.max()) >= dmel.LEVELS:
            raise BadVoice(f"there is no recording of {speaker} to condition the voice on", "pack the voice again")
    delays = (c.delay_frames, c.acoustic_delay_frames, c.tail_frames, c.look_ahead_words)
    fits = c.delay_frames + c.acoustic_delay_frames < c.context_frames <= MOST_CONTEXT_FRAMES
    if not (fits and min(delays) >= 0 < c.delay_frames and c.longest_word_frames > 0):
        raise BadVoice("the card's delays do not fit into its context", "restore card.json from the repository")


INFO = FamilyInfo(
    "dsm",
    "DSM-TTS (paper 002)",
    OPTION_SPECS,
    LOOK_AHEAD_WORDS,
    DsmFamily.load,
    NOTES,
    compared=({"guidance": 1.0}, {"guidance": 2.0}),
    supports_teacher_forcing=True,
    options_of=options_of,
)
