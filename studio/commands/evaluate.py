"""``studio eval``: how well a voice speaks."""

from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any

import typer

from studio.commands.common import Count, Device, Json, Save, Settings, Texts, VoiceName, Voices, show
from studio.core.errors import BadOption
from studio.core.shipped import TEXTS, VOICES

evaluate = typer.Typer(no_args_is_help=True, help="Measure how well a voice speaks.")

Recogniser = Annotated[
    str,
    typer.Option(
        help="whisper (its base weights), whisper:NAME of the hub, whisper:FOLDER, or pocketsphinx.",
        envvar="STUDIO_RECOGNISER",
    ),
]
Cache = Annotated[Path | None, typer.Option(help="Keep speech and answers here, so that a stopped run goes on.")]


def _wer() -> tuple[type[Any], Callable[[Any], dict[str, Any]]]:
    from studio.bench.evaluation.wer import WerSetting, eval_wer

    return WerSetting, eval_wer


def _long() -> tuple[type[Any], Callable[[Any], dict[str, Any]]]:
    from studio.bench.evaluation.long import LongSetting, eval_long

    return LongSetting, eval_long


def _short() -> tuple[type[Any], Callable[[Any], dict[str, Any]]]:
    from studio.bench.evaluation.short import ShortSetting, eval_short

    return ShortSetting, eval_short


def _recognised(name: str, load: Callable[[], tuple[type[Any], Any]], file: str, most: int, what: str) -> None:
    """Add a command that has a voice speak texts, and a recogniser hear them."""

    @evaluate.command(name, help=what)
    def command(
        texts: Texts = TEXTS / file,
        count: Count = most,
        setting: Settings = None,
        voice: VoiceName = "",
        voices: Voices = VOICES,
        device: Device = "auto",
        recogniser: Recogniser = "whisper",
        cache: Cache = None,
        as_json: Json = False,
        save: Save = False,
    ) -> None:
        of, measure = load()
        asked = of(
            voices=voices,
            voice=voice,
            device=device,
            cache=cache,
            recogniser=recogniser,
            quiet=as_json,
            texts=texts,
            count=count,
            settings=tuple(setting or ()),
        )
        show(name, measure(asked), as_json, save)


_recognised(
    "wer", _wer, "eval.txt", 100, "Word error rate in every setting, beside the teacher's (Table I of paper 000)."
)
_recognised("long", _long, "paragraphs.txt", 10, "Word error rate of the first and second half of long paragraphs.")
_recognised("short", _short, "eval.txt", 50, "Texts of one and two words, drawn from a file: heard right, and whole?")


@evaluate.command()
def hour(
    texts: Texts = TEXTS / "eval.txt",
    minutes: Annotated[float, typer.Option(min=0.1, max=600, help="Of speech, in one utterance.")] = 60.0,
    block: Annotated[float, typer.Option(min=0.05, max=60, help="Minutes that are compared, first and last.")] = 10.0,
    setting: Settings = None,
    voice: VoiceName = "",
    voices: Voices = VOICES,
    device: Device = "auto",
    recogniser: Recogniser = "whisper",
    cache: Cache = None,
    as_json: Json = False,
    save: Save = False,
) -> None:
    """One utterance of an hour: word error rate of its last minutes beside its first, and memory as it goes on."""
    from studio.bench.evaluation.hour import HourSetting, eval_hour

    where: dict[str, Any] = {"voices": voices, "voice": voice, "device": device, "cache": cache}
    what: dict[str, Any] = {"recogniser": recogniser, "settings": tuple(setting or ()), "quiet": as_json}
    asked = HourSetting(**where, **what, texts=texts, minutes=minutes, block_minutes=block)
    show("hour", eval_hour(asked), as_json, save)


@evaluate.command()
def boundaries(
    texts: Texts = TEXTS / "eval.txt",
    count: Count = 50,
    forced: Annotated[
        bool, typer.Option("--forced", help="Only p_eos on the teacher's own speech: nothing is spoken or aligned.")
    ] = False,
    m: Annotated[int, typer.Option("--window", "-m", min=1, max=6, help="Words seen per segment.")] = 5,
    voice: VoiceName = "",
    voices: Voices = VOICES,
    device: Device = "auto",
    cache: Cache = None,
    as_json: Json = False,
    save: Save = False,
) -> None:
    """Whether segments speak their own words, and where p_eos stands against word ends."""
    from studio.bench.evaluation.boundaries import BoundarySetting, eval_boundaries

    setting = BoundarySetting(
        voices=voices,
        voice=voice,
        device=device,
        cache=cache,
        quiet=as_json,
        texts=texts,
        count=count,
        m=m,
        only_forced=forced,
    )
    show("forced-boundaries" if forced else "boundaries", eval_boundaries(setting), as_json, save)


@evaluate.command()
def seams(
    texts: Texts = TEXTS / "eval.txt",
    count: Count = 200,
    hops: Annotated[list[int] | None, typer.Option("--n", min=2, help="Words a segment; 2 and 3 unless given.")] = None,
    setting: Settings = None,
    voice: VoiceName = "",
    voices: Voices = VOICES,
    device: Device = "auto",
    cache: Cache = None,
    as_json: Json = False,
    save: Save = False,
) -> None:
    """Whether a detector can tell seams from other word boundaries of the same speech."""
    from studio.bench.evaluation.seams import SeamSetting, eval_seams

    asked = SeamSetting(
        voices=voices,
        voice=voice,
        device=device,
        cache=cache,
        quiet=as_json,
        texts=texts,
        count=count,
        settings=tuple(setting or ()),
        hops=tuple(hops or (2, 3)),
    )
    show("seams", eval_seams(asked), as_json, save)


@evaluate.command()
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
        vocoders=tuple(name.strip() for name in vocoders.split(",") if name.strip()),
        folders=tuple(folders or ()),
        teacher=teacher,
        speak=bool(voice) or not folders,
    )
    show("quality", eval_quality(asked), as_json, save)


@evaluate.command()
def families(
    texts: Texts = TEXTS / "eval.txt",
    count: Count = 100,
    predicted: Annotated[int, typer.Option(min=1, help="Texts that the predictor judges.")] = 50,
    timed: Annotated[
        int, typer.Option(min=0, help="Texts spoken against the clock; 0 where something else is running.")
    ] = 20,
    voice: Annotated[list[str] | None, typer.Option(help="A voice's name; all unless given. May be repeated.")] = None,
    voices: Voices = VOICES,
    device: Device = "auto",
    recogniser: Recogniser = "whisper",
    cache: Cache = None,
    as_json: Json = False,
    save: Save = False,
) -> None:
    """All voices side by side: word errors, predicted MOS, first audio, real-time factor, size."""
    from studio.bench.evaluation.families import FamiliesSetting, eval_families

    asked = FamiliesSetting(
        voices=voices,
        only=tuple(voice or ()),
        device=device,
        cache=cache,
        recogniser=recogniser,
        quiet=as_json,
        texts=texts,
        count=count,
        predicted=predicted,
        timed=timed,
    )
    show("families", eval_families(asked), as_json, save)


@evaluate.command("vocoder")
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


@evaluate.command()
def heard(
    texts: Texts = TEXTS / "live.txt",
    count: Count = 10,
    wpm: Annotated[float, typer.Option(min=1, max=1000, help="Typing speed, words a minute.")] = 60.0,
    keep: Annotated[Path | None, typer.Option(help="Folder for the captured WAV files.")] = None,
    voice: VoiceName = "",
    recogniser: Recogniser = "whisper",
    as_json: Json = False,
    save: Save = False,
) -> None:
    """Type texts live into the page, and transcribe what leaves its player."""
    from studio.bench.evaluation.heard import HeardSetting, eval_heard

    setting = HeardSetting(
        texts=texts, count=count, wpm=wpm, keep=keep, voice=voice, recogniser=recogniser, quiet=as_json
    )
    show("heard", eval_heard(setting), as_json, save)


@evaluate.command()
def interleaving(
    features: Annotated[Path, typer.Option(help="Folder of encoded shards, whose word ends are known.")],
    encoding: Annotated[Path, typer.Option("--bpe", help="The byte-pair encoding, bpe.json of a voice.")],
    figure: Annotated[Path | None, typer.Option("-o", help="Draw the heat maps of figure 4 into this .html.")] = None,
    as_json: Json = False,
    save: Save = False,
) -> None:
    """How far text and speech lie apart at every ratio of IST-LM (figure 4 of paper 003)."""
    from studio.bench.evaluation.interleaving import eval_interleaving, heat_maps

    if figure is not None and (figure.suffix != ".html" or not figure.parent.is_dir()):
        raise BadOption(f"-o {figure} is no place for the heat maps", "name an .html file in a folder that is there")
    found = eval_interleaving(features, encoding, quiet=as_json)
    if figure is not None:
        heat_maps(found).write_html(figure)
        typer.echo(f"heat maps in {figure}", err=True)
    show("interleaving", found, as_json, save)
