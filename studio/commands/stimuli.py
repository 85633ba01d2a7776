"""Stimuli from the studio's voices: texts spoken by systems like ``clara?m=3,n=1``, as clips and traces.

This is the only place where the engine and the listening tests meet; they exchange a folder of files.
"""

import json
import tempfile
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import closing
from pathlib import Path

from studio.core.clips import to_int16, write_wav
from studio.core.errors import BadFile, BadOption
from studio.mos.campaign.names import read_texts
from studio.mos.campaign.voices import TEACHER, SystemVoice, parse_voice_spec
from studio.mos.stimuli.speech import Speaker, SpeechTask, engine_speaker
from studio.mos.stimuli.speech import speak_all as speak_into

SPEAKERS = ("clara", "miles")
RATE_HZ = 24_000
MOST_BYTES = 4_000_000


def speak_all(
    systems: Sequence[str],
    texts: Mapping[str, str],
    out: Path,
    *,
    voices: Path,
    device: str,
    references: Sequence[str] = (),
    markup: str = "plain",
    speed: float = 1.0,
    spoken: Callable[[], None] = lambda: None,
) -> Path:
    """Speak every text by every system into ``out``, and return its ``manifest.json``.

    Args:
        markup, speed: as the options of ``studio say``.

    Raises:
        BadOption, BadVoice: unknown system.
        BadFile: the teacher cannot speak a text.
    """
    task_markup = "" if markup == "plain" else markup
    tasks = [
        SpeechTask(s, parse_voice_spec(s), texts, "reference" if s in references else "test", task_markup, speed)
        for s in systems
    ]
    return speak_into(tasks, out, speaker(voices, device, markup, speed), spoken)


def speaker(voices: Path, device: str, markup: str = "plain", speed: float = 1.0) -> Speaker:
    """A function that speaks by a voice of the folder, or by the teacher (BadOption: with markup or a speed)."""

    def speak(voice: SystemVoice, texts: Mapping[Path, str], spoken: Callable[[], None]) -> None:
        if not texts:
            return
        if voice.voice == TEACHER and markup != "plain":
            raise BadOption(f"{TEACHER} reads no markup", "leave out --markup, or choose another system")
        if voice.voice == TEACHER and speed != 1.0:
            raise BadOption(f"{TEACHER} has one speed", "leave out --speed, or choose another system")
        if voice.voice == TEACHER:
            _by_teacher(voice.speaker, texts, voices, spoken)
        else:
            _by_voice(voice, texts, voices, device, spoken, markup=markup, speed=speed)

    return speak


def _by_voice(
    voice: SystemVoice,
    texts: Mapping[Path, str],
    voices: Path,
    device: str,
    spoken: Callable[[], None],
    *,
    markup: str,
    speed: float,
) -> None:
    from studio.markup.parts import MarkedEngine
    from studio.systems.combined import open_voices
    from studio.text.normalise import best

    if markup == "markdown":
        from studio.text.markdown import spoken_markdown

        texts = {path: spoken_markdown(text) for path, text in texts.items()}
    with closing(open_voices(voices, best(), device)) as engine:
        engine_speaker(MarkedEngine(engine, markup, speed))(voice, texts, spoken)


def _by_teacher(speaker: str, texts: Mapping[Path, str], voices: Path, spoken: Callable[[], None]) -> None:
    from studio.engine.tokenizers import dmel
    from studio.train.corpus.shards import resample_and_scale
    from studio.train.recipes.recipe import read_recipe
    from studio.train.teachers.registry import open_teacher, teacher_of

    corpora = (read_recipe(path).corpus for path in sorted(voices.glob("*/recipe.toml")))
    corpus_teacher = next((one.teacher_of(speaker) for one in corpora if speaker in one.named()), None)
    name, teacher_speaker, gain_db = corpus_teacher or ("", speaker, 0.0)
    teacher = open_teacher(name) if name else teacher_of(teacher_speaker)
    sounds = teacher.speak(teacher_speaker, list(texts.values()))
    for (stem, text), sound in zip(texts.items(), sounds, strict=True):
        if sound is None:
            raise BadFile(f"the teacher cannot say {text[:60]!r}", "spell out numbers and abbreviations")
        write_wav(stem.with_name(f"{stem.name}.wav"), resample_and_scale(sound, gain_db), dmel.TIME_BASE.rate_hz)
        spoken()


def systems_of(voices: Iterable[str]) -> list[str]:
    """Systems of the demo, as for ``studio campaign new --systems``: each speaker by each voice."""
    spoken = [f"{voice}:{speaker}" for speaker in SPEAKERS for voice in voices]
    return [*spoken, *(f"{TEACHER}:{speaker}" for speaker in SPEAKERS)]


def make_demo(
    out: Path,
    texts: Path,
    systems: Sequence[str],
    *,
    voices: Path,
    device: str,
    spoken: Callable[[], None] = lambda: None,
) -> int:
    """Speak the demo into a folder of FLAC files with a manifest; returns their size in bytes.

    Args:
        systems: as from ``systems_of``.
        spoken: called after each sound.

    Raises:
        BadVoice, NeedsPackage: no such voice or teacher; nothing was changed.
        BadFile: the sounds are too large to ship.
    """
    from studio.core.cards import read_cards

    references = [name for name in systems if name.startswith(TEACHER)]
    lines = read_texts(texts)
    cards = read_cards(voices)
    with tempfile.TemporaryDirectory() as scratch:
        manifest_file = speak_all(
            systems, lines, Path(scratch), voices=voices, device=device, references=references, spoken=spoken
        )
        manifest = json.loads(manifest_file.read_text(encoding="utf-8"))
        packed = {file["file"]: _flac(Path(scratch) / file["file"]) for file in manifest["files"]}
    size = sum(map(len, packed.values()))
    if size > MOST_BYTES:
        raise BadFile(f"the demo has {size:,} bytes, {MOST_BYTES:,} are allowed", f"shorten the texts of {texts.name}")
    for system in manifest["systems"]:
        if system["role"] == "test":
            system["voice"]["sha256"] = cards[system["voice"]["voice"]][0].sha256
    for path in out.glob("*/*.flac"):  # of an earlier run
        path.unlink()
    for file in manifest["files"]:
        path = (out / file["file"]).with_suffix(".flac")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(packed[file["file"]])
        file["file"] = str(path.relative_to(out))
        file.pop("trace", None)  # traces are as large as the sounds; the text and seed reproduce them
    (out / "manifest.json").write_text(json.dumps(manifest, indent=1) + "\n", encoding="utf-8")
    return size


def _flac(wav: Path) -> bytes:
    """A sound as 16-bit FLAC at the demo's sample rate."""
    import io

    import soundfile

    from studio.mos.store.sounds import read_sound, resample

    buffer = io.BytesIO()
    pcm = to_int16(resample(read_sound(wav), RATE_HZ).pcm)
    soundfile.write(buffer, pcm, RATE_HZ, format="FLAC", subtype="PCM_16")
    return buffer.getvalue()
