"""SpeakStream at work: slots of keys and values, and streams that turn committed words into frames."""

from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from studio.core.cards import Card
from studio.core.errors import BadOption, Busy
from studio.core.events import Eos, Event, Frames, Segment, WordEnd, WordStart
from studio.engine import dmel
from studio.engine.families.base import FamilyInfo, Turn
from studio.engine.families.speakstream import (
    OPTION_SPECS,
    SCHEMES,
    W_EOS,
    Config,
    FeedingRule,
    Options,
    Plan,
    SpeakStream,
    spell,
)
from studio.engine.sampling import sample_levels
from studio.engine.state import KeyValueCache
from studio.engine.weights import load_weights

EOS_AT = 0.5  # p_eos that ends a segment
CAPACITY_TOKENS = 6144


class SpeakStreamFamily:
    """A loaded checkpoint with a number of slots."""

    def __init__(self, net: SpeakStream, places: int, device: torch.device, temperature: float) -> None:
        self.net, self.places, self.device = net.eval(), places, device
        config = net.decoder.config
        self.cache = KeyValueCache(
            config.layers, places, config.heads, CAPACITY_TOKENS, config.head_width, device=device
        )
        self.free = list(range(places))
        self.temperature = temperature

    @staticmethod
    def load(card: Card, folder: Path, device: torch.device, places: int) -> "SpeakStreamFamily":
        """The family of a card, verified weights in it. Raises BadVoice."""
        net = SpeakStream(Config(**card.config))
        load_weights(net, folder, card, "speakstream.safetensors")
        return SpeakStreamFamily(net.to(device), places, device, card.temperature)

    def prompt(self, speaker: int) -> Tensor:
        """The silence prompt of a speaker, uint8 [S, 80] (section IV.D)."""
        return self.net.silence[speaker]

    def open(
        self, speaker: int, options: Mapping[str, Any], temperature: float, seed: int
    ) -> tuple["SpeakStreamStream", dict[str, Any]]:
        """A stream in a free slot. Raises BadOption, Busy."""
        chosen = _options(Options(), options)
        if not self.free:
            raise Busy(f"all {self.places} places are taken", "try again when one of them has ended")
        slot = self.free.pop()
        self.cache.reset(slot)
        stream = SpeakStreamStream(self, slot, speaker, chosen, temperature, seed)
        return stream, vars(chosen).copy()

    @torch.inference_mode()
    def extend(self, slots: list[int], x: Tensor) -> tuple[Tensor, Tensor]:
        """Run tokens [B, T, D] of slots; answers logits after the last one, [B, 80, 16], and p_eos [B]."""
        hidden = self.net.decoder.extend(x, self.cache, slots)[:, -1]
        levels, eos = self.net.heads(hidden)
        return levels, eos.sigmoid()


@dataclass
class _Segment:
    """The segment being spoken."""

    index: int
    plan: Plan
    first_frame: int
    limit_frames: int
    tokens: int
    frames: int = 0


class SpeakStreamStream:
    """One utterance: words in, one frame a turn out (section III.D)."""

    def __init__(
        self, family: SpeakStreamFamily, slot: int, speaker: int, options: Options, temperature: float, seed: int
    ) -> None:
        self._family, self._slot, self._options = family, slot, options
        self._speaker = torch.tensor([speaker], device=family.device)
        self._temperature = torch.tensor([temperature], device=family.device)
        self._seed = torch.tensor([seed], device=family.device)
        self._rule = FeedingRule()
        self._words: list[str] = []
        self._flushed = 0
        self._ended = False
        self._segment: _Segment | None = None
        self._past: deque[_Segment] = deque()
        self._frames = 0
        self._segments = 0
        self._logits: Tensor | None = None
        self._last: Tensor | None = None  # the frame made last, not yet fed back

    def commit(self, words: Sequence[str]) -> None:
        """Append spoken words."""
        self._words += words

    def flush(self) -> None:
        """Shrink windows to what is committed."""
        self._flushed = len(self._words)

    def end(self) -> None:
        """No more words will come."""
        self._ended = True

    def set_options(self, options: Mapping[str, Any], temperature: float | None) -> dict[str, Any]:
        """Options from the next segment on. Raises BadOption."""
        self._options = _options(self._options, options)
        if temperature is not None:
            self._temperature = torch.full_like(self._temperature, temperature)
        return vars(self._options).copy()

    def check(self, options: Mapping[str, Any]) -> None:
        """Raises BadOption when options do not fit with those in force."""
        _options(self._options, options)

    @property
    def over(self) -> bool:
        """Whether everything was spoken and nothing can follow."""
        return self._ended and self._segment is None and self.unspoken == 0

    @property
    def unspoken(self) -> int:
        """Committed words that no segment has taken yet."""
        return len(self._words) - self._rule.spoken

    def close(self) -> None:
        """Free the slot, once."""
        if self._slot >= 0:
            self._family.free.append(self._slot)
            self._slot = -1

    @torch.inference_mode()
    def turn(self) -> Turn | None:
        """A segment's text and first frame, or its next frame, or its end."""
        if self._segment is None:
            plan = self._rule.next(len(self._words), self._options, ended=self._ended, flushed=self._flushed)
            if plan is None:
                return None
            return self._begin(plan)
        return self._go_on(self._segment)

    def _begin(self, plan: Plan) -> Turn:
        net, first = self._family.net, self._segments == 0
        symbols = [symbol for i in plan.feed for symbol in spell(self._words[i])] + [W_EOS] * plan.close
        pieces: list[Tensor] = []
        if not first:
            eos = torch.full((1, dmel.CHANNELS), dmel.EOS, dtype=torch.uint8, device=self._family.device)
            pieces.append(net.embed_frames(eos, self._speaker))
        if symbols:
            ids = torch.tensor([symbols], device=self._family.device)
            pieces.append(net.embed_symbols(ids, self._speaker)[0])
        window = [SCHEMES.index(plan.scheme), len(plan.speak), plan.look_ahead]
        pieces.append(net.embed_bos(torch.tensor([window], device=self._family.device), self._speaker))
        if first:
            silence = self._family.prompt(int(self._speaker))
            pieces.append(net.embed_frames(silence, self._speaker.expand(len(silence))))
        x = torch.cat(pieces).unsqueeze(0)
        self._make_room(x.shape[1])
        self._logits, _ = self._family.extend([self._slot], x)
        limit = net.config.longest_word_frames * len(plan.speak)
        segment = _Segment(self._segments, plan, self._frames, limit, x.shape[1])
        self._segment = segment
        self._segments += 1
        sample = dmel.TIME_BASE.samples(self._frames)
        seen = sorted({*plan.feed, *plan.speak})
        before: list[Event] = [
            Segment(index=segment.index, words=[*plan.speak], seen=seen, sample=sample, frame=self._frames),
            WordStart(i=plan.speak[0], sample=sample, source="eos"),
        ]
        return Turn(self._draw(segment), before)

    def _go_on(self, segment: _Segment) -> Turn:
        assert self._last is not None
        x = self._family.net.embed_frames(self._last, self._speaker).unsqueeze(0)
        self._logits, p_eos = self._family.extend([self._slot], x)
        segment.tokens += 1
        p = float(p_eos)
        made = Frames(first_frame=self._frames - 1, p_eos=[p], levels=self._last.cpu().numpy())
        forced = p < EOS_AT and segment.frames >= segment.limit_frames
        if p < EOS_AT and not forced:
            return Turn(self._draw(segment), [made])
        self._segment = None
        self._past.append(segment)
        ended = Eos(segment=segment.index, frame=self._frames, p=p, forced=forced)
        return Turn(np.zeros((0, dmel.CHANNELS), np.uint8), [made], [*self._inner_words(segment), ended])

    def _draw(self, segment: _Segment) -> np.ndarray:
        assert self._logits is not None
        frame = torch.tensor([self._frames], device=self._family.device)
        self._last = sample_levels(self._logits, self._temperature, self._seed, frame)
        self._frames += 1
        segment.frames += 1
        return self._last.cpu().numpy()

    def _inner_words(self, segment: _Segment) -> list[Event]:
        """Word events known at a segment's end; starts and ends inside it are shared out by characters."""
        words = [*segment.plan.speak]
        sizes = np.cumsum([0] + [len(self._words[i]) + 1 for i in words])
        ends = np.rint(sizes / sizes[-1] * segment.frames).astype(int) + segment.first_frame
        events: list[Event] = []
        for k, i in enumerate(words):
            if k > 0:
                events.append(WordStart(i=i, sample=dmel.TIME_BASE.samples(int(ends[k])), source="estimate"))
            source = "eos" if k + 1 == len(words) else "estimate"
            events.append(WordEnd(i=i, sample=dmel.TIME_BASE.samples(int(ends[k + 1])), source=source))
        return events

    def _make_room(self, tokens: int) -> None:
        """Past the stated context, drop the oldest segments: at a segment's start, by frame count (tokens only
        where a slot's memory would overflow)."""
        config, cache = self._family.net.config, self._family.cache
        frames = sum(s.frames for s in self._past)
        spare = tokens + config.longest_word_frames * 8

        def too_full(limit_frames: int) -> bool:
            return frames > limit_frames or cache.held[self._slot] - dropped + spare > cache.capacity

        dropped = 0
        limit = config.context_frames
        while self._past and too_full(limit):
            limit = config.kept_frames
            oldest = self._past.popleft()
            dropped += oldest.tokens
            frames -= oldest.frames
        if dropped:
            cache.drop(self._slot, dropped)


def _options(old: Options, new: Mapping[str, Any]) -> Options:
    known = {o.name for o in OPTION_SPECS}
    unknown = sorted(set(new) - known)
    if unknown:
        raise BadOption(f"SpeakStream has no option {', '.join(unknown):.200}", f"it has {', '.join(sorted(known))}")
    return replace(old, **new)


INFO = FamilyInfo("speakstream", "SpeakStream (paper 000)", OPTION_SPECS, SpeakStreamFamily.load)
