"""Stimuli from the studio's voices: texts spoken by systems like ``clara?m=3,n=1``, as clips and traces.

This is the only place where the engine and the listening tests meet; they exchange a folder of files.
"""

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from studio.core.clips import write_wav
from studio.core.errors import BadFile
from studio.mos.campaign.voices import TEACHER, SystemVoice, parse_voice_spec
from studio.mos.stimuli.synthesis import Speaker, SpeechTask, engine_speaker
from studio.mos.stimuli.synthesis import speak_all as speak_into


def speak_all(
    systems: Sequence[str],
    texts: Mapping[str, str],
    out: Path,
    *,
    voices: Path,
    device: str,
    references: Sequence[str] = (),
    spoken: Callable[[], None] = lambda: None,
) -> Path:
    """Speak every text by every system into ``out``, and return its ``manifest.json``.

    Raises:
        BadOption, BadVoice: unknown system.
        BadFile: the teacher cannot speak a text.
    """
    sayings = [SpeechTask(s, parse_voice_spec(s), texts, "reference" if s in references else "test") for s in systems]
    return speak_into(sayings, out, speaker(voices, device), spoken)


def speaker(voices: Path, device: str) -> Speaker:
    """A function that speaks by a voice of the folder, or by the teacher."""

    def speak(voice: SystemVoice, texts: Mapping[Path, str], spoken: Callable[[], None]) -> None:
        if not texts:
            return
        if voice.voice == TEACHER:
            _by_teacher(voice.speaker, texts, voices, spoken)
        else:
            _by_voice(voice, texts, voices, device, spoken)

    return speak


def _by_voice(
    voice: SystemVoice, texts: Mapping[Path, str], voices: Path, device: str, spoken: Callable[[], None]
) -> None:
    from studio.engine.engine import open_engine
    from studio.text.normalise import best

    engine = open_engine(voices, best(), device)
    try:
        engine_speaker(engine)(voice, texts, spoken)
    finally:
        engine.close()


def _by_teacher(speaker: str, texts: Mapping[Path, str], voices: Path, spoken: Callable[[], None]) -> None:
    from studio.engine.tokenizers import dmel
    from studio.train.corpus.shards import resample_and_scale
    from studio.train.recipes.recipe import read_recipe
    from studio.train.teachers.registry import open_teacher, teacher_of

    corpora = (read_recipe(path).corpus for path in sorted(voices.glob("*/recipe.toml")))
    learned = next((one.teacher_of(speaker) for one in corpora if speaker in one.named()), None)
    name, known_as, gain_db = learned or ("", speaker, 0.0)
    teacher = open_teacher(name) if name else teacher_of(known_as)
    for (place, text), taught in zip(texts.items(), teacher.speak(known_as, list(texts.values())), strict=True):
        if taught is None:
            raise BadFile(f"the teacher cannot say {text[:60]!r}", "spell out numbers and abbreviations")
        write_wav(place.with_name(f"{place.name}.wav"), resample_and_scale(taught, gain_db), dmel.TIME_BASE.rate_hz)
        spoken()
