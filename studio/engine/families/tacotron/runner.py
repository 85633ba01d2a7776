"""Incremental Tacotron 2's modules: encode (a clause, once) and decode (a chunk of its frames).

Slots hold the state that equation 3 of the paper carries from chunk to chunk. Rows of a batch may make chunks of
different lengths: a row that has its frames, or reached its clause's end, leaves the batch.
"""

import os
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import Future
from pathlib import Path

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from studio.core.cards import Card
from studio.core.errors import BadVoice
from studio.core.events import EOS_AT
from studio.engine.families.base import FamilyInfo, Module
from studio.engine.families.common.rows import RowSetup, sigmoid
from studio.engine.families.common.runner import MAX_DECODE_ROWS, DmelFamily, PrefillModule, join_heads
from studio.engine.families.common.teacher_forcing import NO_LIMIT, TeacherForcedSegment, TeacherForcingInput
from studio.engine.families.tacotron.model import (
    Tacotron,
    TacotronConfig,
    TacotronHead,
    frame_values,
    lstm_step,
    normalise,
)
from studio.engine.families.tacotron.policy import (
    OPTION_SPECS,
    WHOLE,
    TacotronChunk,
    TacotronClause,
    TacotronFrames,
    TacotronOptions,
    TacotronRow,
)
from studio.engine.families.tacotron.teacher_forcing import ATTENDS_TO, TacotronTeacherForcing
from studio.engine.nets.frame_decoder import FrameEmbeddingTable
from studio.engine.nets.kv_cache import POISON, ContextFull
from studio.engine.nets.linear import NumberFormat, RowwiseLinear, check_format
from studio.engine.nets.loading import load_weights
from studio.engine.nets.sampling import FrameNoise, sample_levels
from studio.engine.tokenizers import dmel
from studio.text import phonemes

CAPACITY_SYMBOLS = 1792
_RESULT_WIDTH = 3 + dmel.CHANNELS  # of a frame


class TacotronSlots:
    """State of all rows (equation 3).

    Attributes:
        memory, keys: F_enc [slots, T, D] and attention keys [slots, T, A]; ``symbols`` of them are valid.
        last_shares, sum_shares: W_last and W_acc [slots, T].
        context: A [slots, D].
        attention_hidden, attention_state, decoder_hidden, decoder_state: H and C of both LSTMs [slots, R].
        last: M_last, uint8 [slots, 80].
        temperature: [slots].
        noise: for the levels, and for the pre-net's dropout.
    """

    def __init__(self, net: Tacotron, count: int, device: torch.device) -> None:
        c = net.config
        fill = float("nan") if os.environ.get(POISON) else 0.0

        def store(*shape: int) -> Tensor:
            return torch.full((count, *shape), fill, device=device)

        self.memory, self.keys = store(CAPACITY_SYMBOLS, c.width), store(CAPACITY_SYMBOLS, c.attention_width)
        self.last_shares, self.sum_shares = store(CAPACITY_SYMBOLS), store(CAPACITY_SYMBOLS)
        self.context = store(c.width)
        self.attention_hidden, self.attention_state = store(c.decoder_width), store(c.decoder_width)
        self.decoder_hidden, self.decoder_state = store(c.decoder_width), store(c.decoder_width)
        self.last = torch.zeros(count, dmel.CHANNELS, dtype=torch.uint8, device=device)
        self.temperature = torch.ones(count, device=device)
        self.noise = FrameNoise(count, dmel.CHANNELS + 2 * c.prenet_width, device)
        self.symbols = [0] * count
        self._poison = bool(os.environ.get(POISON))

    @property
    def carried(self) -> tuple[Tensor, ...]:
        """The tensors that a frame changes."""
        lstms = (self.attention_hidden, self.attention_state, self.decoder_hidden, self.decoder_state)
        return (*lstms, self.context, self.last_shares, self.sum_shares, self.last)

    def reset(self, slot: int) -> None:
        """Give a slot to a new row; its first clause sets the rest."""
        self.noise.reset(slot)
        self.symbols[slot] = 0
        if self._poison:
            for store in (self.memory, self.keys, *self.carried[:-1]):
                store[slot] = float("nan")

    def begin(self, slot: int, given: TacotronClause, memory: Tensor, keys: Tensor) -> None:
        """Start a clause in a slot: its memory [T, D] and keys [T, A], and initial state.

        Raises:
            ContextFull: the clause has too many symbols.
        """
        count = len(memory)
        if count > CAPACITY_SYMBOLS:
            raise ContextFull(
                f"a clause of {count} phonemes is longer than the {CAPACITY_SYMBOLS} that a slot holds",
                "ask for fewer words of a clause",
            )
        self.memory[slot, :count], self.keys[slot, :count] = memory, keys
        for store in self.carried[:5]:
            store[slot] = 0.0
        self.last_shares[slot, :count] = self.sum_shares[slot, :count] = 0.0
        self.last[slot] = torch.from_numpy(given.last)
        self.symbols[slot], self.temperature[slot] = count, given.temperature
        self.noise.seek(slot, given.seed, given.frame)


class TacotronHeadRunner:
    """Runs a trained head for one frame of each row."""

    def __init__(self, trained: TacotronHead, number_format: NumberFormat) -> None:
        self._state, self._up, self._down = (
            RowwiseLinear(layer.weight, None, number_format) for layer in (trained.state, trained.up, trained.down)
        )
        self._table, self._bias = FrameEmbeddingTable(trained.level, trained.frame), trained.frame.bias.detach()

    def __call__(self, decoded: Tensor, context: Tensor, last: Tensor) -> Tensor:
        """[B, R], [B, D] and uint8 [B, 80] -> [B, H]."""
        x = self._state(normalise(torch.cat((decoded, context), 1))) + self._table(last) + self._bias
        return normalise(x + self._down(F.relu(self._up(normalise(x))).square()))


class TacotronRunner:
    """Runs a trained net: each LSTM in one matrix product, both location layers of the attention in one kernel."""

    @torch.no_grad()
    def __init__(self, net: Tacotron, number_format: NumberFormat = "float32") -> None:
        self.net = net
        self._prenet = [RowwiseLinear(layer.weight, None, number_format) for layer in (net.prenet_in, net.prenet_out)]
        cell, attention = net.attention_lstm, net.attention
        of_input, of_hidden, bias, other_bias = net.decoder_lstm.all_weights[0]
        self._attention_gates = RowwiseLinear(
            torch.cat((cell.weight_ih, cell.weight_hh), 1), cell.bias_ih + cell.bias_hh, number_format
        )
        self._decoder_gates = RowwiseLinear(torch.cat((of_input, of_hidden), 1), bias + other_bias, number_format)
        self._query = RowwiseLinear(attention.query.weight, None, number_format)
        self._kernel = attention.location_kernel().contiguous()
        self._head = TacotronHeadRunner(net.head, number_format)
        self._heads = RowwiseLinear(*join_heads(net.levels_out, net.stop_out), number_format)

    def encode(self, given: TacotronClause) -> tuple[Tensor, Tensor]:
        """F_enc of a clause [T, D], and attention keys [T, A]."""
        device = self.net.silence.device
        symbols, prosody = (torch.tensor([[*values]], device=device) for values in (given.symbols, given.prosody))
        speaker = torch.tensor([given.speaker], device=device)
        memory = self.net.encode(symbols, prosody, speaker, torch.ones_like(symbols, dtype=torch.bool))
        return memory[0], self.net.attention.key(memory)[0]

    def begin(self, slots: TacotronSlots, slot: int, given: TacotronClause) -> None:
        """Encode a clause into a slot."""
        slots.begin(slot, given, *self.encode(given))

    def draw(self, slots: TacotronSlots, numbers: list[int]) -> np.ndarray:
        """Sample one frame for each of these slots, with one copy to the CPU for all.

        Returns:
            [B, 3 + 80]: the stop token's logit, a sum that is finite if all logits are, the attended step, the levels.
        """
        index = torch.tensor(numbers, device=slots.last.device)
        noise = slots.noise.next(numbers)
        context = slots.context[index]
        seen = torch.cat((self._look_at(slots.last[index], noise[:, dmel.CHANNELS :]), context), 1)
        gates = self._attention_gates(torch.cat((seen, slots.attention_hidden[index]), 1))
        hidden, slots.attention_state[index] = lstm_step(gates, slots.attention_state[index])
        slots.attention_hidden[index] = hidden
        attended = self._attend(slots, numbers, self._query(hidden), context)
        slots.context[index] = context
        gates = self._decoder_gates(torch.cat((hidden, context, slots.decoder_hidden[index]), 1))
        decoded, slots.decoder_state[index] = lstm_step(gates, slots.decoder_state[index])
        slots.decoder_hidden[index] = decoded
        out = self._heads(self._head(decoded, context, slots.last[index]))
        logits, stop = out[:, :-1].view(len(numbers), dmel.CHANNELS, dmel.LEVELS), out[:, -1:]
        levels = sample_levels(logits, slots.temperature[index], noise[:, : dmel.CHANNELS])
        slots.last[index] = levels
        slots.noise.advance(numbers)
        return torch.cat((stop, out.sum(1, keepdim=True), attended[:, None], levels), 1).cpu().numpy()

    def _look_at(self, levels: Tensor, noise: Tensor) -> Tensor:
        """The pre-net, with dropout from this frame's noise: [B, P]."""
        x, share = frame_values(levels), self.net.config.prenet_dropout
        for layer, drawn in zip(self._prenet, noise.chunk(2, dim=1), strict=True):
            x = F.relu(layer(x)) * (drawn >= share) / (1.0 - share)
        return x

    def _attend(self, slots: TacotronSlots, numbers: list[int], query: Tensor, context: Tensor) -> Tensor:
        """Attend row by row over the valid part of each slot; fills ``context`` [B, D], returns attended steps [B]."""
        where = torch.empty(len(numbers), device=query.device)
        score = self.net.attention.score.weight[0]
        for b, slot in enumerate(numbers):
            count = slots.symbols[slot]
            located = torch.stack((slots.last_shares[slot, :count], slots.sum_shares[slot, :count]))
            places = F.conv1d(located.unsqueeze(0), self._kernel, padding=self._kernel.shape[2] // 2)[0].T
            shares = torch.tanh(query[b] + slots.keys[slot, :count] + places).mv(score).softmax(0)
            slots.last_shares[slot, :count] = shares
            slots.sum_shares[slot, :count] += shares
            context[b] = shares @ slots.memory[slot, :count]
            where[b] = shares.argmax()
        return where


class TacotronDecodeModule:
    """Samples a chunk of frames of each row; their state is in the slots."""

    max_rows = MAX_DECODE_ROWS

    def __init__(self, runner: TacotronRunner) -> None:
        self._runner = runner

    @torch.inference_mode()
    def run(
        self, slots: TacotronSlots, rows: Sequence[tuple[int, ...]], inputs: Sequence[TacotronChunk]
    ) -> list[TacotronFrames]:
        """See ``studio.engine.families.base.Module``."""
        index = torch.tensor([slot for (slot,) in rows], device=slots.last.device)
        before = [store[index] for store in slots.carried]
        frames = [slots.noise.frame[slot] for (slot,) in rows]
        try:
            return self._run(slots, [slot for (slot,) in rows], inputs)
        except Exception:
            for store, was in zip(slots.carried, before, strict=True):
                store[index] = was
            for (slot,), frame in zip(rows, frames, strict=True):
                slots.noise.frame[slot] = frame
            raise

    def _run(self, slots: TacotronSlots, numbers: list[int], inputs: Sequence[TacotronChunk]) -> list[TacotronFrames]:
        results: list[list[np.ndarray]] = [[] for _ in numbers]
        active = [b for b, given in enumerate(inputs) if given.frames]
        while active:
            for b, row in zip(active, self._runner.draw(slots, [numbers[b] for b in active]), strict=True):
                results[b].append(row)
            active = [b for b in active if len(results[b]) < inputs[b].frames and sigmoid(results[b][-1][0]) < EOS_AT]
        return [_to_frames(np.array(rows, np.float32).reshape(-1, _RESULT_WIDTH)) for rows in results]


def _to_frames(rows: np.ndarray) -> TacotronFrames:
    return TacotronFrames(
        levels=rows[:, 3:].astype(np.uint8),
        p_stop=[sigmoid(stop) for stop in rows[:, 0]],
        attended=rows[:, 2].astype(np.int64),
        is_finite=bool(np.isfinite(rows[:, :2]).all()),
    )


NOTES = (
    "It speaks clause by clause: a clause is complete at a mark or after a number of words, and is spoken only then."
)


class TacotronFamily(DmelFamily[TacotronRow]):
    """Incremental Tacotron 2; the prompt is silence, whose last frame is fed to the net."""

    attends_to = ATTENDS_TO

    def __init__(self, net: Tacotron, rows: int, device: torch.device, number_format: NumberFormat = "float32") -> None:
        self.net = net.eval()
        runner = TacotronRunner(net, number_format)
        self.slots = TacotronSlots(net, rows, device)
        self.modules: Mapping[str, Module] = {
            "encode": PrefillModule(runner.begin),
            "decode": TacotronDecodeModule(runner),
        }
        self.prompts = net.silence.cpu().numpy()

    @staticmethod
    def load(card: Card, folder: Path, device: torch.device, rows: int) -> "TacotronFamily":
        """Load a card's checkpoint and verify its weights. Raises BadVoice, NeedsPackage."""
        phonemes.load()
        config = TacotronConfig.read(card.config)
        check(config)
        net = Tacotron(config)
        load_weights(net, folder, card, "tacotron.safetensors")
        return TacotronFamily(net.to(device), rows, device, check_format(card.number_format))

    def start_lookup(self, words: Sequence[str]) -> Future[None] | None:
        """See ``studio.engine.families.base.SupportsLookup``."""
        return phonemes.request_phonemes(words)

    def _row(self, setup: RowSetup, forced: TeacherForcingInput | None) -> TacotronRow:
        longest = NO_LIMIT if forced else self.net.config.longest_word_frames
        return TacotronRow(setup, self.prompts[setup.speaker], longest, phonemes.pronounce)

    def _force(self, row: TacotronRow, given: TeacherForcingInput) -> Iterator[TeacherForcedSegment]:
        return TacotronTeacherForcing(self.net, row, given).segments()


def check(config: TacotronConfig) -> None:
    """Raises BadVoice unless the sizes are consistent."""
    odd = config.kernel % 2 == config.location_kernel % 2 == 1
    if not odd or config.width % 2:
        raise BadVoice("the card's sizes are of no net that can run", "restore card.json from the repository")


INFO = FamilyInfo(
    "tacotron",
    "Incremental Tacotron 2 (paper 004)",
    OPTION_SPECS,
    TacotronOptions().look_ahead_words,
    TacotronFamily.load,
    NOTES,
    compared=({"clause_words": 4}, {"clause_words": 8}, {"mode": WHOLE}),
    supports_teacher_forcing=True,
)
