"""SpeakStream (paper 000): text and speech segments interleaved in one decoder-only stream.

Three parts: the feeding rule (plain Python, no net), the alphabet of characters, and the net.
"""

from dataclasses import asdict, dataclass
from typing import Any

import torch
from torch import Tensor, nn

from studio.core.cards import OptionSpec
from studio.core.errors import BadOption
from studio.engine import dmel
from studio.engine.nets.transformer import Decoder, DecoderConfig, by_tiles

LARGEST_WINDOW = 6
SCHEMES = ("S1", "S2")


# ---------------------------------------------------------------- the feeding rule (section III.C)


@dataclass(frozen=True)
class Options:
    """How text is cut: S1 repeats the look-ahead words in every window, S2 feeds each word once.

    ``m`` words are seen per segment (text window), ``n`` are spoken (speech hop), 1 <= n <= m <= 6.
    """

    scheme: str = "S1"
    m: int = 3
    n: int = 1

    def __post_init__(self) -> None:
        if self.scheme not in SCHEMES:
            raise BadOption(f"there is no scheme {self.scheme!r}", f"it is one of {', '.join(SCHEMES)}")
        for name, value in (("window m", self.m), ("hop n", self.n)):
            if type(value) is not int or not 1 <= value <= LARGEST_WINDOW:  # True is an int, and no number of words
                raise BadOption(
                    f"{name} = {value!r} is not allowed", f"it is a whole number from 1 to {LARGEST_WINDOW}"
                )
        if self.n > self.m:
            raise BadOption(
                f"hop n = {self.n} is more than window m = {self.m}",
                f"1 <= n <= m <= {LARGEST_WINDOW}: a segment cannot speak more words than it sees",
            )

    @property
    def look_ahead_words(self) -> int:
        """Committed words that the first word of a segment waits for."""
        return self.m - 1


OPTION_SPECS = (
    OptionSpec(
        "scheme", "choice", "S1", "Scheme", "S1 repeats the look-ahead words, S2 feeds each once", choices=SCHEMES
    ),
    OptionSpec("m", "int", 3, "Window m", "words seen per segment", low=1, high=LARGEST_WINDOW),
    OptionSpec("n", "int", 1, "Hop n", "words spoken per segment, at most m", low=1, high=LARGEST_WINDOW),
)


@dataclass(frozen=True)
class Plan:
    """What to feed for the next segment, and which words it speaks (indices of spoken words, from 0).

    Attributes:
        feed: words whose characters enter now (S2 may feed none).
        close: the text's own end token follows them.
        speak: words of this segment.
        look_ahead: words seen beyond the ones spoken.
    """

    scheme: str
    feed: range
    close: bool
    speak: range
    look_ahead: int


class FeedingRule:
    """What to feed next, from two counters: s words spoken and f words fed.

    S1 feeds w_{s+1} .. w_min(t, s+m) again for every segment; S2 feeds w_{f+1} .. w_min(t, s+m), perhaps nothing.
    That gives the paper's examples and closed forms, and says what a change of m, n or scheme in mid-text means.
    The text's end token closes a window exactly when fewer than m words were left before it (s + m > t).
    """

    def __init__(self) -> None:
        self.spoken = 0
        self.fed = 0
        self.closed = False

    def next(self, committed: int, options: Options, *, ended: bool = False, flushed: int = 0) -> Plan | None:
        """The next segment's plan, or None while its words are not there yet.

        Args:
            committed: words committed so far (t).
            ended: no more words will come.
            flushed: words before this one are to be spoken without waiting.
        """
        s, t = self.spoken, committed
        full = t >= s + options.m
        if s >= t or not (full or ended or s < flushed):
            return None
        last = min(t, s + options.m)
        start = s if options.scheme == "S1" else max(self.fed, s)
        close = ended and s + options.m > t and (options.scheme == "S1" or not self.closed)
        spoken_now = min(options.n, last - s)
        fed = max(self.fed, last)
        plan = Plan(
            options.scheme, range(start, max(start, last)), close, range(s, s + spoken_now), fed - s - spoken_now
        )
        self.spoken, self.fed = s + spoken_now, fed
        self.closed = self.closed or close
        return plan


# ---------------------------------------------------------------- the alphabet

CHARACTERS = "abcdefghijklmnopqrstuvwxyz',.?!;:"
_OTHER = ("filler", "space", "w_eos", "bos")
FILLER, SPACE, W_EOS, BOS = range(len(_OTHER))
SYMBOLS = len(_OTHER) + len(CHARACTERS)
_ID = {c: i + len(_OTHER) for i, c in enumerate(CHARACTERS)}


def spell(word: str) -> list[int]:
    """Character ids of a spoken word, with the space that commits it."""
    return [_ID[c] for c in word] + [SPACE]


# ---------------------------------------------------------------- the net (section III.B)


@dataclass(frozen=True)
class Config:
    """Sizes. ``context_frames`` is what a slot remembers at a segment's start, ``kept_frames`` what a drop leaves."""

    layers: int
    width: int
    heads: int
    hidden: int
    speakers: int
    level_width: int = 8
    context_frames: int = 600
    kept_frames: int = 360
    longest_word_frames: int = 60  # a segment without EOS is cut at this many frames for each of its words

    @staticmethod
    def named(name: str, speakers: int = 2) -> "Config":
        """``paper`` (36 layers, 258M parameters: section IV.A) or ``small`` (shipped)."""
        sizes = {
            "paper": Config(36, 768, 12, 3072, speakers),
            "small": Config(4, 256, 4, 1024, speakers),
        }
        if name not in sizes:
            raise BadOption(f"there is no config {name!r}", f"there are {', '.join(sizes)}")
        return sizes[name]

    def to_dict(self) -> dict[str, Any]:
        """The card's form."""
        return asdict(self)


class SpeakStream(nn.Module):
    """Characters and dMel frames in, the next frame's 80 channels and p_eos out."""

    def __init__(self, config: Config) -> None:
        super().__init__()
        self.config = config
        width = config.width
        self.symbol = nn.Embedding(SYMBOLS, width)
        self.level = nn.Embedding(dmel.SYMBOLS, config.level_width)
        self.frame = nn.Linear(dmel.CHANNELS * config.level_width, width)
        self.scheme = nn.Embedding(len(SCHEMES), width)
        self.spoken = nn.Embedding(LARGEST_WINDOW + 1, width)
        self.look_ahead = nn.Embedding(2 * LARGEST_WINDOW, width)
        self.speaker = nn.Embedding(config.speakers, width)
        self.decoder = Decoder(DecoderConfig(config.layers, width, config.heads, config.hidden))
        self.levels_out = nn.Linear(width, dmel.CHANNELS * dmel.LEVELS)
        self.eos_out = nn.Linear(width, 1)
        # frames of each speaker's silence: the prompt of 200-400 ms after the first BOS (section IV.D)
        self.silence: Tensor
        self.register_buffer("silence", torch.zeros(config.speakers, 10, dmel.CHANNELS, dtype=torch.uint8))
        for table in (self.symbol, self.scheme, self.spoken, self.look_ahead, self.speaker):
            nn.init.normal_(table.weight, std=0.5)
        nn.init.normal_(self.level.weight, std=1.0)
        with torch.no_grad():  # levels are ordered: begin with a table that says so
            self.level.weight[: dmel.LEVELS, 0] = torch.linspace(-1.7, 1.7, dmel.LEVELS)
        nn.init.zeros_(self.levels_out.weight)
        nn.init.zeros_(self.eos_out.weight)
        nn.init.constant_(self.eos_out.bias, -3.0)

    def embed_symbols(self, ids: Tensor, speaker: Tensor) -> Tensor:
        """Characters, w_eos: [B, T] of ids and [B] of speakers -> [B, T, D]."""
        return self.symbol(ids) + self.speaker(speaker).unsqueeze(1)

    def embed_bos(self, windows: Tensor, speaker: Tensor) -> Tensor:
        """s_bos with its window (scheme, words spoken now, look-ahead present): [N, 3] and [N] -> [N, D]."""
        scheme, spoken, look_ahead = windows.unbind(-1)
        look_ahead = look_ahead.clamp(max=self.look_ahead.num_embeddings - 1)
        bos = self.symbol.weight[BOS] + self.scheme(scheme) + self.spoken(spoken) + self.look_ahead(look_ahead)
        return bos + self.speaker(speaker)

    def embed_frames(self, levels: Tensor, speaker: Tensor) -> Tensor:
        """Frames (or s_eos, id 18 in every channel): uint8 [N, 80] and [N] -> [N, D]."""
        return self.frame(self.level(levels.long()).flatten(1)) + self.speaker(speaker)

    def heads(self, hidden: Tensor) -> tuple[Tensor, Tensor]:
        """Logits of the next frame's levels [B, ..., 80, 16] and of s_eos [B, ...]."""
        levels = torch.cat(by_tiles(self.levels_out, hidden)).unflatten(-1, (dmel.CHANNELS, dmel.LEVELS))
        return levels, torch.cat(by_tiles(self.eos_out, hidden)).squeeze(-1)
