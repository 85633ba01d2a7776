"""What every evaluation needs: texts, the voice's speech, the teacher's speech, transcripts; each kept where asked.

Under the cache folder stand ``speech/<sha>.trace``, ``teacher/<speaker>-<sha>/`` (WAV files and labels.jsonl, as in
a corpus), ``transcripts-<recogniser>-<weights>.jsonl`` and ``predicted-<predictor>-<weights>.jsonl``, so that a stopped
evaluation goes on where it was. Kept speech keeps the times it took when it was made: a figure of speed is taken
without a cache.
"""

import hashlib
import json
import shutil
import tempfile
import threading
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass
from functools import cached_property, partial
from pathlib import Path
from typing import Any

import numpy as np
import torch
from rich.console import Console
from rich.progress import MofNCompleteColumn, Progress

from studio.bench.kept import answers, speaking_code
from studio.core.cards import parse_voice, read_cards
from studio.core.clips import read_wav, to_int16, write_wav
from studio.core.errors import BadFile, BadOption, NeedsPackage, StudioError
from studio.core.files import read_lines
from studio.core.options import default_options, merge_options, parse_options
from studio.core.ports import SpeakRequest
from studio.core.traces.trace import Trace, collect, open_trace
from studio.core.traces.trace_writer import TraceWriter
from studio.engine.alphabets import dmel
from studio.engine.families.base import family_info
from studio.engine.loop import LocalEngine, open_engine
from studio.engine.vocoders.base import Vocoder
from studio.engine.vocoders.by_segments import streamed
from studio.engine.voices import load_vocoder, pick_device
from studio.measure.recognisers.choose import DEFAULT, open_recogniser, transcribe_all
from studio.measure.recognisers.port import Recogniser, Sound
from studio.text.normalise import best
from studio.train.corpus.shards import levelled
from studio.train.recipes.recipe import read_recipe
from studio.train.teachers.choose import PROGRAMS, open_teacher

AT_ONCE = 8  # utterances that are spoken together where no time is told


@dataclass(frozen=True, kw_only=True)
class Setting:
    """What every evaluation is told.

    Attributes:
        voices: folder of voices; ``voice`` is one of its names, or name:speaker; empty for the first.
        speakers: empty for the one named with the voice, or all of it.
        recogniser: NAME or NAME:WEIGHTS, where there is something to recognise.
        workers: processes that recognise.
        settings: the family's options to be measured, each written ``name=value,name=value``; where several are
            compared and none is given, those that the family names; else the card's own.
        cache: where speech and transcripts are kept between runs; None keeps nothing.
        quiet: print no table.
    """

    voices: Path
    voice: str = ""
    speakers: tuple[str, ...] = ()
    device: str = "auto"
    seed: int = 0
    recogniser: str = DEFAULT
    workers: int = 2
    settings: tuple[str, ...] = ()
    cache: Path | None = None
    quiet: bool = False


class Desk:
    """One evaluation at work: the voice's card, its cache, its progress bar."""

    def __init__(self, setting: Setting, folder: Path, progress: Progress) -> None:
        self.setting, self.folder, self.progress = setting, folder, progress
        cards = {name: card for name, (card, _) in read_cards(setting.voices).items()}
        self.card, speaker = parse_voice(setting.voice, cards)
        for speaker in setting.speakers:
            parse_voice(f"{self.card.name}:{speaker}", cards)
        named = (speaker,) if ":" in setting.voice else self.card.speakers
        self.speakers = setting.speakers or named
        self._engine: LocalEngine | None = None
        self._opening = threading.Lock()
        self._code = speaking_code()

    @property
    def engine(self) -> LocalEngine:
        """The engine with the one voice, opened when it is first needed."""
        with self._opening:
            if self._engine is None:
                voices, device = self.setting.voices, self.setting.device
                self._engine = open_engine(voices, best(), device, voice_names=[self.card.name], places=AT_ONCE)
            return self._engine

    def close(self) -> None:
        """Free the engine."""
        if self._engine is not None:
            self._engine.close()
            self._engine = None

    def reopen(self) -> None:
        """Open the engine, and load the voice, now."""
        self.close()
        _ = self.engine

    def vocoder(self, name: str = "") -> Vocoder[Any]:
        """One of the card's vocoders, its default one unless named. Raises BadVoice."""
        folder = self.setting.voices / self.card.name
        return load_vocoder(self.card, folder, pick_device(self.setting.device), name)

    def about(self) -> dict[str, Any]:
        """What the figures are of."""
        of = self.card
        return {"voice": of.name, "sha256": of.sha256, "temperature": of.temperature, "seed": self.setting.seed}

    def settings(self) -> dict[str, dict[str, Any]]:
        """The options to be compared, by how they are written. Raises BadOption."""
        given = self.setting.settings
        if not given:
            compared = family_info(self.card.family).compared
            return {written(one) or "as on the card": dict(one) for one in compared}
        found = [parse_options(self.card.options, one.split(",")) for one in given]
        for one in found:
            merge_options(self.card.options, one, default_options(self.card.options))  # is it in range?
        return {written(one): one for one in found}

    @cached_property
    def one_setting(self) -> dict[str, Any]:
        """The one setting that was given; nothing where none was. Raises BadOption."""
        if len(self.setting.settings) > 1:
            raise BadOption("this measures one setting at a time", "give --setting once")
        return next(iter(self.settings().values())) if self.setting.settings else {}

    def speak(self, speaker: str, texts: Sequence[str], options: dict[str, Any], at_once: int = AT_ONCE) -> list[Trace]:
        """The voice's speech for each text: the card's temperature, one seed, no second try.

        Args:
            at_once: texts that are spoken together, which changes no sample; 1 where the time that it takes is told.
        """
        each = [*dict.fromkeys(texts)]
        bar, spoken = self.progress.add_task(f"{speaker} {written(options)}", total=len(each)), dict[str, Trace]()
        with ThreadPoolExecutor(at_once) as pool:
            for trace in pool.map(lambda text: self._speak_one(speaker, text, options), each):
                spoken[each[len(spoken)]] = trace
                self.progress.advance(bar)
        return [spoken[text] for text in texts]

    def _speak_one(self, speaker: str, text: str, options: dict[str, Any]) -> Trace:
        voice, seed = f"{self.card.name}:{speaker}", self.setting.seed
        key = [voice, self.card.sha256, self.card.temperature, seed, self.setting.device, options, text, self._code]
        folder = self.folder / "speech" / _sha(key)
        path = folder.with_name(folder.name + ".trace")
        if path.is_file():
            with suppress(BadFile):  # a disk was full, or somebody touched it: it is spoken again
                return open_trace(path)
        utterance = self.engine.open(SpeakRequest(voice=voice, seed=seed, options=options))
        utterance.push_text(text)
        utterance.end()
        trace = collect({**utterance.provenance, "text": text}, utterance.events())
        shutil.rmtree(folder, ignore_errors=True)
        writer = TraceWriter(folder, trace.meta)
        for event in trace.events:
            writer.write(event)
        writer.close()
        return trace

    def teacher(self, speaker: str, texts: Sequence[str]) -> list["TeacherSpeech | None"]:
        """The teacher's speech for each text, as the voice would have learned it; None where it said other words."""
        teacher, taught_by, gain_db = self._taught_by(speaker)
        folder = self.folder / "teacher" / f"{taught_by}-{_sha([list(texts), teacher.partition(':')[0], gain_db])}"
        if not (folder / "labels.jsonl").is_file():
            folder.parent.mkdir(parents=True, exist_ok=True)
            part = Path(tempfile.mkdtemp(prefix=f".{folder.name}-", dir=folder.parent))  # two may ask at once
            try:
                self._teach(teacher, taught_by, texts, gain_db, part)
                shutil.rmtree(folder, ignore_errors=True)
                part.rename(folder)
            finally:
                shutil.rmtree(part, ignore_errors=True)
        lines = (folder / "labels.jsonl").read_text(encoding="utf-8").splitlines()
        labels = [label and {**label, "speaker": speaker} for label in map(json.loads, lines)]
        return [
            None if label is None else TeacherSpeech(folder, label, read_wav(folder / label["wav"])[0])
            for label in labels
        ]

    def teacher_at_hand(self, speaker: str, texts: Sequence[str]) -> list["TeacherSpeech | None"] | str:
        """The same; or why there is no such teacher here."""
        try:
            return self.teacher(speaker, texts)
        except (BadFile, BadOption, NeedsPackage) as error:
            return f"No teacher of {speaker} is at hand: {error}."

    def _teach(self, teacher: str, speaker: str, texts: Sequence[str], gain_db: float, folder: Path) -> None:
        bar = self.progress.add_task(f"teacher {speaker}", total=None)
        try:
            labels = self._spoken(teacher, speaker, texts, gain_db, folder)
        except StudioError:
            self.progress.remove_task(bar)  # it would stand above what went wrong
            raise
        text = "".join(json.dumps(label) + "\n" for label in labels)
        (folder / "labels.jsonl").write_text(text, encoding="utf-8")
        self.progress.update(bar, total=len(texts), completed=len(texts))

    def _spoken(
        self, teacher: str, speaker: str, texts: Sequence[str], gain_db: float, folder: Path
    ) -> list[dict[str, Any] | None]:
        labels: list[dict[str, Any] | None] = []
        for number, said in enumerate(open_teacher(teacher).speak(speaker, texts)):
            if said is None:
                labels.append(None)
                continue
            name = f"{number:04}.wav"
            write_wav(folder / name, levelled(said, gain_db), dmel.TIME_BASE.rate_hz)
            label = {key: value for key, value in asdict(said).items() if key not in ("pcm", "rate_hz")}
            labels.append({"wav": name, **label})
        return labels

    def _taught_by(self, speaker: str) -> tuple[str, str, float]:
        """The teacher of the voice's recipe, which of its speakers this one learned from, and the gain in dB."""
        path = self.setting.voices / self.card.name / "recipe.toml"
        if not path.is_file():
            return PROGRAMS, speaker, 0.0
        return read_recipe(path).corpus.taught_by(speaker)

    @cached_property
    def recogniser(self) -> Recogniser:
        """The recogniser asked for. Raises BadOption, BadFile, NeedsPackage."""
        return open_recogniser(self.setting.recogniser)

    def transcribe(self, name: str, sounds: Sequence[Sound]) -> list[str]:
        """What the recogniser hears in each sound."""
        ask = partial(transcribe_all, recogniser=self.setting.recogniser, workers=self.setting.workers)
        bar = (self.progress, f"recognise {name}")
        return answers(self.folder, "transcripts", self.recogniser.about, sounds, ask, bar)


@dataclass(frozen=True)
class TeacherSpeech:
    """A text as the teacher spoke it: its line of labels.jsonl in ``folder``, and int16 [T] at the voice's rate."""

    folder: Path
    label: dict[str, Any]
    pcm: np.ndarray

    @property
    def word_ends_s(self) -> list[float]:
        """Where each word ends."""
        return self.label["word_ends_s"]


@contextmanager
def workplace(cache: Path | None) -> Iterator[tuple[Path, Progress]]:
    """A folder for speech and answers, kept where asked, and progress on stderr."""
    with tempfile.TemporaryDirectory() as scratch:
        folder = cache or Path(scratch)
        (folder / "speech").mkdir(parents=True, exist_ok=True)
        columns = (*Progress.get_default_columns(), MofNCompleteColumn())
        with Progress(*columns, console=Console(stderr=True)) as progress:
            yield folder, progress


@contextmanager
def desk(setting: Setting) -> Iterator[Desk]:
    """A desk for one evaluation."""
    with workplace(setting.cache) as (folder, progress):
        at = Desk(setting, folder, progress)
        try:
            yield at
        finally:
            at.close()


def vocode(vocoder: Vocoder[Any], log_mels: torch.Tensor, seed: int = 0) -> np.ndarray:
    """int16 samples of frames [F, C] given one at a time, as a stream gives them."""
    return to_int16(streamed(vocoder, log_mels, seed))


def written(options: Mapping[str, Any]) -> str:
    """Options as they are written: ``m=3,n=1``."""
    return ",".join(f"{name}={value}" for name, value in options.items())


def read_texts(path: Path, count: int | None = None) -> list[str]:
    """The first texts of a file, one a line. Raises BadFile when there are too few."""
    try:
        lines = read_lines(path)
    except OSError as error:
        raise BadFile(f"the texts {path} cannot be read: {error.strerror}", "give a file of one text a line") from error
    if not lines or len(lines) < (count or 0):
        raise BadFile(f"{path} holds {len(lines)} texts", f"{count or 1} are asked for")
    return lines[:count]


def _sha(key: object) -> str:
    return hashlib.sha256(json.dumps(key, sort_keys=True, default=str).encode()).hexdigest()[:24]
