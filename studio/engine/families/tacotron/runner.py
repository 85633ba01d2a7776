"""Incremental Tacotron 2 at inference. Modules: encode (a clause, once) and decode (a chunk of its frames)."""

from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import Future
from pathlib import Path

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from studio.core.cards import Card
from studio.core.errors import BadVoice
from studio.engine.families.base import FamilyInfo, Module
from studio.engine.families.common.rows import RowSetup
from studio.engine.families.common.runner import DmelFamily, Form, PrefillModule, form_on, join_heads
from studio.engine.families.common.teacher_forcing import NO_LIMIT, TeacherForcedSegment, TeacherForcingInput
from studio.engine.families.tacotron.decode import TacotronDecodeModule, TacotronSlots
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
    TacotronClause,
    TacotronOptions,
    TacotronRow,
)
from studio.engine.families.tacotron.teacher_forcing import ATTENDS_TO, TacotronTeacherForcing
from studio.engine.nets.frame_decoder import FrameEmbeddingTable
from studio.engine.nets.linear import NumberFormat, RowwiseLinear, check_format
from studio.engine.nets.loading import load_weights
from studio.engine.nets.sampling import sample_levels
from studio.engine.tokenizers import dmel
from studio.text import phonemes


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
    """A trained net on a CPU: each LSTM in one matrix product, both location layers of the attention in one kernel."""

    @torch.no_grad()
    def __init__(self, net: Tacotron, number_format: NumberFormat = "float32") -> None:
        self._net = net
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

    def draw(self, slots: TacotronSlots, numbers: list[int], frames: Sequence[int]) -> list[np.ndarray]:
        """Sample a frame of each slot; see ``TacotronDrawer``."""
        index = torch.tensor(numbers)
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
        return [*torch.cat((stop, out.sum(1, keepdim=True), attended[:, None], levels), 1).unsqueeze(1).numpy()]

    def _look_at(self, levels: Tensor, noise: Tensor) -> Tensor:
        """The pre-net, with dropout from this frame's noise: [B, P]."""
        x, share = frame_values(levels), self._net.config.prenet_dropout
        for layer, uniform_noise in zip(self._prenet, noise.chunk(2, dim=1), strict=True):
            x = F.relu(layer(x)) * (uniform_noise >= share) / (1.0 - share)
        return x

    def _attend(self, slots: TacotronSlots, numbers: list[int], query: Tensor, context: Tensor) -> Tensor:
        """Attend row by row over the valid part of each slot; fills ``context`` [B, D], returns attended steps [B]."""
        where = torch.empty(len(numbers))
        score = self._net.attention.score.weight[0]
        for b, slot in enumerate(numbers):
            count = slots.symbols[slot]
            located = torch.stack((slots.last_shares[slot, :count], slots.sum_shares[slot, :count]))
            location = F.conv1d(located.unsqueeze(0), self._kernel, padding=self._kernel.shape[2] // 2)[0].T
            shares = torch.tanh(query[b] + slots.keys[slot, :count] + location).mv(score).softmax(0)
            slots.last_shares[slot, :count] = shares
            slots.sum_shares[slot, :count] += shares
            context[b] = shares @ slots.encoded[slot, :count]
            where[b] = shares.argmax()
        return where


NOTES = (
    "It speaks clause by clause: a clause is complete at a mark or after a number of words, and is spoken only then."
)


class TacotronFamily(DmelFamily[TacotronRow]):
    """Incremental Tacotron 2; the prompt is silence, whose last frame is fed to the net."""

    attends_to = ATTENDS_TO

    def __init__(
        self,
        net: Tacotron,
        rows: int,
        device: torch.device,
        number_format: NumberFormat = "float32",
        form: Form | None = None,
    ) -> None:
        self.net, is_cuda = net.eval(), form_on(device, form) == "cuda"
        self.slots = TacotronSlots(net.config, rows, device, is_cuda=is_cuda)
        if is_cuda:
            from studio.engine.families.tacotron.cuda import TacotronCudaModule  # Triton: on a GPU only

            decode: Module = TacotronCudaModule(net, self.slots)
        else:
            decode = TacotronDecodeModule(TacotronRunner(net, number_format))
        self.modules: Mapping[str, Module] = {"encode": PrefillModule(self._encode), "decode": decode}
        self.prompts = net.silence.cpu().numpy()

    def _encode(self, slots: TacotronSlots, slot: int, clause: TacotronClause) -> None:
        """Encode a clause into a slot."""
        device = self.net.silence.device
        symbols, prosody = (torch.tensor([[*values]], device=device) for values in (clause.symbols, clause.prosody))
        speaker = torch.tensor([clause.speaker], device=device)
        encoded = self.net.encode(symbols, prosody, speaker, torch.ones_like(symbols, dtype=torch.bool))
        slots.begin(slot, clause, encoded[0], self.net.attention.key(encoded)[0])

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

    def _force(self, row: TacotronRow, recording: TeacherForcingInput) -> Iterator[TeacherForcedSegment]:
        return TacotronTeacherForcing(self.net, row, recording).segments()


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
