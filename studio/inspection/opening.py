"""Open traces (file, folder or bytes) and recordings with their text, and add word times to recordings."""

import io
import json
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from studio.core import events as ev
from studio.core.errors import BadFile, BadOption, BadText, bad_file
from studio.core.files import MAX_TEXTS_BYTES, read_bounded
from studio.core.folders import real_path
from studio.core.sound_files import MAX_MONO_SAMPLES, read_mono
from studio.core.traces.teacher_forcing import TeacherForcingRequest, WordSpan
from studio.core.traces.trace import Trace, open_trace, sent_text
from studio.core.traces.trace_reader import MAX_BYTES, MAX_LAYER_BYTES, read_trace, read_trace_wav
from studio.inspection.textgrid import parse_words, read_words
from studio.measure.word_timing import SpokenSpan

ALIGNER = "pocketsphinx"
MAX_TEXT_CHARS = 100_000
_SAMPLE_BYTES = 2
_SOUNDS = (b"RIFF", b"RIFX", b"RF64", b"BW64", b"fLaC", b"ID3", b"OggS", b"FORM")  # first bytes of sound files


def open_file(path: Path, text: str | None = None) -> Trace:
    """A trace (zip or folder), or a WAV file with its text.

    ``text``: the text of a recording. Raises BadFile: it is absent, damaged, or neither; BadOption: there is a text for
    a trace; BadText: the text is longer than 100,000 characters.
    """
    if path.is_file() and _begins_as_sound(path):
        with bad_file(f"{path} cannot be read", "give a WAV of at most 512 MB"):
            data = read_bounded(path, MAX_BYTES["audio.wav"])
            return recording_trace(*read_mono(data, path.name), text or "")
    if text:
        raise BadOption(f"{path.name} is no WAV, so it takes no text", "give a WAV; a trace holds its own text")
    return open_trace(path, str(path))


@dataclass(frozen=True)
class UnpackLimits:
    """Maximal unpacked bytes of a trace's parts and of each layer, and number of events (None for no limit).

    A recording may have as many bytes of mono samples as a trace's sound.
    """

    parts: Mapping[str, int]
    layer: int
    events: int | None = None


def open_bytes(data: bytes, text: str = "", limits: UnpackLimits | None = None) -> Trace:
    """An uploaded trace or WAV.

    ``limits``: None for those of trace files. Raises BadFile: not a trace or WAV, damaged, or above the limits;
    BadText: the text is longer than 100,000 characters.
    """
    if data.startswith(_SOUNDS):
        most = limits.parts["audio.wav"] // _SAMPLE_BYTES if limits else MAX_MONO_SAMPLES
        return recording_trace(*read_mono(data, most_samples=most), text)
    chosen = limits or UnpackLimits(MAX_BYTES, MAX_LAYER_BYTES)
    return Trace(*read_trace(io.BytesIO(data), chosen.parts, chosen.layer, chosen.events))


def open_blinded(data: bytes, text: str = "") -> Trace:
    """Only the sound and text of a trace or WAV, as a recording: nothing in it identifies the system.

    Voice, options, segments, word times, frames and p_eos are omitted. A text is cut after 100,000 characters. Raises
    BadFile: not a trace or WAV, damaged, or without sound.
    """
    trace = open_bytes(data, text)
    return recording_trace(trace.pcm, trace.rate_hz, sent_text(trace.events)[:MAX_TEXT_CHARS])


def read_sound(data: bytes, max_bytes: int) -> tuple[np.ndarray, int]:
    """Samples int16 [T] and rate of an uploaded trace or WAV, without reading the rest.

    ``max_bytes``: maximal unpacked size of the sound. Raises BadFile: not a trace or WAV, damaged, or too large.
    """
    wav = data if data.startswith(_SOUNDS) else read_trace_wav(io.BytesIO(data), max_bytes)
    return read_mono(wav, most_samples=max_bytes // _SAMPLE_BYTES)


def recording_trace(pcm: np.ndarray, rate_hz: int, text: str) -> Trace:
    """A recording as a trace without a clock and without word times.

    ``pcm``: int16 [T]; ``text``: words separated by white space.
    """
    if len(text) > MAX_TEXT_CHARS:
        raise BadText(f"the text has {len(text):,} characters", f"give at most {MAX_TEXT_CHARS:,}")
    if not len(pcm):
        raise BadFile("the WAV holds no samples", "give one that does")
    events: list[ev.Event] = [ev.TextReceived(char_start=0, text=text)] if text else []
    at = 0
    for i, word in enumerate(text.split()):
        start = text.index(word, at)
        at = start + len(word)
        events.append(ev.Committed(i=i, word=word, written=i, char_start=start, char_end=at))
    return Trace({"rate_hz": rate_hz, "source": "recording"}, events, pcm)


def with_word_times(trace: Trace, words: Sequence[SpokenSpan]) -> Trace:
    """A recording with the words and word times of a reference, with the source ``aligner``.

    Raises BadFile: a word ends beyond the recording.
    """
    length_s = len(trace.pcm) / trace.rate_hz
    beyond = next((one for one in words if one.end_s > length_s + 0.1), None)
    if beyond is not None:
        raise BadFile(
            f"“{beyond.text}” ends at {beyond.end_s:.2f} s of {length_s:.2f} s", "give the TextGrid of this recording"
        )
    recording = recording_trace(trace.pcm, trace.rate_hz, " ".join(one.text for one in words))
    for i, one in enumerate(words):
        start, end = (min(round(at_s * trace.rate_hz), len(trace.pcm)) for at_s in (one.start_s, one.end_s))
        recording.events.append(ev.WordStart(i=i, sample=start, source="aligner"))
        recording.events.append(ev.WordEnd(i=i, sample=end, source="aligner"))
    return recording


def _begins_as_sound(path: Path) -> bool:
    with path.open("rb") as file:
        return file.read(4).startswith(_SOUNDS)


def open_source(path: Path, text: str = "") -> Trace:
    """A trace, or a WAV with its text in ``FILE.txt`` and its word times in ``FILE.TextGrid``.

    ``text``: the text of a WAV without ``FILE.txt``. Raises BadFile: it or its TextGrid is absent or damaged.
    """
    if path.is_dir():  # an unfinished trace
        return open_trace(path, str(path))
    (source,) = find_sources([path])
    is_wav = path.suffix.lower() == ".wav"
    trace = open_file(path, (source.text or text) if is_wav else None)
    return with_word_times(trace, read_words(source.reference)) if is_wav and source.reference else trace


def request_from_textgrid(pcm: np.ndarray, rate_hz: int, data: bytes, name: str) -> TeacherForcingRequest:
    """A recording int16 [T] with the words and times of a TextGrid's tier ``words``. Raises BadFile."""
    spans = [WordSpan(one.text, one.start_s, one.end_s) for one in parse_words(data, name)]
    if not spans:
        raise BadFile(f"the tier words of {name} holds no word", "give the TextGrid of this recording")
    return TeacherForcingRequest(pcm, rate_hz, spans=spans, placed_by=name)


def request_from_aligner(recording: TeacherForcingRequest) -> TeacherForcingRequest:
    """The recording with word times by the built-in aligner.

    Raises BadFile: the aligner does not find the text; BadOption: the words have times already; NeedsPackage: the
    aligner is not installed.
    """
    from studio.measure.recognisers.pocketsphinx import PocketSphinx

    if recording.spans:
        raise BadOption("an aligner and a TextGrid both place the words", "choose one of them")
    times = PocketSphinx().align(recording.pcm, recording.rate_hz, recording.text)
    words = recording.text.split()
    if times is None or len(times) != len(words):
        raise BadFile("the aligner does not find this text in the recording", "let the voice or a TextGrid place them")
    spans = [WordSpan(word, one.start_s, one.end_s) for word, one in zip(words, times, strict=True)]
    return replace(recording, spans=spans, placed_by=ALIGNER)


MAX_MANIFEST_BYTES = 16 * 2**20
MANIFEST, TEXTS = "manifest.json", "texts.txt"
_KINDS = (".trace", ".wav")


@dataclass(frozen=True)
class Source:
    """One utterance's file.

    Attributes:
        file: its name in the tables.
        system, item: from a manifest or the folder; else empty.
        text: of a recording; empty for a trace.
    """

    path: Path
    file: str
    system: str = ""
    item: str = ""
    text: str = ""

    @property
    def reference(self) -> Path | None:
        """The TextGrid of the same name, if it exists."""
        beside = self.path.with_suffix(".TextGrid")
        return beside if beside.is_file() else None


def find_sources(paths: Iterable[Path]) -> list[Source]:
    """All utterances in files and folders, in order.

    A folder's ``manifest.json`` (see ``studio synth``) has system, item and text; without one, subfolders are systems
    and file names are items. Of a trace and a WAV of the same name, the trace is used. Raises BadFile: a file is
    missing, or a manifest or text is damaged; BadOption: there is nothing to measure, or two files have one name.
    """
    sources: list[Source] = []
    for path in paths:
        if path.is_dir():
            sources += _described(path) if (path / MANIFEST).is_file() else _in_folder(path)
        elif path.is_file():
            sources.append(Source(path, path.name, text=_text_of(path, {})))
        else:
            raise BadFile(f"there is no {path}", "give files or folders that are there")
    if not sources:
        raise BadOption("there is nothing to measure", "give traces, WAV files, or folders of them")
    name, often = Counter(one.file for one in sources).most_common(1)[0]
    if often > 1:
        raise BadOption(f"{often} of the files are called {name}", "measure the folder that holds them")
    return sources


def _described(root: Path) -> Iterator[Source]:
    manifest = _read_json(root / MANIFEST)
    try:
        texts = {one["name"]: one.get("text", "") for one in manifest["items"]}
        for one in manifest["files"]:
            file = str(one.get("trace") or one["file"])
            path = real_path(root / file)
            if not path.is_relative_to(real_path(root)):
                raise BadFile(f"{file!r:.100} leads out of the folder {root}", "keep files within it")
            text = "" if file.endswith(".trace") else str(texts.get(one["item"], ""))
            yield Source(path, file, str(one["system"]), str(one["item"]), text)
    except (KeyError, TypeError, AttributeError) as error:
        raise BadFile(f"{root / MANIFEST} is not a manifest: {error!r}", "studio synth writes one") from error


def _in_folder(root: Path) -> Iterator[Source]:
    texts = _texts(root / TEXTS)
    paths = sorted(path for path in root.rglob("*") if path.suffix in _KINDS and path.is_file())
    traces = {path.with_suffix("") for path in paths if path.suffix == ".trace"}
    for path in paths:
        if path.suffix == ".wav" and path.with_suffix("") in traces:
            continue
        inside = path.relative_to(root)
        system = "" if path.suffix == ".trace" else inside.parent.as_posix().removeprefix(".")
        yield Source(path, inside.as_posix(), system, path.stem, _text_of(path, texts))


def _text_of(path: Path, texts: Mapping[str, str]) -> str:
    if path.suffix == ".trace":
        return ""
    beside = path.with_suffix(".txt")
    return _read(beside).strip() if beside.is_file() and beside.name != TEXTS else texts.get(path.stem, "")


def _texts(path: Path) -> dict[str, str]:
    """``item|text`` a line."""
    if not path.is_file():
        return {}
    rows = (line.partition("|") for line in _read(path).splitlines() if "|" in line)
    return {item.strip(): text.strip() for item, _, text in rows}


def _read(path: Path) -> str:
    with bad_file(f"{path} cannot be read", "give text in UTF-8", UnicodeDecodeError):
        return read_bounded(path, MAX_TEXTS_BYTES).decode("utf-8-sig")


def _read_json(path: Path) -> Any:
    with bad_file(f"{path} cannot be read", "studio synth writes one", ValueError):
        return json.loads(read_bounded(path, MAX_MANIFEST_BYTES))
