"""``studio eval`` quality, families, prompts and vocoder: voices, speakers and vocoders side by side."""

from pathlib import Path
from typing import Annotated

import typer

from studio.commands.common import (
    Cache,
    Count,
    Device,
    Json,
    Recogniser,
    Save,
    Settings,
    Speakers,
    Texts,
    VoiceName,
    Voices,
    show,
)
from studio.core.shipped import TEXTS, VOICES

sound_commands = typer.Typer()


@sound_commands.command()
def quality(
    folders: Annotated[
        list[Path] | None, typer.Argument(help="Folders of WAV or FLAC files; a voice is measured where none is given.")
    ] = None,
    texts: Texts = TEXTS / "eval.txt",
    count: Count = 50,
    setting: Settings = None,
    vocoders: Annotated[str, typer.Option(help="Also these vocoders of the card alone, comma-separated.")] = "",
    teacher: Annotated[
        Path | None, typer.Option(help="Folder of the teacher's own sounds, or of one for each speaker.")
    ] = None,
    voice: VoiceName = "",
    speaker: Speakers = None,
    voices: Voices = VOICES,
    device: Device = "auto",
    cache: Cache = None,
    as_json: Json = False,
    save: Save = False,
) -> None:
    """Predicted MOS (DistillMOS, no people) of settings, vocoders and folders, beside the teacher's."""
    from studio.bench.evaluation.quality import QualitySetting, eval_quality

    asked = QualitySetting(
        voices=voices,
        voice=voice,
        device=device,
        cache=cache,
        quiet=as_json,
        texts=texts,
        count=count,
        settings=tuple(setting or ()),
        speakers=tuple(speaker or ()),
        vocoders=tuple(name.strip() for name in vocoders.split(",") if name.strip()),
        folders=tuple(folders or ()),
        teacher=teacher,
        speak=bool(voice) or not folders,
    )
    show("quality", eval_quality(asked), as_json, save)


@sound_commands.command()
def families(
    texts: Texts = TEXTS / "eval.txt",
    count: Count = 100,
    predicted: Annotated[int, typer.Option(min=1, help="Texts that the predictor judges.")] = 50,
    timed: Annotated[
        int, typer.Option(min=0, help="Texts spoken against the clock; 0 where something else is running.")
    ] = 20,
    seams: Annotated[int, typer.Option(min=0, help="Texts whose seams are looked for; 0 for none.")] = 0,
    voice: Annotated[list[str] | None, typer.Option(help="A voice's name; all unless given. May be repeated.")] = None,
    speaker: Annotated[
        list[str] | None, typer.Option(help="Whom all of them have; each such unless given. May be repeated.")
    ] = None,
    voices: Voices = VOICES,
    device: Device = "auto",
    recogniser: Recogniser = "whisper",
    cache: Cache = None,
    as_json: Json = False,
    save: Save = False,
) -> None:
    """All voices side by side: word errors, predicted MOS, first audio, real-time factor, seams, size."""
    from studio.bench.evaluation.families import FamiliesSetting, eval_families

    asked = FamiliesSetting(
        voices=voices,
        only=tuple(voice or ()),
        speakers=tuple(speaker or ()),
        device=device,
        cache=cache,
        recogniser=recogniser,
        quiet=as_json,
        texts=texts,
        count=count,
        predicted=predicted,
        timed=timed,
        seams=seams,
    )
    show("families", eval_families(asked), as_json, save)


@sound_commands.command()
def prompts(
    texts: Texts = TEXTS / "eval.txt",
    count: Annotated[int, typer.Option(min=1, help="Texts, from the first, dealt to the speakers in turn.")] = 120,
    references: Annotated[
        int, typer.Option(min=2, help="Texts, from the last, which the teacher speaks as each speaker.")
    ] = 30,
    setting: Settings = None,
    voice: VoiceName = "",
    voices: Voices = VOICES,
    device: Device = "auto",
    cache: Cache = None,
    as_json: Json = False,
    save: Save = False,
) -> None:
    """Whether each speaker is heard as the one whose recording the voice was given: nearest speaker, and pitch.

    It is meant for voices that know their speakers by a recording, and works for any voice of several speakers. The
    teacher's weights are needed: STUDIO_KOKORO names their folder.
    """
    from studio.bench.evaluation.prompts import PromptSetting, eval_prompts

    asked = PromptSetting(
        voices=voices,
        voice=voice,
        device=device,
        cache=cache,
        quiet=as_json,
        texts=texts,
        count=count,
        settings=tuple(setting or ()),
        references=references,
    )
    show("prompts", eval_prompts(asked), as_json, save)


@sound_commands.command("vocoder")
def vocoder_table(
    texts: Texts = TEXTS / "eval.txt",
    count: Count = 100,
    voice: VoiceName = "",
    voices: Voices = VOICES,
    recogniser: Recogniser = "whisper",
    cache: Cache = None,
    as_json: Json = False,
    save: Save = False,
) -> None:
    """The vocoders side by side: WER, STFT distance, real-time factor, parameters."""
    from studio.bench.evaluation.vocoder import VocoderSetting, eval_vocoder

    setting = VocoderSetting(
        voices=voices, voice=voice, cache=cache, recogniser=recogniser, quiet=as_json, texts=texts, count=count
    )
    show("vocoder", eval_vocoder(setting), as_json, save)
