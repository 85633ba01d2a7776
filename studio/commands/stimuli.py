"""Stimuli from the studio's own voices: texts spoken by systems like ``clara?m=3,n=1``, clips and traces kept.

Here the engine and the listening tests meet, and nowhere else: what passes between them is a folder of files.
"""

import hashlib
import json
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from studio.core.cards import voice_address
from studio.core.clips import write_wav
from studio.core.errors import BadFile, BadOption
from studio.core.files import MAX_TEXTS_BYTES, read_bounded
from studio.core.ports import SpeakRequest
from studio.core.time import MonotonicClock
from studio.mos.campaign.names import check_name
from studio.mos.campaign.speaking_systems import TEACHER

_SPEC = re.compile(r"(?:(?P<voice>[^:?]*):)?(?P<speaker>[^:?]*)(?:\?(?P<options>.*))?")
_OWN = ("seed", "temperature")


@dataclass(frozen=True)
class SystemSpec:
    """A system to be spoken: ``[voice:]speaker[?option=value,...]``; ``teacher`` is whom the voices learned from."""

    name: str
    voice: str
    speaker: str
    options: dict[str, Any] = field(default_factory=dict[str, Any])
    seed: int = 0
    temperature: float | None = None


def read_spec(text: str) -> SystemSpec:
    """A system from its description. Raises BadOption."""
    match = _SPEC.fullmatch(text)
    if match is None or not (match["voice"] or match["speaker"]):
        raise BadOption(f"{text!r} is not a system", "write [voice:]speaker[?m=3,n=1], clara?m=3,n=1 for instance")
    options: dict[str, Any] = {}
    for part in filter(None, (match["options"] or "").split(",")):
        key, mark, value = part.partition("=")
        if not mark or key in options:
            raise BadOption(f"{part!r} in {text!r} is not an option of its own", "write name=value, each once")
        options[key] = _value(value)
    own = {key: options.pop(key) for key in _OWN if key in options}
    return SystemSpec(text, match["voice"] or "", match["speaker"] or "", options, **own)


def read_texts(path: Path) -> dict[str, str]:
    """Texts by item name: one a line, ``name|text`` or the text alone (named by line). Raises BadFile."""
    try:
        lines = read_bounded(path, MAX_TEXTS_BYTES).decode("utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise BadFile(f"the texts {path} cannot be read: {error}", "give a UTF-8 text file, one text a line") from error
    texts: dict[str, str] = {}
    for number, line in enumerate(lines, start=1):
        name, mark, text = line.partition("|")
        if not line.strip():
            continue
        key = name.strip() if mark else f"text{number:03}"
        if key in texts:
            raise BadFile(f"line {number} of {path.name} names {key!r:.80} again", "give each text its own name")
        try:
            check_name(key)  # files are called so
        except BadOption as error:
            raise BadFile(f"line {number} of {path.name}: {error.what}", error.do) from error
        texts[key] = (text if mark else line).strip()
    if not texts:
        raise BadFile(f"{path.name} has no text", "write one text a line")
    return texts


def speak_all(
    specs: Sequence[SystemSpec],
    texts: dict[str, str],
    out: Path,
    *,
    voices: Path,
    device: str,
    references: Sequence[str] = (),
    spoken: Callable[[], None] = lambda: None,
) -> Path:
    """Speak every text by every system into ``out`` and describe it in ``manifest.json``, which is answered.

    What is there from an earlier, stopped run is not spoken again. ``spoken`` is called after each clip.

    Raises:
        BadOption, BadVoice: a system cannot be had.
        BadFile: the teacher has no such words.
    """
    out.mkdir(parents=True, exist_ok=True)
    files: list[dict[str, str]] = []
    for spec in specs:
        folder = out / _folder(spec.name)
        folder.mkdir(exist_ok=True)
        todo = {item: text for item, text in texts.items() if not (folder / f"{item}.wav").is_file()}
        speak = _by_teacher if spec.voice == TEACHER else _by_voice
        speak(spec, todo, folder, voices, device, spoken)
        for item in texts:
            made = {"system": spec.name, "item": item, "file": f"{folder.name}/{item}.wav"}
            trace = folder / f"{item}.trace"
            files.append(made | ({"trace": f"{folder.name}/{trace.name}"} if trace.is_file() else {}))
    described = {
        "systems": [
            {
                "name": s.name,
                "role": "reference" if s.name in references else "test",
                "voice": {"voice": s.voice, "speaker": s.speaker, "seed": s.seed, **_warmth(s), **s.options},
            }
            for s in specs
        ],
        "items": [{"name": item, "text": text} for item, text in texts.items()],
        "files": files,
    }
    manifest = out / "manifest.json"
    manifest.write_text(json.dumps(described, indent=1), encoding="utf-8")
    return manifest


def _by_voice(
    spec: SystemSpec,
    texts: dict[str, str],
    folder: Path,
    voices: Path,
    device: str,
    spoken: Callable[[], None],
) -> None:
    from studio import say
    from studio.engine.loop import open_engine
    from studio.text.normalise import best

    if not texts:
        return
    engine = open_engine(voices, best(), device)
    try:
        voice = voice_address(spec.voice, spec.speaker, engine.cards())
        for item, text in texts.items():
            request = SpeakRequest(voice=voice, seed=spec.seed, temperature=spec.temperature, options=spec.options)
            made = say.speak(engine, request, say.at_once(text), MonotonicClock(), folder / item)
            say.save(made.whole(), folder / f"{item}.wav", as_heard=False)
            spoken()
    finally:
        engine.close()


def _by_teacher(
    spec: SystemSpec,
    texts: dict[str, str],
    folder: Path,
    voices: Path,
    device: str,
    spoken: Callable[[], None],
) -> None:
    from studio.engine import dmel
    from studio.train.corpus.shards import levelled
    from studio.train.recipe import read_recipe
    from studio.train.teachers.choose import open_teacher, teacher_of

    corpora = (read_recipe(path).corpus for path in sorted(voices.glob("*/recipe.toml")))
    learned = next((one.taught_by(spec.speaker) for one in corpora if spec.speaker in one.named()), None)
    name, speaker, gain_db = learned or ("", spec.speaker, 0.0)
    teacher = open_teacher(name) if name else teacher_of(speaker)
    for (item, text), taught in zip(texts.items(), teacher.speak(speaker, list(texts.values())), strict=True):
        if taught is None:
            raise BadFile(f"the teacher cannot say {text[:60]!r}", "write numbers and abbreviations out")
        write_wav(folder / f"{item}.wav", levelled(taught, gain_db), dmel.TIME_BASE.rate_hz)
        spoken()


def _warmth(spec: SystemSpec) -> dict[str, float]:
    return {} if spec.temperature is None else {"temperature": spec.temperature}


def _folder(name: str) -> str:
    """A folder's name for a system: readable, and unlike that of any other."""
    return f"{re.sub(r'[^A-Za-z0-9]+', '-', name).strip('-')}-{hashlib.sha256(name.encode()).hexdigest()[:6]}"


def _value(text: str) -> Any:
    try:
        return int(text)
    except ValueError:
        pass
    try:
        return float(text)
    except ValueError:
        return text
