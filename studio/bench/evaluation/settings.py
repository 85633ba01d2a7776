"""Parameters of the evaluations, ``studio eval``."""

from pathlib import Path
from typing import Annotated, Any

import typer

from studio.bench.options import WHISPER, Compared, Count, Parameters, Recogniser, Setting, Speakers, Texts, VoiceName
from studio.core.errors import BadOption
from studio.core.folders import TEXTS


class WordsSetting(Parameters):
    """How written texts are read: the share read as a person would, by kind, and the time of the normaliser."""

    texts: Annotated[Path, typer.Option(help='Lines {"kind", "half", "input", "right": [readings]}.')] = (
        TEXTS / "words.jsonl"
    )


class WerSetting(Setting):
    """Word error rate of a voice by setting and speaker, beside the teacher's."""

    texts: Texts = TEXTS / "eval.txt"
    count: Count = 100
    settings: Compared = ()
    speakers: Speakers = ()
    recogniser: Recogniser = WHISPER


class LongSetting(WerSetting):
    """Word error rate of the first and the second half of long paragraphs, in one setting."""

    texts: Texts = TEXTS / "paragraphs.txt"
    count: Count = 10


class ShortSetting(WerSetting):
    """Word error rate and missing words in texts of one and of two words, drawn from a file."""

    count: Count = 50


class HourSetting(Setting):
    """One utterance of an hour: word error rate of its last minutes beside its first, and memory over time."""

    texts: Texts = TEXTS / "eval.txt"
    minutes: Annotated[float, typer.Option(min=0.1, max=600, help="Minutes of speech, in one utterance.")] = 60.0
    block_minutes: Annotated[
        float, typer.Option("--block", min=0.05, max=60, help="Minutes in each compared block, first and last.")
    ] = 10.0
    settings: Compared = ()
    recogniser: Recogniser = WHISPER


class HeardSetting(Parameters):
    """Type texts into the Live page, and transcribe the output of its player."""

    texts: Texts = TEXTS / "live.txt"
    count: Count = 10
    wpm: Annotated[float, typer.Option(min=1, max=1000, help="Typing speed, words a minute.")] = 60.0
    keep: Annotated[Path | None, typer.Option(help="Folder for the captured WAV files.")] = None
    recogniser: Recogniser = WHISPER
    voice: VoiceName = ""
    command: Any = None  # starts the app; ``--port N`` is appended. None for this package's own


class BoundarySetting(Setting):
    """Whether each segment speaks exactly its own words, and p_eos relative to the ends of words.

    Attributes:
        only_forced: only run the net on the teacher's speech; the voice speaks nothing, and nothing is aligned.
    """

    texts: Texts = TEXTS / "eval.txt"
    count: Count = 50
    m: Annotated[int, typer.Option("--window", "-m", min=1, max=6, help="Words seen per segment.")] = 5
    hops: tuple[int, ...] = (1, 2, 3)
    only_forced: Annotated[
        bool, typer.Option("--forced", help="Only p_eos on the teacher's speech, by teacher forcing.")
    ] = False

    @property
    def result_name(self) -> str:
        """Name of its file in bench/results."""
        return "forced-boundaries" if self.only_forced else "boundaries"


class SeamSetting(Setting):
    """Whether a detector can distinguish seams from other word boundaries of the same speech."""

    texts: Texts = TEXTS / "eval.txt"
    count: Count = 200
    hops: Annotated[tuple[int, ...], typer.Option("--n", min=2, help="Words per segment: 2 and 3 by default.")] = (2, 3)
    settings: Compared = ()


class WordTimesSetting(Setting):
    """Word times of a voice against an aligner's, after pauses and elsewhere."""

    texts: Texts = TEXTS / "paragraphs.txt"
    count: Count = 10
    settings: Compared = ()
    speakers: Speakers = ()


class InterleavingSetting(Parameters):
    """Distance between text and speech at every ratio of IST-LM (paper 003, figure 4)."""

    features: Annotated[Path, typer.Option(help="Folder of encoded shards with known word ends.")]
    bpe: Annotated[Path, typer.Option(help="Byte-pair encoding: bpe.json of a voice.")]
    figure: Annotated[Path | None, typer.Option("-o", help="Write figure 4's heat maps to this .html file.")] = None

    def __post_init__(self) -> None:
        if self.figure is not None and (self.figure.suffix != ".html" or not self.figure.parent.is_dir()):
            raise BadOption(f"cannot write heat maps to -o {self.figure}", "name an .html file in an existing folder")


class QualitySetting(Setting):
    """Predicted MOS (DistillMOS, no people) of settings, vocoders and folders, beside the teacher's."""

    folders: Annotated[
        tuple[Path, ...], typer.Argument(help="Folders of WAV or FLAC files; without any, a voice is measured.")
    ] = ()
    texts: Texts = TEXTS / "eval.txt"
    count: Count = 50
    settings: Compared = ()
    vocoders: Annotated[str, typer.Option(help="Vocoders of the card to measure alone, comma-separated.")] = ""
    teacher: Annotated[
        Path | None, typer.Option(help="Folder of the teacher's sounds, with or without a folder for each speaker.")
    ] = None
    speakers: Speakers = ()

    @property
    def vocoder_names(self) -> list[str]:
        """``vocoders`` as a list."""
        return [name.strip() for name in self.vocoders.split(",") if name.strip()]

    @property
    def speak(self) -> bool:
        """Whether a voice is measured, and not only folders."""
        return bool(self.voice) or not self.folders


class FamiliesSetting(Setting):
    """All voices side by side: word errors, predicted MOS, first audio, real-time factor, seams, size.

    Each voice speaks in the settings that its family lists, as the speakers that all voices have.
    """

    texts: Texts = TEXTS / "eval.txt"
    count: Count = 100
    predicted: Annotated[int, typer.Option(min=1, help="Texts whose MOS is predicted.")] = 50
    timed: Annotated[int, typer.Option(min=0, help="Texts that are timed; 0 on a busy machine.")] = 20
    seams: Annotated[int, typer.Option(min=0, help="Texts whose seams are measured; 0 for none.")] = 0
    only: Annotated[tuple[str, ...], typer.Option("--voice", help="Name of a voice; all by default. Repeatable.")] = ()
    speakers: Annotated[
        tuple[str, ...],
        typer.Option("--speaker", help="Speaker that all voices have; all of them by default. Repeatable."),
    ] = ()
    voice: str = ""
    recogniser: Recogniser = WHISPER


class PromptSetting(Setting):
    """Whether each speaker of a voice sounds like the reference recording: nearest speaker, and pitch.

    For voices that take a speaker from a recording; works for any voice of several speakers. Needs the teacher's
    weights: STUDIO_KOKORO names their folder.
    """

    texts: Texts = TEXTS / "eval.txt"
    count: Annotated[int, typer.Option(min=1, help="Texts, from the first, spread over the speakers.")] = 120
    references: Annotated[
        int, typer.Option(min=2, help="Texts, from the last, that the teacher speaks as each speaker.")
    ] = 30
    settings: Compared = ()


class VocoderSetting(Setting):
    """Vocoders side by side: WER, STFT distance, real-time factor, parameters."""

    texts: Texts = TEXTS / "eval.txt"
    count: Count = 100
    device: str = "auto"
    recogniser: Recogniser = WHISPER
    vocoders: tuple[str, ...] = ()  # empty for all of the card's
    threads: int = 1  # of torch, for the real-time factor
