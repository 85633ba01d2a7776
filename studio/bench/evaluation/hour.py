"""One utterance of an hour: WER of its first and last minutes, which have the same text, and memory over time.

Sentences are sent on demand and spoken at full speed. The text of the first minutes is sent again at the end. Both are
cut at the ends of words, sentence by sentence, and recognised.
"""

import itertools
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from studio.bench.evaluation.settings import HourSetting
from studio.bench.material import EvaluationRun, evaluate_speakers, read_texts
from studio.core import events as ev
from studio.core.errors import BadOption, StudioError
from studio.core.ports import SpeakRequest, resident_bytes
from studio.measure.report import print_table, recogniser_name, setting_name
from studio.measure.wer import bootstrap_difference, corpus_errors, word_errors

_AHEAD_LINES = 4  # the current sentence, and more words than the longest window
_MIB = 2.0**20


@dataclass
class _Line:
    """A sentence: its position in the text and, once spoken, in the sound."""

    text: str
    block: int | None = None  # 0 first, 1 last; others are not stored
    char: int = 0
    start: int = 0
    end: int = 0


def eval_hour(setting: HourSetting) -> dict[str, Any]:
    """WER of the first and last minutes of one long utterance of each speaker, and memory over time.

    Raises:
        BadFile, BadOption, NeedsPackage: bad texts or setting, or no recogniser.
        StudioError: the utterance failed.
    """
    if not 0.0 < 2.0 * setting.block_minutes <= setting.minutes:
        raise BadOption(
            f"{setting.minutes:g} minutes do not hold {setting.block_minutes:g} twice", "compare shorter blocks"
        )
    texts = read_texts(setting.texts)
    about = {"texts": setting.texts.name, "minutes": setting.minutes, "block_minutes": setting.block_minutes}
    return evaluate_speakers(setting, about, lambda at, speaker: _speaker(at, setting, speaker, texts))


def _speaker(at: EvaluationRun, setting: HourSetting, speaker: str, texts: Sequence[str]) -> dict[str, Any]:
    hour = _Hour(at, setting, speaker, texts)
    hour.speak()
    blocks = hour.blocks
    sounds = [[hour.sound(line) for line in block] for block in blocks]
    transcripts = [
        at.transcribe(f"{speaker} {name}", block) for name, block in zip(("first", "last"), sounds, strict=True)
    ]
    first, last = (
        [word_errors(line.text, words) for line, words in zip(block, words_of, strict=True)]
        for block, words_of in zip(blocks, transcripts, strict=True)
    )
    return {
        "lines": len(first),
        "first": corpus_errors(first).rate,
        "last": corpus_errors(last).rate,
        "last_above_first": asdict(bootstrap_difference(last, first)),
        "memory_mib": hour.memory_mib,
        "audio_s": hour.samples / at.card.sample_rate_hz,
    }


class _Hour:
    """One long utterance: its text, sound and memory use."""

    def __init__(self, at: EvaluationRun, setting: HourSetting, speaker: str, texts: Sequence[str]) -> None:
        self._rate_hz = at.card.sample_rate_hz
        self._block, self._whole = (round(60.0 * m * self._rate_hz) for m in (setting.block_minutes, setting.minutes))
        request = SpeakRequest(f"{at.card.name}:{speaker}", setting.seed, options=at.one_setting)
        self._utterance = at.engine.open(request)
        self._bar, self._task = at.progress, at.progress.add_task(f"{speaker} speaks", total=self._whole)
        self._to_send = self._lines(texts)
        self._unspoken: deque[_Line] = deque()  # the first one is being spoken
        self._sent_chars = self._word_end = 0
        self._starts: dict[int, int] = {}  # text offsets of words that are not spoken yet
        self._audio: list[tuple[int, np.ndarray]] = []
        self.blocks: tuple[list[_Line], list[_Line]] = ([], [])
        self.samples = 0
        self.memory_mib: list[float] = []

    def speak(self) -> None:
        """Speak everything. Raises StudioError if the utterance fails."""
        self._send()
        for event in self._utterance.events():
            if isinstance(event, ev.Failed):
                raise StudioError(f"the utterance failed after {self.samples} samples: {event.message}")
            if isinstance(event, ev.Committed):
                self._starts[event.i] = event.char_start
            elif isinstance(event, ev.WordEnd):
                self._end_word(self._starts.pop(event.i), event.sample)
            elif isinstance(event, ev.Audio):
                self._hear(event)

    def sound(self, line: _Line) -> tuple[np.ndarray, int]:
        """Samples of a stored line, from the end of the previous word."""
        first, last = line.start, line.end
        parts = [pcm[max(0, first - at) : last - at] for at, pcm in self._audio if at < last and at + len(pcm) > first]
        return np.concatenate([np.zeros(0, np.int16), *parts]), self._rate_hz

    def _lines(self, texts: Sequence[str]) -> Iterator[_Line]:
        """Lines of the first minutes, of the middle, and the first ones again."""
        endless, first = itertools.cycle(texts), list[str]()
        while not first or self.samples < self._block:
            first.append(next(endless))
            yield _Line(first[-1], 0)
        while self.samples < self._whole - self._block:
            yield _Line(next(endless))
        for text in first:
            yield _Line(text, 1)
        self._utterance.end()

    def _send(self) -> None:
        """Send lines until enough words are ahead."""
        while len(self._unspoken) < _AHEAD_LINES:
            line = next(self._to_send, None)
            if line is None:
                return
            line.char = self._sent_chars
            self._unspoken.append(line)
            if line.block is not None:
                self.blocks[line.block].append(line)
            self._utterance.push_text(line.text + " ")
            self._sent_chars += len(line.text) + 1

    def _end_word(self, char: int, sample: int) -> None:
        """Handle the end of a word at a text offset."""
        while len(self._unspoken) > 1 and self._unspoken[1].char <= char:
            self._unspoken.popleft()
            self._unspoken[0].start = self._word_end
            self._send()
        self._word_end = self._unspoken[0].end = sample

    def _hear(self, event: ev.Audio) -> None:
        before, self.samples = self.samples, event.sample + len(event.pcm)
        if any(line.block is not None for line in self._unspoken):
            self._audio.append((event.sample, event.pcm))
        if self.samples // self._block > before // self._block:
            self.memory_mib.append(resident_bytes() / _MIB)
        self._bar.update(self._task, completed=min(self.samples, self._whole))


def show(out: Mapping[str, Any]) -> None:
    rows = []
    for speaker, one in out["speakers"].items():
        interval, memory_mib = one["last_above_first"], one["memory_mib"]
        difference = f"{interval['value']:+.3f} ({interval['low']:+.3f} to {interval['high']:+.3f})"
        held = f"{memory_mib[0]:.0f}, {memory_mib[-1]:.0f}" if memory_mib else None
        rows.append([speaker, one["audio_s"] / 60.0, one["lines"], one["first"], one["last"], difference, held])
    block = f"{out['block_minutes']:g} minutes"
    columns = (
        "",
        "minutes",
        "sentences",
        f"WER first {block}",
        "last",
        "last above first",
        "MiB after the first, last",
    )
    title = f"One utterance of {out['minutes']:g} minutes{setting_name(out)}; WER by {recogniser_name(out)}"
    print_table(title, columns, rows, "the same sentences first and last; memory of the whole process")
