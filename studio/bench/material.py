"""Inputs of the evaluations: texts, the voice's speech, the teacher's speech and transcripts, with a cache.

The cache folder holds ``speech/<sha>.trace``, ``teacher/<speaker>-<sha>/`` (WAV files and labels.jsonl, as in a
corpus), ``transcripts-<recogniser>-<weights>.jsonl`` and ``predicted-<predictor>-<weights>.jsonl``, so that a stopped
evaluation resumes. Cached speech has the timings of its first run, so speed is measured without a cache.
"""

import hashlib
import json
import shutil
import tempfile
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager, suppress
from dataclasses import asdict, dataclass
from functools import cache, cached_property, partial
from pathlib import Path
from typing import Any, Protocol, TypeVar

import numpy as np
import torch
from rich.progress import MofNCompleteColumn, Progress

from studio.bench.options import Setting
from studio.core.cards import parse_voice
from studio.core.clips import clip_id, to_int16, write_wav
from studio.core.errors import BadFile, BadOption, NeedsPackage, StudioError, bad_file
from studio.core.files import read_lines
from studio.core.options import default_options, merge_options, parse_options
from studio.core.ports import SpeakRequest
from studio.core.sound_files import read_mono
from studio.core.speaking import speak_once
from studio.core.traces.trace import Trace, open_trace
from studio.core.traces.trace_writer import TraceWriter
from studio.engine.engine import LocalEngine
from studio.engine.families.base import family_info
from studio.engine.tokenizers import dmel
from studio.engine.vocoders.base import Vocoder
from studio.engine.vocoders.module import vocode_streaming
from studio.engine.voices import load_vocoder, pick_device
from studio.measure.recognisers.base import Recogniser, Sound
from studio.measure.recognisers.registry import open_recogniser, transcribe_all
from studio.measure.report import console
from studio.systems.combined import all_cards, open_voices
from studio.text.normalise import best
from studio.train.corpus.shards import resample_and_scale
from studio.train.recipes.recipe import read_recipe
from studio.train.teachers.registry import PROGRAMS, open_teacher

AT_ONCE = 8  # concurrent utterances where nothing is timed
_SPEAKS = ("core", "engine", "text")  # packages that determine a voice's samples
_BATCH = 24  # sounds per write of the cache
T = TypeVar("T", covariant=True)


class EvaluationRun:
    """A running evaluation: card, engine, cache and progress bar."""

    def __init__(self, setting: Setting, folder: Path, progress: Progress) -> None:
        self.setting, self.folder, self.progress = setting, folder, progress
        cards = all_cards(setting.voices, has_added=False)
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
        """The engine with this voice, opened on first use."""
        with self._opening:
            if self._engine is None:
                voices, device = self.setting.voices, self.setting.device
                engine: LocalEngine = open_voices(voices, best(), device, voice_names=[self.card.name], slots=AT_ONCE)
                self._engine = engine
            return self._engine

    def close(self) -> None:
        """Free the engine."""
        if self._engine is not None:
            self._engine.close()
            self._engine = None

    def reopen(self) -> None:
        """Open the engine and load the voice."""
        self.close()
        _ = self.engine

    def vocoder(self, name: str = "") -> Vocoder[Any]:
        """One of the card's vocoders, by default its own default. Raises BadVoice."""
        folder = self.setting.voices / self.card.name
        return load_vocoder(self.card, folder, pick_device(self.setting.device), name)

    def about(self) -> dict[str, Any]:
        """Metadata of the figures."""
        of = self.card
        return {"voice": of.name, "sha256": of.sha256, "temperature": of.temperature, "seed": self.setting.seed}

    def settings(self) -> dict[str, dict[str, Any]]:
        """The options to compare, by their text form. Raises BadOption."""
        texts = self.setting.settings
        if not texts:
            compared = family_info(self.card.family).compared
            return {options_text(one) or "as on the card": dict(one) for one in compared}
        settings = [parse_options(self.card.options, one.split(",")) for one in texts]
        for one in settings:
            merge_options(self.card.options, one, default_options(self.card.options))  # checks the range
        return {options_text(one): one for one in settings}

    @cached_property
    def one_setting(self) -> dict[str, Any]:
        """The single setting, empty by default. Raises BadOption."""
        if len(self.setting.settings) > 1:
            raise BadOption("only one setting can be measured at a time", "give --setting once")
        return next(iter(self.settings().values())) if self.setting.settings else {}

    def speak(self, speaker: str, texts: Sequence[str], options: dict[str, Any], at_once: int = AT_ONCE) -> list[Trace]:
        """The voice's speech for each text: the card's temperature, one seed, no retries.

        Args:
            at_once: concurrent texts, which changes no sample; 1 for timings.
        """
        each = [*dict.fromkeys(texts)]
        bar, spoken = self.progress.add_task(f"{speaker} {options_text(options)}", total=len(each)), dict[str, Trace]()
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
            with suppress(BadFile):  # damaged: speak it again
                return open_trace(path)
        trace = speak_once(self.engine, SpeakRequest(voice=voice, seed=seed, options=options), text)
        trace.meta["text"] = text
        shutil.rmtree(folder, ignore_errors=True)
        writer = TraceWriter(folder, trace.meta)
        for event in trace.events:
            writer.write(event)
        writer.close()
        return trace

    def teacher(self, speaker: str, texts: Sequence[str]) -> list["TeacherSpeech | None"]:
        """The teacher's speech for each text, as in training; None where it speaks other words."""
        teacher, taught_by, gain_db = self._taught_by(speaker)
        folder = self.folder / "teacher" / f"{taught_by}-{_sha([list(texts), teacher.partition(':')[0], gain_db])}"
        if not (folder / "labels.jsonl").is_file():
            folder.parent.mkdir(parents=True, exist_ok=True)
            part = Path(tempfile.mkdtemp(prefix=f".{folder.name}-", dir=folder.parent))  # safe for concurrent runs
            try:
                self._teach(teacher, taught_by, texts, gain_db, part)
                shutil.rmtree(folder, ignore_errors=True)
                part.rename(folder)
            finally:
                shutil.rmtree(part, ignore_errors=True)
        lines = (folder / "labels.jsonl").read_text(encoding="utf-8").splitlines()
        labels = [label and {**label, "speaker": speaker} for label in map(json.loads, lines)]
        return [
            None if label is None else TeacherSpeech(folder, label, read_mono(folder / label["wav"])[0])
            for label in labels
        ]

    def teacher_at_hand(self, speaker: str, texts: Sequence[str]) -> list["TeacherSpeech | None"] | str:
        """The same, or the reason why there is no teacher."""
        try:
            return self.teacher(speaker, texts)
        except (BadFile, BadOption, NeedsPackage) as error:
            return f"There is no teacher of {speaker}: {error}."

    def _teach(self, teacher: str, speaker: str, texts: Sequence[str], gain_db: float, folder: Path) -> None:
        bar = self.progress.add_task(f"teacher {speaker}", total=None)
        try:
            labels = self._spoken(teacher, speaker, texts, gain_db, folder)
        except StudioError:
            self.progress.remove_task(bar)  # else it stays above the error message
            raise
        text = "".join(json.dumps(label) + "\n" for label in labels)
        (folder / "labels.jsonl").write_text(text, encoding="utf-8")
        self.progress.update(bar, total=len(texts), completed=len(texts))

    def _spoken(
        self, teacher: str, speaker: str, texts: Sequence[str], gain_db: float, folder: Path
    ) -> list[dict[str, Any] | None]:
        labels: list[dict[str, Any] | None] = []
        for number, speech in enumerate(open_teacher(teacher).speak(speaker, texts)):
            if speech is None:
                labels.append(None)
                continue
            name = f"{number:04}.wav"
            write_wav(folder / name, resample_and_scale(speech, gain_db), dmel.TIME_BASE.rate_hz)
            label = {key: value for key, value in asdict(speech).items() if key not in ("pcm", "rate_hz")}
            labels.append({"wav": name, **label})
        return labels

    def _taught_by(self, speaker: str) -> tuple[str, str, float]:
        """The teacher in the voice's recipe, its speaker for this one, and the gain in dB."""
        path = self.setting.voices / self.card.name / "recipe.toml"
        if not path.is_file():
            return PROGRAMS, speaker, 0.0
        return read_recipe(path).corpus.teacher_of(speaker)

    @cached_property
    def recogniser(self) -> Recogniser:
        """The recogniser. Raises BadOption, BadFile, NeedsPackage."""
        return open_recogniser(self.setting.recogniser)

    def transcribe(self, name: str, sounds: Sequence[Sound]) -> list[str]:
        """Transcripts of the sounds."""
        measure = partial(transcribe_all, recogniser=self.setting.recogniser, workers=self.setting.workers)
        bar = (self.progress, f"recognise {name}")
        return answers(self.folder, "transcripts", self.recogniser.about, sounds, measure, bar)


@dataclass(frozen=True)
class TeacherSpeech:
    """The teacher's speech of a text: its line of labels.jsonl in ``folder``, and int16 [T] at the voice's rate."""

    folder: Path
    label: dict[str, Any]
    pcm: np.ndarray

    @property
    def word_ends_s(self) -> list[float]:
        """End of each word in seconds."""
        return self.label["word_ends_s"]


@contextmanager
def work_folder(cache: Path | None) -> Iterator[tuple[Path, Progress]]:
    """A folder for speech and answers (the cache, or temporary), and progress on stderr."""
    with tempfile.TemporaryDirectory() as scratch:
        folder = cache or Path(scratch)
        (folder / "speech").mkdir(parents=True, exist_ok=True)
        columns = (*Progress.get_default_columns(), MofNCompleteColumn())
        with Progress(*columns, console=console(stderr=True)) as progress:
            yield folder, progress


@contextmanager
def evaluation_run(setting: Setting) -> Iterator[EvaluationRun]:
    """Run one evaluation; closes its engine."""
    with work_folder(setting.cache) as (folder, progress), closing(EvaluationRun(setting, folder, progress)) as at:
        yield at


def evaluate_speakers(
    setting: Setting,
    about: Mapping[str, Any],
    measure: Callable[[EvaluationRun, str], dict[str, Any]],
) -> dict[str, Any]:
    """The figures of each speaker of a voice in its one setting, by one recogniser, after those of ``about``."""
    out: dict[str, Any] = {**about, "speakers": {}}
    with evaluation_run(setting) as at:
        out |= at.about() | {"recogniser": at.recogniser.about, "setting": options_text(at.one_setting)}
        out["speakers"] |= {speaker: measure(at, speaker) for speaker in at.speakers}
    return out


def vocode(vocoder: Vocoder[Any], log_mels: torch.Tensor, seed: int = 0) -> np.ndarray:
    """int16 samples of frames [F, C], vocoded one at a time as in a stream."""
    return to_int16(vocode_streaming(vocoder, log_mels, seed))


def options_text(options: Mapping[str, Any]) -> str:
    """Options as text: ``m=3,n=1``."""
    return ",".join(f"{name}={value}" for name, value in options.items())


def read_texts(path: Path, count: int | None = None) -> list[str]:
    """The first texts of a file, one a line. Raises BadFile if there are too few."""
    with bad_file(f"the texts {path} cannot be read", "give a file with one text a line"):
        lines = read_lines(path)
    if not lines or len(lines) < (count or 0):
        raise BadFile(f"{path} has only {len(lines)} texts", f"{count or 1} are needed")
    return lines[:count]


def _sha(key: object) -> str:
    return hashlib.sha256(json.dumps(key, sort_keys=True, default=str).encode()).hexdigest()[:24]


class BatchMeasure(Protocol[T]):
    """Answers for sounds, in order; ``on_done`` is called after each."""

    def __call__(self, sounds: Sequence[Sound], *, on_done: Callable[[], object]) -> Sequence[T]: ...


@cache
def speaking_code() -> str:
    """``code_digest`` of this process's code; speech of other code is not reused."""
    return code_digest(Path(__file__).resolve().parents[1])


def code_digest(package: Path) -> str:
    """Digest of the code in ``package`` that determines speech, by content rather than by commit."""
    digest = hashlib.sha256()
    for path in sorted(path for name in _SPEAKS for path in (package / name).rglob("*.py")):
        digest.update(f"{path.relative_to(package)} {path.stat().st_size}\n".encode() + path.read_bytes())
    return digest.hexdigest()


def answers(
    folder: Path,
    what: str,
    about: Mapping[str, str],
    sounds: Sequence[Sound],
    measure: BatchMeasure[T],
    bar: tuple[Progress, str],
) -> list[T]:
    """Answers for each sound, from the cache file ``<what>-<name>-<weights>.jsonl`` where present.

    Args:
        about: ``name`` and ``sha256`` of the weights of the model that answers.
        bar: progress display and its label.
    """
    path = folder / f"{what}-{about['name'].lower()}-{about['sha256'][:12]}.jsonl"
    known = _whole_pairs(path)
    keys = [clip_id(*sound) for sound in sounds]
    todo = [index for index, key in enumerate(keys) if key not in known]
    progress, name = bar
    task = progress.add_task(name, total=len(sounds), completed=len(sounds) - len(todo))
    for first in range(0, len(todo), _BATCH):
        batch = todo[first : first + _BATCH]
        results = measure([sounds[index] for index in batch], on_done=lambda: progress.advance(task))
        new = {keys[index]: one for index, one in zip(batch, results, strict=True)}
        known |= new
        with path.open("a", encoding="utf-8") as file:
            file.writelines(json.dumps(pair) + "\n" for pair in new.items())
    return [known[key] for key in keys]


def _whole_pairs(path: Path) -> dict[str, Any]:
    """The [key, answer] lines of a file; removes an incomplete last line."""
    if not path.is_file():
        return {}
    text = path.read_text(encoding="utf-8")
    whole = text[: text.rfind("\n") + 1]
    if whole != text:
        path.write_text(whole, encoding="utf-8")
    return dict(json.loads(line) for line in whole.splitlines())
