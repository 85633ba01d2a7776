"""Incremental Tacotron 2's model (paper 004, sections 2.1.2, 2.1.3): CBRL encoder, location-sensitive attention, LSTMs.

The paper's last linear layer predicts a mel frame; here a frame is sampled from a distribution over dMel levels.
"""

from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence

from studio.engine.families.common.text_tokens import STRESSED, SYMBOLS
from studio.engine.nets.frame_decoder import init_levels
from studio.engine.nets.loading import NetConfig
from studio.engine.tokenizers import dmel

PROSODY_LEVELS = 3  # prosodic word, phonological phrase, intonational phrase


@dataclass(frozen=True)
class TacotronConfig(NetConfig):
    """NetConfig.

    Attributes:
        width: of symbols, of the encoder's convolutions and of its output.
        decoder_width: of both LSTMs; prenet_width, attention_width: of the pre-net's output and of queries and keys.
        head_width: of the head's input; level_width: of a level's embedding there.
        convolutions, kernel: of the encoder; location_filters, location_kernel: of the attention.
        prenet_dropout: also in inference; encoder_dropout: in training only.
        longest_word_frames: a clause without an end is cut at this many frames per word.
    """

    width: int
    decoder_width: int
    prenet_width: int
    attention_width: int
    head_width: int
    speakers: int
    convolutions: int = 3
    kernel: int = 5
    location_filters: int = 32
    location_kernel: int = 31
    prenet_dropout: float = 0.5
    encoder_dropout: float = 0.5
    level_width: int = 8
    longest_word_frames: int = 60

    @staticmethod
    def named(name: str, speakers: int = 2) -> "TacotronConfig":
        """``paper`` (Tacotron 2's own sizes), ``small`` (to be shipped) or ``tiny`` (for tables)."""
        sizes = {
            "paper": TacotronConfig(512, 1024, 256, 128, 512, speakers),
            "small": TacotronConfig(160, 256, 128, 96, 288, speakers, prenet_dropout=0.1, encoder_dropout=0.2),
            "tiny": TacotronConfig(
                96, 128, 96, 64, 128, speakers, location_filters=16, prenet_dropout=0.1, encoder_dropout=0.1
            ),
        }
        return TacotronConfig.pick(name, sizes)


class Encoder(nn.Module):
    """CBRL (equation 2): convolutions, each with a norm and a ReLU, and a bidirectional LSTM.

    Layer norm instead of the paper's batch norm: a clause must not depend on its batch. Layers are residual, so that
    phoneme identity need not be learned through all of them first (docs/adr/0025).
    """

    def __init__(self, config: TacotronConfig) -> None:
        super().__init__()
        width, kernel = config.width, config.kernel
        self.dropout = config.encoder_dropout
        self.convolutions = nn.ModuleList(
            nn.Conv1d(width, width, kernel, padding=kernel // 2) for _ in range(config.convolutions)
        )
        self.norms = nn.ModuleList(nn.LayerNorm(width) for _ in range(config.convolutions))
        self.lstm = nn.LSTM(width, width // 2, batch_first=True, bidirectional=True)

    def forward(self, x: Tensor, real: Tensor) -> Tensor:
        """Encode embedded symbols [B, T, D] -> [B, T, D]; ``real`` bool [B, T] is False for padding."""
        there = real.unsqueeze(2)
        for convolution, norm in zip(self.convolutions, self.norms, strict=True):
            mixed = convolution((x * there).transpose(1, 2)).transpose(1, 2)
            x = x + F.dropout(F.relu(norm(mixed)), self.dropout, self.training)
        packed = pack_padded_sequence(x, real.sum(1).cpu(), batch_first=True, enforce_sorted=False)
        out, _ = self.lstm(packed)
        return x + pad_packed_sequence(out, batch_first=True, total_length=x.shape[1])[0]


class LocationSensitiveAttention(nn.Module):
    """Attention that also sees its weights of the last frame, and their sum over all frames so far.

    score[t] = v . tanh(W h + V f[t] + U conv([W_last, W_acc])[t]) (Chorowski et al. 2015; Shen et al. 2018).
    """

    def __init__(self, config: TacotronConfig) -> None:
        super().__init__()
        width, filters, kernel = config.attention_width, config.location_filters, config.location_kernel
        self.query = nn.Linear(config.decoder_width, width, bias=False)
        self.key = nn.Linear(config.width, width, bias=False)
        self.convolution = nn.Conv1d(2, filters, kernel, padding=kernel // 2, bias=False)
        self.location = nn.Linear(filters, width, bias=False)
        self.score = nn.Linear(width, 1, bias=False)

    def location_kernel(self) -> Tensor:
        """Convolution and linear layer as one kernel [A, 2, K]."""
        return torch.einsum("af,fck->ack", self.location.weight, self.convolution.weight)

    def forward(self, query: Tensor, keys: Tensor, located: Tensor, kernel: Tensor, real: Tensor) -> Tensor:
        """Shares [B, T] of a query [B, A] over keys [B, T, A].

        Args:
            located: [B, 2, T], W_last and W_acc.
            kernel: from ``location_kernel``.
            real: bool [B, T].
        """
        where = F.conv1d(located, kernel, padding=kernel.shape[2] // 2).transpose(1, 2)
        scores = self.score(torch.tanh(query.unsqueeze(1) + keys + where)).squeeze(2).float()
        return scores.masked_fill(~real, float("-inf")).softmax(1)


class TacotronHead(nn.Module):
    """Maps the decoder's output, the context and the frame before to head inputs [..., H].

    It replaces Tacotron 2's PostNet, which corrects a mean using the frames around it. A sample of 80 channels has to
    continue the exact levels before it, which the pre-net's dropout hides from the decoder (docs/adr/0019).

    Args:
        state_width: of the decoder's output and the context together.
        width: H.
        level_width: of a level's embedding.
    """

    def __init__(self, state_width: int, width: int, level_width: int) -> None:
        super().__init__()
        self.state = nn.Linear(state_width, width, bias=False)
        self.level = nn.Embedding(dmel.SYMBOLS, level_width)
        self.frame = nn.Linear(dmel.CHANNELS * level_width, width)
        self.up = nn.Linear(width, 2 * width, bias=False)
        self.down = nn.Linear(2 * width, width, bias=False)
        init_levels(self.level)

    def forward(self, decoded: Tensor, context: Tensor, fed: Tensor) -> Tensor:
        """Whole clauses.

        Args:
            decoded, context: [..., R] and [..., D].
            fed: uint8 [..., 80], the frame before each.
        """
        x = self.state(normalise(torch.cat((decoded, context), dim=-1)))
        x = x + self.frame(self.level(fed.long()).flatten(-2))
        return normalise(x + self.down(F.relu(self.up(normalise(x))).square()))

    def matrices(self) -> list[nn.Parameter]:
        """Its matrices, without the table of levels."""
        return [p for layer in (self.state, self.frame, self.up, self.down) for p in layer.parameters() if p.ndim == 2]


class Tacotron(nn.Module):
    """Maps the phonemes of a clause to its frames' levels, stop token and attention."""

    def __init__(self, config: TacotronConfig) -> None:
        super().__init__()
        self.config = c = config
        self.symbol = nn.Embedding(SYMBOLS, c.width)
        self.stress = nn.Embedding(STRESSED, c.width)
        self.prosody = nn.Embedding(2 * PROSODY_LEVELS, c.width)  # no and yes, of each level
        self.encoder = Encoder(c)
        self.speaker = nn.Embedding(c.speakers, c.width)
        self.prenet_in = nn.Linear(dmel.CHANNELS, c.prenet_width, bias=False)
        self.prenet_out = nn.Linear(c.prenet_width, c.prenet_width, bias=False)
        self.attention = LocationSensitiveAttention(c)
        self.attention_lstm = nn.LSTMCell(c.prenet_width + c.width, c.decoder_width)
        self.decoder_lstm = nn.LSTM(c.decoder_width + c.width, c.decoder_width, batch_first=True)
        self.head = TacotronHead(c.decoder_width + c.width, c.head_width, c.level_width)
        self.levels_out = nn.Linear(c.head_width, dmel.CHANNELS * dmel.LEVELS)
        self.stop_out = nn.Linear(c.head_width, 1)
        # each speaker's silence, which precedes every utterance
        self.silence: Tensor
        self.register_buffer("silence", torch.zeros(c.speakers, dmel.SILENCE_FRAMES, dmel.CHANNELS, dtype=torch.uint8))
        for table in (self.symbol, self.stress, self.prosody, self.speaker):
            nn.init.normal_(table.weight, std=0.3)
        nn.init.zeros_(self.levels_out.weight)
        nn.init.zeros_(self.stop_out.weight)
        nn.init.constant_(self.stop_out.bias, -3.0)

    def encode(self, symbols: Tensor, prosody: Tensor, speaker: Tensor, real: Tensor) -> Tensor:
        """F_enc (equation 2) of clauses.

        Args:
            symbols: int64 [B, T], phonemes with their stress.
            prosody: int64 [B, T], bits as in ``policy.prosody_of``.
            speaker: int64 [B].
            real: bool [B, T], False for padding.

        Returns:
            [B, T, D], speaker embedding included.
        """
        levels = [2 * level + ((prosody >> level) & 1) for level in range(PROSODY_LEVELS)]
        # A matrix product instead of look-ups, whose gradients are slow on a CPU in half precision.
        tables = torch.cat((self.symbol.weight, self.stress.weight, self.prosody.weight))
        which = torch.cat(
            (
                F.one_hot(symbols % SYMBOLS, SYMBOLS),
                F.one_hot(symbols // SYMBOLS, STRESSED),
                F.one_hot(torch.stack(levels), 2 * PROSODY_LEVELS).sum(0),
            ),
            dim=2,
        )
        return self.encoder(which.to(tables.dtype) @ tables, real) + self.speaker(speaker).unsqueeze(1)

    def look_at(self, levels: Tensor, noise: Tensor | None = None) -> Tensor:
        """Pre-net: frames uint8 [..., 80] -> [..., P].

        Args:
            noise: [..., 2 P] in (0, 1), which decides both dropouts; torch's own generator if None.
        """
        x, share = frame_values(levels).to(self.prenet_in.weight.dtype), self.config.prenet_dropout
        for k, layer in enumerate((self.prenet_in, self.prenet_out)):
            x = F.relu(layer(x))
            if noise is None:
                x = F.dropout(x, share, training=True)  # in inference, too
            else:
                x = x * (noise.chunk(2, dim=-1)[k] >= share) / (1.0 - share)
        return x

    def decode(self, encoded: Tensor, real: Tensor, fed: Tensor, noise: Tensor | None = None) -> tuple[Tensor, Tensor]:
        """Decode whole clauses (equation 3), each frame from the true one before it.

        Args:
            encoded: [B, T, D], from ``encode``.
            real: bool [B, T].
            fed: uint8 [B, F, 80], the frame before each.
            noise: [B, F, 2 P], see ``look_at``.

        Returns:
            Head inputs [B, F, H], and attention float32 [B, F, T].
        """
        cell, attention = self.attention_lstm, self.attention
        looked, bias = self.look_at(fed, noise), cell.bias_ih + cell.bias_hh
        seen = F.linear(looked, cell.weight_ih[:, : self.config.prenet_width], bias)
        again = torch.cat((cell.weight_ih[:, self.config.prenet_width :], cell.weight_hh), dim=1)
        keys, kernel = attention.key(encoded), attention.location_kernel()
        hidden = state = encoded.new_zeros(len(encoded), self.config.decoder_width)
        context = encoded.new_zeros(len(encoded), encoded.shape[2])
        last = total = encoded.new_zeros(encoded.shape[:2])
        hiddens, contexts, shares = list[Tensor](), list[Tensor](), list[Tensor]()
        for frame in range(fed.shape[1]):
            gates = seen[:, frame] + F.linear(torch.cat((context, hidden), dim=1), again)
            hidden, state = lstm_step(gates, state)
            weights = attention(attention.query(hidden), keys, torch.stack((last, total), dim=1), kernel, real)
            last = weights.to(encoded.dtype)
            total = total + last
            context = torch.bmm(last.unsqueeze(1), encoded).squeeze(1)
            hiddens.append(hidden)
            contexts.append(context)
            shares.append(weights)
        attended = torch.stack(contexts, dim=1)
        decoded, _ = self.decoder_lstm(torch.cat((torch.stack(hiddens, dim=1), attended), dim=2))
        return self.head(decoded, attended, fed), torch.stack(shares, dim=1)

    def decode_along(
        self, encoded: Tensor, real: Tensor, fed: Tensor, weights_before: Tensor, noise: Tensor | None = None
    ) -> tuple[Tensor, Tensor]:
        """Decode whole clauses with attention that continues from ``weights_before``, all frames at once.

        No frame waits for the attention of the one before it: a training step takes three quarters of the time.

        Args:
            weights_before: [B, F, T], the attention that each frame continues with.

        Returns:
            As ``decode``; the returned attention is the net's own.
        """
        cell, attention, frames = self.attention_lstm, self.attention, fed.shape[1]
        weights_before = weights_before.to(encoded.dtype)
        attended = torch.bmm(weights_before, encoded)
        start = encoded.new_zeros(1, len(encoded), self.config.decoder_width)
        weights = [cell.weight_ih, cell.weight_hh, cell.bias_ih, cell.bias_hh]
        entered = torch.cat((self.look_at(fed, noise), _delay(attended)), dim=2)
        hidden, _, _ = torch.lstm(entered, (start, start), weights, True, 1, 0.0, self.training, False, True)
        last = _delay(weights_before)
        shares = attention(
            attention.query(hidden).flatten(0, 1),
            attention.key(encoded).repeat_interleave(frames, 0),
            torch.stack((last, last.cumsum(1)), dim=2).flatten(0, 1),
            attention.location_kernel(),
            real.repeat_interleave(frames, 0),
        )
        decoded, _ = self.decoder_lstm(torch.cat((hidden, attended), dim=2))
        return self.head(decoded, attended, fed), shares.unflatten(0, (-1, frames))

    def heads(self, seen: Tensor) -> tuple[Tensor, Tensor]:
        """Logits of a frame's levels [..., 80, 16] and of the stop token [...]."""
        levels = self.levels_out(seen).unflatten(-1, (dmel.CHANNELS, dmel.LEVELS))
        return levels, self.stop_out(seen).squeeze(-1)


def _delay(x: Tensor) -> Tensor:
    """[B, F, N] delayed by one frame; the first one is zero."""
    return F.pad(x, (0, 0, 1, 0))[:, :-1]


def normalise(x: Tensor) -> Tensor:
    """Zero mean and unit deviation along the last dimension."""
    return F.layer_norm(x, x.shape[-1:])


def frame_values(levels: Tensor) -> Tensor:
    """Levels uint8 scaled to [-1, 1], float32."""
    return levels.float() * (2.0 / (dmel.LEVELS - 1)) - 1.0


def lstm_step(gates: Tensor, state: Tensor) -> tuple[Tensor, Tensor]:
    """Hidden and cell state [B, R] after gates [B, 4 R] (input, forget, cell, output) and a cell state."""
    enter, keep, new, leave = gates.chunk(4, dim=1)
    state = torch.sigmoid(keep) * state + torch.sigmoid(enter) * torch.tanh(new)
    return torch.sigmoid(leave) * torch.tanh(state), state
