"""The demo's sounds: sentences spoken by every voice and by the teacher."""

import json
import tempfile
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path

from studio.commands.stimuli import speak_all
from studio.core.clips import to_int16
from studio.core.errors import BadFile, NeedsPackage
from studio.mos.campaign.texts import read_texts
from studio.mos.campaign.voices import TEACHER

SPEAKERS = ("clara", "miles")
RATE_HZ = 24_000
MOST_BYTES = 4_000_000


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
        systems: as of ``systems_of``.
        spoken: called after each sound.

    Raises:
        BadVoice, NeedsPackage: no such voice or teacher; nothing was changed.
        BadFile: the sounds are too large to ship.
    """
    from studio.core.cards import read_cards

    references = [name for name in systems if name.startswith(TEACHER)]
    said = read_texts(texts)
    cards = read_cards(voices)
    with tempfile.TemporaryDirectory() as scratch:
        made = speak_all(
            systems,
            said,
            Path(scratch),
            voices=voices,
            device=device,
            references=references,
            spoken=spoken,
        )
        manifest = json.loads(made.read_text(encoding="utf-8"))
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
        file.pop("trace", None)  # as large as the sounds; the text and seed reproduce them
    (out / "manifest.json").write_text(json.dumps(manifest, indent=1) + "\n", encoding="utf-8")
    return size


def _flac(wav: Path) -> bytes:
    """A sound as 16-bit FLAC at the demo's one rate."""
    import io

    from studio.mos.store.sounds import read_sound, resample

    try:
        import soundfile
    except ImportError as error:
        raise NeedsPackage("FLAC needs soundfile", "pip install 'streaming-tts-studio[mos]'") from error
    buffer = io.BytesIO()
    pcm = to_int16(resample(read_sound(wav), RATE_HZ).pcm)
    soundfile.write(buffer, pcm, RATE_HZ, format="FLAC", subtype="PCM_16")
    return buffer.getvalue()
