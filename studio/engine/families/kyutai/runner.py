"""Kyutai's models at inference: one module, whose step chooses the fed text token where the logits are.

On a CPU rows run one after another, so that none depends on its batch; on a GPU a batch is one graph.
"""

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from studio.core.cards import Card
from studio.core.errors import BadVoice
from studio.core.kyutai import MODEL, PUBLISHED, SPEAKER, TEXT, TIME_BASE, KyutaiSettings
from studio.engine.families.base import FamilyInfo, Module, Row
from studio.engine.families.common.rows import RowSetup
from studio.engine.families.common.runner import MAX_DECODE_ROWS
from studio.engine.families.kyutai.config import KyutaiConfig
from studio.engine.families.kyutai.model import ZERO, KyutaiLM, load_kyutai_lm
from studio.engine.families.kyutai.policy import MAIN, NEW_WORD, KyutaiInput, KyutaiOutput
from studio.engine.families.kyutai.row import KyutaiModel, KyutaiRow
from studio.engine.families.kyutai.speakers import read_labels, read_speakers
from studio.engine.families.kyutai.text import KyutaiText
from studio.engine.nets.cuda.device import check_memory
from studio.engine.nets.cuda.graphs import MAX_ROWS, GraphCache, StepRunner, batch_sizes, padded_rows
from studio.engine.nets.loading import weights_file
from studio.engine.nets.sampling import FrameNoise, sample_tokens
from studio.engine.tokenizers.formats import acoustic_tokenizer

_TOP_TEXT, _TOP_CODES = 25, 250  # most likely tokens that are drawn from, as in Kyutai's code


class KyutaiSlots:
    """State of all rows.

    Attributes:
        state: of the backbone.
        fed: int64 [slots, 1 + n_q], what the last step made: text and codes.
        noise: position in the noise stream; on the CPU.
    """

    def __init__(self, net: KyutaiLM, count: int, vectors: int) -> None:
        c = net.config
        self.state = net.init_state(count, vectors)
        self.fed = torch.full((count, 1 + c.n_q), ZERO, device=self.state.position.device)
        self.noise = FrameNoise(count, 1 + c.dep_q, torch.device("cpu"))

    def reset(self, slot: int) -> None:
        """Give a slot to a new row; its first step sets the rest."""
        self.noise.reset(slot)


class KyutaiModule:
    """Steps of rows; see ``studio.engine.families.base.Module``.

    Args:
        speakers: vectors [1, S, width] of each speaker of the voice, and where there is one, bool [1, S].
        spare: a slot for the padding of batches, on a GPU; None on a CPU.
    """

    def __init__(
        self,
        net: KyutaiLM,
        settings: KyutaiSettings,
        speakers: Sequence[tuple[Tensor, Tensor]],
        slots: KyutaiSlots,
        spare: int | None,
    ) -> None:
        c, device = net.config, slots.fed.device
        self._net, self._settings, self._speakers, self._slots, self._spare = net, settings, speakers, slots, spare
        self._delays = torch.tensor(c.delays, device=device)
        self._initial = torch.tensor([c.text_card, *[c.card] * c.n_q], device=device)
        self._attended: dict[int, list[tuple[Tensor, Tensor]]] = {}
        self._steps = StepRunner(GraphCache(device))
        self.max_rows = MAX_DECODE_ROWS if spare is None else MAX_ROWS

    def capture_steps(self) -> list[Callable[[], None]]:
        """See ``studio.engine.families.base.SupportsCapture``."""
        if self._spare is None:
            return []
        sizes = batch_sizes(min(self._spare, self.max_rows))
        return [partial(self._capture, size, has_sound) for size in sizes for has_sound in (False, True)]

    @torch.inference_mode()
    def run(
        self, slots: KyutaiSlots, rows: Sequence[tuple[int, ...]], inputs: Sequence[KyutaiInput]
    ) -> list[KyutaiOutput]:
        """One step of several rows."""
        numbers = [slot for slot, *_ in rows]
        for slot, given in zip(numbers, inputs, strict=True):
            slots.noise.seek(slot, given.seed, given.at)
            if given.step == 0:
                self._begin(slots, slot, given)
        if self._spare is not None:
            return self._batch(slots, numbers, inputs)
        return [self._batch(slots, [slot], [given])[0] for slot, given in zip(numbers, inputs, strict=True)]

    def _begin(self, slots: KyutaiSlots, slot: int, given: KyutaiInput) -> None:
        """Set the conditions of a passage, which begins with an empty context."""
        state, device = slots.state, slots.fed.device
        if given.speaker not in self._attended:
            vectors, present = self._speakers[given.speaker]
            self._attended[given.speaker] = self._net.attend(vectors.to(state.offset), present.to(device))
        state.position[slot] = 0
        for ring in state.rings:
            ring[slot] = 0
        for stored, own in zip(state.others, self._attended[given.speaker], strict=True):
            for mine, theirs in zip(stored, own, strict=True):
                mine[slot] = theirs[0]
        labels = read_labels(self._settings.strengths, given.guidance)
        state.offset[slot] = self._net.offset({name: one.to(device) for name, one in labels.items()})[0]

    def _batch(self, slots: KyutaiSlots, numbers: list[int], inputs: Sequence[KyutaiInput]) -> list[KyutaiOutput]:
        has_sound = any(given.has_sound for given in inputs)
        whole = torch.tensor([[n, g.step, g.pad, g.word] for n, g in zip(numbers, inputs, strict=True)])
        temperature = torch.tensor([given.temperature for given in inputs])
        noise = slots.noise.next(numbers)
        if self._spare is not None and (padding := padded_rows(len(numbers)) - len(numbers)):
            whole = torch.cat((whole, self._padding(padding)))
            temperature, noise = (
                torch.cat((one, one[:1].expand(padding, *one.shape[1:]))) for one in (temperature, noise)
            )
        found = self._run(slots, whole, temperature, noise, has_sound)[: len(numbers)].numpy()
        return [
            KyutaiOutput(row[3:].astype(np.int64), bool(row[0]), float(row[1]), bool(np.isfinite(row[2])))
            for row in found
        ]

    def _padding(self, count: int) -> Tensor:
        assert self._spare is not None, "batches are padded on a GPU only"
        return torch.tensor([[self._spare, 0, 0, 0]]).expand(count, -1)

    @torch.inference_mode()
    def _capture(self, size: int, has_sound: bool) -> None:
        noise = torch.full((size, 1 + self._net.config.dep_q), 0.5)
        self._run(self._slots, self._padding(size), torch.ones(size), noise, has_sound)

    def _run(self, slots: KyutaiSlots, whole: Tensor, temperature: Tensor, noise: Tensor, has_sound: bool) -> Tensor:
        inputs = [whole, temperature, noise]

        def dummy() -> list[Tensor]:
            return [self._padding(len(whole)).clone(), torch.ones_like(temperature), torch.full_like(noise, 0.5)]

        step = partial(self._step, slots, has_sound)
        return self._steps.run(("step", id(slots), len(whole), has_sound), step, inputs, dummy)

    def _step(self, slots: KyutaiSlots, has_sound: bool, whole: Tensor, temperature: Tensor, noise: Tensor) -> Tensor:
        """A step of slots.

        Args:
            whole: int64 [B, 4]: slot, step in the passage, text to feed without and with a beginning word.
            noise: [B, 1 + dep_q], of the text and of each code.

        Returns:
            float32 [B, 3 + dep_q]: whether a word begins, its probability, a sum of all logits, codes.
        """
        c, delay = self._net.config, self._settings.delay_steps
        index, step, pad, word = whole.unbind(1)
        tokens = torch.where(step[:, None] <= self._delays, self._initial, slots.fed[index])
        hidden, logits, after = self._net.step(tokens[:, None], slots.state.take(index))
        slots.state.put(index, after)
        logits = logits.float()  # [B, 1, text_card]
        begins = sample_tokens(logits, temperature, noise[:, :1], _TOP_TEXT)[:, 0] == NEW_WORD
        p_word, check = logits[:, 0].softmax(-1)[:, NEW_WORD], logits.sum((1, 2))
        text = torch.where(begins, word, pad)
        codes = torch.full_like(noise[:, 1:], ZERO, dtype=torch.int64)
        if has_sound:

            def choose(codebook: int, logits: Tensor) -> Tensor:
                logits = logits.float()
                check.add_(logits.sum(-1))
                own = noise[:, 1 + codebook : 2 + codebook]
                return sample_tokens(logits[:, None], temperature, own, _TOP_CODES)[:, 0]

            made = self._net.depth(hidden[:, 0], text, choose)
            codes = torch.where(step[:, None] < self._delays[1 : 1 + c.dep_q] + delay, codes, made)
        others = codes.new_full((len(codes), c.n_q - c.dep_q), ZERO)
        slots.fed[index] = torch.cat((text[:, None], codes, others), 1)
        return torch.cat((torch.stack((begins.float(), p_word, check), 1), codes.float()), 1)


class KyutaiFamily:
    """A loaded model with its slots; see ``studio.engine.families.base.Family``.

    Args:
        speakers: see ``KyutaiModule``.
    """

    slots_per_row = 1

    def __init__(
        self,
        net: KyutaiLM,
        settings: KyutaiSettings,
        text: KyutaiText,
        speakers: Sequence[tuple[Tensor, Tensor]],
        rows: int,
    ) -> None:
        c, device = net.config, next(net.parameters()).device
        self.net, self._text = net, text
        on_gpu, vectors = device.type == "cuda", speakers[0][0].shape[1]
        numbers = 2 * c.num_layers * c.dim * (c.context + vectors)
        check_memory(device, rows + 1, numbers * net.out_norm.alpha.element_size())
        self.slots = KyutaiSlots(net, rows + on_gpu, vectors)
        module = KyutaiModule(net, settings, speakers, self.slots, rows if on_gpu else None)
        self.modules: Mapping[str, Module] = {"step": module}
        self._model = KyutaiModel(
            settings.delay_steps,
            c.delays[1 : 1 + c.dep_q],
            c.text_card + 1,
            settings.look_ahead_words,
            settings.strengths,
            (MAIN,),
        )

    def prompt(self, speaker: int) -> np.ndarray:
        """No frames: the net attends to its speaker."""
        return np.zeros((0, self.net.config.dep_q), np.int64)

    def row(
        self, slots: tuple[int, ...], speaker: int, options: Mapping[str, Any], temperature: float, seed: int
    ) -> Row:
        """A row in slots that were reset. Raises BadOption."""
        setup = RowSetup(slots, TIME_BASE, speaker, options, temperature, seed)
        return KyutaiRow(setup, self._model, self._text.encode)


def load(card: Card, folder: Path, device: torch.device, rows: int) -> KyutaiFamily:
    """Load a card's checkpoint and verify its files. Raises BadVoice, NeedsPackage."""
    settings, config = KyutaiSettings.read(card.config), KyutaiConfig.read_published(card.config)
    if acoustic_tokenizer(card.alphabet).frame_shape != (config.dep_q,):
        raise BadVoice(f"the net makes {config.dep_q} codes a frame, and the card names {card.alphabet}", _AGAIN)
    text = KyutaiText(weights_file(folder, card, TEXT), config.text_card)
    paths = [weights_file(folder, card, SPEAKER.format(number)) for number in range(len(card.speakers))]
    speakers = [read_speakers([path], config.speaker_width) for path in paths]
    if len({vectors.shape for vectors, _ in speakers}) > 1:
        raise BadVoice("the speakers have different numbers of vectors", _AGAIN)
    dtype = torch.bfloat16 if device.type == "cuda" else torch.float32
    net = load_kyutai_lm(weights_file(folder, card, MODEL), config, dtype).to(device)
    return KyutaiFamily(net, settings, text, speakers, rows)


_AGAIN = "pull the voice again"
INFO = FamilyInfo(
    "kyutai",
    "Kyutai's published DSM-TTS (paper 002)",
    PUBLISHED.options(),
    PUBLISHED.look_ahead_words,
    load,
    "Sound follows the text by 1.28 s, so a word's sound needs the words that come meanwhile; while one is missing, "
    "everything waits. After a flush it starts afresh. Text that was sent is not revised.",
)
