"""Kyutai's models at inference: one module, whose step chooses the fed text token where the logits are.

A batch is one CUDA graph on a GPU, and one call of ``CpuKyutaiLM`` on a CPU; the reference form runs rows one by one.
"""

import threading
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from studio.core.cards import Card
from studio.core.errors import BadFile, BadOption, BadVoice
from studio.core.kyutai import MODEL, PUBLISHED, RECORDING, SPEAKER, TEXT, TIME_BASE, KyutaiSettings, is_prefixed
from studio.core.speakers import BadRecording
from studio.engine.families.base import FamilyInfo, Module, NewReference, Row
from studio.engine.families.common.rows import RowSetup
from studio.engine.families.common.runner import MAX_DECODE_ROWS
from studio.engine.families.kyutai.config import KyutaiConfig
from studio.engine.families.kyutai.cpu import CpuKyutaiLM
from studio.engine.families.kyutai.model import ZERO, load_kyutai_lm
from studio.engine.families.kyutai.passages import Attending, KyutaiNet, KyutaiSlots, Prefixed
from studio.engine.families.kyutai.policy import MAIN, NEW_WORD, KyutaiInput, KyutaiOutput
from studio.engine.families.kyutai.row import KyutaiModel, KyutaiRow
from studio.engine.families.kyutai.speakers import check_prefix, read_prefix, read_recording, read_speakers
from studio.engine.families.kyutai.text import KyutaiText
from studio.engine.nets.cuda.device import check_memory
from studio.engine.nets.cuda.graphs import MAX_ROWS, GraphCache, StepRunner, batch_sizes, padded_rows
from studio.engine.nets.loading import weights_file
from studio.engine.nets.sampling import sample_tokens
from studio.engine.tokenizers.formats import acoustic_tokenizer

_TOP_TEXT, _TOP_CODES = 25, 250  # most likely tokens that are drawn from, as in Kyutai's code
_CODES = "codes"  # of an added speaker
_NEVER = 1 << 40  # steps


class KyutaiModule:
    """Steps of rows; see ``studio.engine.families.base.Module``.

    Args:
        speakers: see ``Attending``; none of a prefixed model.
        spare: a slot for the padding of batches, on a GPU; None on a CPU.
    """

    def __init__(
        self,
        net: KyutaiNet,
        settings: KyutaiSettings,
        speakers: Sequence[tuple[Tensor, Tensor]],
        slots: KyutaiSlots,
        spare: int | None,
    ) -> None:
        c, device = net.config, slots.fed.device
        self._net, self._settings, self._slots, self._spare = net, settings, slots, spare
        self._delays = torch.tensor(c.delays, device=device)
        self._initial = torch.tensor([c.text_card, *[c.card] * c.n_q], device=device)
        self._passages = (
            Prefixed(net, settings.delay_steps, self._delays, self._initial)
            if settings.is_prefixed
            else Attending(net, speakers, settings.strengths)
        )
        self._unheard_until = self._delays + settings.delay_steps  # the guided second slot is not fed the recording
        self._unheard_until[0] = _NEVER  # nor any text
        self._steps = StepRunner(GraphCache(device))
        self.max_rows = MAX_DECODE_ROWS if spare is None else MAX_ROWS

    def capture_steps(self) -> list[Callable[[], None]]:
        """See ``studio.engine.families.base.SupportsCapture``."""
        if self._spare is None:
            return []
        sizes = batch_sizes(min(self._spare // self._settings.slots_per_row, self.max_rows))
        return [partial(self._capture, size, has_sound) for size in sizes for has_sound in (False, True)]

    @torch.inference_mode()
    def run(
        self, slots: KyutaiSlots, rows: Sequence[tuple[int, ...]], inputs: Sequence[KyutaiInput]
    ) -> list[KyutaiOutput]:
        """One step of several rows."""
        for row, given in zip(rows, inputs, strict=True):
            slots.noise.seek(row[0], given.seed, given.at)
            if given.step == 0:
                self._passages.begin(slots, row, given)
        if self._spare is not None or isinstance(self._net, CpuKyutaiLM):
            return self._batch(slots, rows, inputs)
        return [self._batch(slots, [row], [given])[0] for row, given in zip(rows, inputs, strict=True)]

    def _batch(
        self, slots: KyutaiSlots, rows: Sequence[tuple[int, ...]], inputs: Sequence[KyutaiInput]
    ) -> list[KyutaiOutput]:
        has_sound = any(given.has_sound for given in inputs)
        is_guided = self._settings.is_prefixed and (
            self._spare is not None or any(given.guidance != 1.0 for given in inputs)
        )
        whole = torch.tensor(
            [[row[0], row[-1], one.step, one.pad, one.word] for row, one in zip(rows, inputs, strict=True)]
        )
        drawing = torch.tensor([[given.temperature, given.guidance] for given in inputs])
        noise = slots.noise.next([row[0] for row in rows])
        if self._spare is not None and (padding := padded_rows(len(rows)) - len(rows)):
            whole = torch.cat((whole, self._padding(padding)))
            drawing, noise = (torch.cat((one, one[:1].expand(padding, -1))) for one in (drawing, noise))
        found = self._run(slots, whole, drawing, noise, has_sound, is_guided)[: len(rows)].numpy()
        return [
            KyutaiOutput(row[3:].astype(np.int64), bool(row[0]), float(row[1]), bool(np.isfinite(row[2])))
            for row in found
        ]

    def _padding(self, count: int) -> Tensor:
        assert self._spare is not None, "batches are padded on a GPU only"
        return torch.tensor([[self._spare, self._spare, 0, 0, 0]]).expand(count, -1)

    @torch.inference_mode()
    def _capture(self, size: int, has_sound: bool) -> None:
        noise = torch.full((size, 1 + self._net.config.dep_q), 0.5)
        self._run(self._slots, self._padding(size), torch.ones(size, 2), noise, has_sound, self._settings.is_prefixed)

    def _run(
        self, slots: KyutaiSlots, whole: Tensor, drawing: Tensor, noise: Tensor, has_sound: bool, is_guided: bool
    ) -> Tensor:
        inputs = [whole, drawing, noise]

        def dummy() -> list[Tensor]:
            return [self._padding(len(whole)).clone(), torch.ones_like(drawing), torch.full_like(noise, 0.5)]

        step = partial(self._step, slots, has_sound, is_guided)
        return self._steps.run(("step", id(slots), len(whole), has_sound, is_guided), step, inputs, dummy)

    def _step(
        self, slots: KyutaiSlots, has_sound: bool, is_guided: bool, whole: Tensor, drawing: Tensor, noise: Tensor
    ) -> Tensor:
        """A step of slots.

        Args:
            whole: int64 [B, 5]: slot, second slot, step in the passage, text to feed without and with a beginning word.
            drawing: [B, 2], temperature and guidance.
            noise: [B, 1 + dep_q], of the text and of each code.

        Returns:
            float32 [B, 3 + dep_q]: whether a word begins, its probability, a sum of all logits, codes.
        """
        c, count = self._net.config, len(whole)
        (index, second, step, pad, word), (temperature, guidance) = whole.unbind(1), drawing.unbind(1)
        is_initial = slots.state.position[index, None] <= self._delays
        tokens, run = torch.where(is_initial, self._initial, slots.fed[index]), index
        if is_guided:
            is_hidden = ~is_initial & (step[:, None] <= self._unheard_until)
            tokens, run = torch.cat((tokens, tokens.masked_fill(is_hidden, ZERO))), torch.cat((index, second))
        hidden, logits = self._net.advance(tokens[:, None], slots.state, run)
        logits = logits[:count].float()  # [B, 1, text_card_out]
        begins = sample_tokens(logits, temperature, noise[:, :1], _TOP_TEXT)[:, 0] == NEW_WORD
        p_word, check = logits[:, 0].softmax(-1)[:, NEW_WORD], logits.sum((1, 2))
        text = torch.where(begins, word, pad)
        codes = slots.forced[index, step.clamp(max=slots.forced.shape[1] - 1)]
        if has_sound:

            def choose(codebook: int, logits: Tensor) -> Tensor:
                logits = logits.float()
                if is_guided:  # equation 8 of paper 002; at 1, the first slot's own
                    alone, without = logits.chunk(2)
                    mixed = without + guidance[:, None] * (alone - without)
                    logits = torch.where(guidance[:, None] == 1.0, alone, mixed)
                check.add_(logits.sum(-1))
                own = noise[:, 1 + codebook : 2 + codebook]
                chosen = sample_tokens(logits[:, None], temperature, own, _TOP_CODES)[:, 0]
                return torch.cat((chosen, chosen)) if is_guided else chosen

            made = self._net.depth(hidden[:, 0], torch.cat((text, text)) if is_guided else text, choose)[:count]
            is_forced = step[:, None] < self._delays[1 : 1 + c.dep_q] + self._settings.delay_steps
            codes = torch.where(is_forced, codes, made)
        others = codes.new_full((count, c.n_q - c.dep_q), ZERO)
        slots.fed[index] = torch.cat((text[:, None], codes, others), 1)
        return torch.cat((torch.stack((begins.float(), p_word, check), 1), codes.float()), 1)


class KyutaiFamily:
    """A loaded model with its slots; see ``studio.engine.families.base.Family``.

    Args:
        speakers: see ``KyutaiModule``.
        prefixes: codes int64 [T, dep_q] of each speaker's recording, of a prefixed model; None for those of
            ``recordings``, which are encoded in ``set_codec``.
    """

    def __init__(
        self,
        net: KyutaiNet,
        settings: KyutaiSettings,
        text: KyutaiText,
        speakers: Sequence[tuple[Tensor, Tensor]],
        prefixes: Sequence[np.ndarray | None],
        recordings: Mapping[int, Path],
        rows: int,
    ) -> None:
        c, device = net.config, net.device
        self.net, self._settings, self._text = net, settings, text
        self._prefixes, self._recordings, self._adding = [*prefixes], recordings, threading.Lock()
        self._encode: Callable[[np.ndarray], np.ndarray] | None = None
        self.slots_per_row = settings.slots_per_row
        on_gpu, vectors = device.type == "cuda", speakers[0][0].shape[1] if speakers else 0
        count = rows * self.slots_per_row
        numbers = 2 * c.num_layers * c.dim * (c.context + vectors)
        check_memory(device, count + 1, numbers * (2 if on_gpu else 4))
        forced_steps = settings.delay_steps + max(c.delays) if settings.is_prefixed else 1
        self.slots = KyutaiSlots(net, count + on_gpu, vectors, forced_steps)
        module = KyutaiModule(net, settings, speakers, self.slots, count if on_gpu else None)
        self.modules: Mapping[str, Module] = {"step": module}
        self._model = KyutaiModel(
            settings.delay_steps,
            c.delays[1 : 1 + c.dep_q],
            c.text_card + 1,
            settings.look_ahead_words,
            settings.strengths,
            () if settings.is_prefixed else (MAIN,),
        )

    def prompt(self, speaker: int) -> np.ndarray:
        """The speaker's recording; no frames where the net attends to its speaker."""
        if not self._settings.is_prefixed:
            return np.zeros((0, self.net.config.dep_q), np.int64)
        prefix = self._prefixes[speaker]
        assert prefix is not None, "the recording was not encoded"
        return prefix

    def set_codec(self, encode: Callable[[np.ndarray], np.ndarray]) -> None:
        """See ``studio.engine.families.base.SupportsCodec``."""
        self._encode = encode
        for speaker, path in self._recordings.items():
            try:
                self._prefixes[speaker] = encode(read_recording(path))
            except (BadFile, BadOption) as error:
                raise BadVoice(f"{path.name} cannot be a speaker: {error.what}", error.do) from error

    def reference_from(self, samples: np.ndarray, words: Sequence[str]) -> NewReference:
        """Codes of a recording; see ``studio.engine.families.base.SupportsReferences``. Raises BadRecording."""
        assert self._encode is not None, "load_voice sets the codec"
        try:
            return NewReference({_CODES: self._encode(samples)}, len(samples) / TIME_BASE.rate_hz)
        except BadOption as error:
            raise BadRecording(error.what, error.do) from error

    def add_reference(self, tensors: Mapping[str, np.ndarray]) -> int:
        """See ``studio.engine.families.base.SupportsReferences``."""
        if _CODES not in tensors:
            raise BadVoice("an added speaker has no codes", "remove the speaker, and add it again")
        checked = check_prefix(tensors[_CODES], self.net.config.dep_q, self.net.config.card)
        with self._adding:
            self._prefixes.append(checked)
            return len(self._prefixes) - 1

    def row(
        self, slots: tuple[int, ...], speaker: int, options: Mapping[str, Any], temperature: float, seed: int
    ) -> Row:
        """A row in slots that were reset. Raises BadOption."""
        setup = RowSetup(slots, TIME_BASE, speaker, options, temperature, seed)
        prefix = self.prompt(speaker) if self._settings.is_prefixed else None
        return KyutaiRow(setup, self._model, self._text.encode, prefix)


def load(card: Card, folder: Path, device: torch.device, rows: int) -> KyutaiFamily:
    """Load a card's checkpoint and verify its files. Raises BadVoice, NeedsPackage."""
    settings, config = KyutaiSettings.read(card.config), KyutaiConfig.read_published(card.config)
    if acoustic_tokenizer(card.alphabet).frame_shape != (config.dep_q,):
        raise BadVoice(f"the net makes {config.dep_q} codes a frame, and the card names {card.alphabet}", _AGAIN)
    text = KyutaiText(weights_file(folder, card, TEXT), config.text_card)
    files, speakers = range(len(card.speakers)), list[tuple[Tensor, Tensor]]()
    prefixes, recordings = list[np.ndarray | None](), dict[int, Path]()
    if settings.is_prefixed:
        for number in files:
            is_recording = RECORDING.format(number) in card.sha256
            path = weights_file(folder, card, (RECORDING if is_recording else SPEAKER).format(number))
            recordings |= {number: path} if is_recording else {}
            prefixes.append(None if is_recording else read_prefix(path, config.dep_q, config.card))
    else:
        paths = [weights_file(folder, card, SPEAKER.format(number)) for number in files]
        speakers = [read_speakers([path], config.speaker_width) for path in paths]
    if len({vectors.shape for vectors, _ in speakers}) > 1:
        raise BadVoice("the speakers have different numbers of vectors", _AGAIN)
    on_gpu, weights = device.type == "cuda", weights_file(folder, card, MODEL)
    trained = load_kyutai_lm(weights, config, torch.bfloat16 if on_gpu else None)
    net = trained.to(device) if on_gpu else CpuKyutaiLM(trained)
    return KyutaiFamily(net, settings, text, speakers, prefixes, recordings, rows)


def takes_speakers(card: Card) -> bool:
    """Whether speakers are recordings."""
    return is_prefixed(card.config)


_AGAIN = "pull the voice again"
INFO = FamilyInfo(
    "kyutai",
    "Kyutai's published DSM-TTS (paper 002)",
    PUBLISHED.options(),
    PUBLISHED.look_ahead_words,
    load,
    "Sound follows the text by 1.28 s, so a word's sound needs the words that come meanwhile; while one is missing, "
    "everything waits. After a flush it starts afresh. Text that was sent is not revised.",
    takes_speakers=takes_speakers,
    needs_transcript=False,
)
