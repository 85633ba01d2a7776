"""Options shared by several commands, as annotated types, and the common parameters of the evaluations.

A benchmark declares its ``Parameters`` once: each field annotated with a ``typer.Option`` is an option of
its command (``studio.commands.bench``), every other field is for callers in Python.
"""

from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any, dataclass_transform

import typer

from studio.core.folders import VOICES

WHISPER = "whisper"
FINAL_TEXTS = ("hard", "hard-short")  # texts/*.txt that only final reports use (assets/README.md)
Voices = Annotated[Path, typer.Option(help="Folder of voices.", envvar="STUDIO_VOICES")]
Device = Annotated[str, typer.Option(help="auto, cpu or cuda.")]
VoiceName = Annotated[str, typer.Option(help="Voice, as name[:speaker]; the first voice by default.")]
Vocoder = Annotated[str, typer.Option(help="Vocoder, by default the voice's own; `studio voices info` lists them.")]
FamilyOption = Annotated[
    list[str] | None, typer.Option("--option", help="Option of the family, name=value. Repeatable.")
]
Threads = Annotated[int, typer.Option(min=1, max=256, help="CPU threads; more than one helps large nets only.")]
Texts = Annotated[Path, typer.Option(help="Text file, one text a line.")]
Count = Annotated[int, typer.Option(min=1, help="Number of texts, from the first.")]
Seed = Annotated[int, typer.Option(help="Random seed.")]
Speakers = Annotated[
    tuple[str, ...],
    typer.Option(
        "--speaker", help="Speaker of the voice; by default the one named with the voice, or all. Repeatable."
    ),
]
Compared = Annotated[
    tuple[str, ...],
    typer.Option(
        "--setting",
        help="Options of the family, as name=value,name=value. Repeatable where settings are compared; "
        "by default the family's own list.",
    ),
]
Recogniser = Annotated[
    str,
    typer.Option(
        help="whisper (base), whisper:NAME from the hub, whisper:FOLDER, or pocketsphinx.", envvar="STUDIO_RECOGNISER"
    ),
]
Cache = Annotated[Path | None, typer.Option(help="Folder that caches speech and answers; a stopped run resumes.")]


@dataclass_transform(frozen_default=True, kw_only_default=True, field_specifiers=(field,))
@dataclass(frozen=True, kw_only=True)
class Parameters:
    """Parameters of a measurement; a subclass is a frozen dataclass with keyword arguments only, undecorated."""

    quiet: bool = False  # show no progress bars

    def __init_subclass__(cls) -> None:
        super().__init_subclass__()
        dataclass(frozen=True, kw_only=True)(cls)


class Setting(Parameters):
    """Common parameters of the evaluations.

    Attributes:
        voices: folder of voices; ``voice`` is ``name`` or ``name:speaker`` in it, empty for the first.
        speakers: empty for the speaker named with the voice, or else all.
        settings: options of the family to compare, each as ``name=value,name=value``. By default the family's list
            for comparisons; a single setting defaults to the card's.
        workers: recogniser processes.
        cache: folder for speech and transcripts, None for no cache.
    """

    voices: Voices = VOICES
    voice: VoiceName = ""
    device: Device = "auto"
    cache: Cache = None
    speakers: tuple[str, ...] = ()
    settings: tuple[str, ...] = ()
    recogniser: str = WHISPER
    workers: int = 2
    seed: int = 0


def result_name(parameters: Any, command: str) -> str:
    """Name of the figures in bench/results: the command's, or the parameters' own ``result_name``.

    Figures on texts of ``FINAL_TEXTS`` have names of their own: results and cards show the newest file of a name.
    """
    name = getattr(parameters, "result_name", command)
    texts = getattr(parameters, "texts", None)
    return f"{texts.stem}-{name}" if isinstance(texts, Path) and texts.stem in FINAL_TEXTS else name
