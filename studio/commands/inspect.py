"""``studio inspect`` and ``studio compare``: timelines in the terminal, as a picture or as one HTML page."""

from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from studio.bench.options import Device, Voices
from studio.commands.common import Json, check_output_file
from studio.core.folders import VOICES, speakers_folder
from studio.core.plurals import counted
from studio.core.terminal import print_json, print_line

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from studio.core.traces.teacher_forcing import TeacherForcingResult
    from studio.core.traces.trace import Trace

File = Annotated[Path, typer.Argument(help="A .trace, the folder of an interrupted one, or a WAV.")]
Picture = Annotated[Path | None, typer.Option(help="Also draw the timeline: typed, generated and played.")]
Files = Annotated[
    list[Path],
    typer.Argument(
        help="Two to eight .trace files, or WAV files with FILE.txt and FILE.TextGrid; one with --overlapped."
    ),
]
ComparisonPicture = Annotated[
    Path | None, typer.Option(help="Also draw words on one axis, durations, and the difference of the first two.")
]


def inspect(
    file: File,
    text: Annotated[str, typer.Option(help="Text of a WAV.")] = "",
    svg: Picture = None,
    png: Picture = None,
    pdf: Picture = None,
    html: Annotated[
        Path | None, typer.Option(help="Also write one HTML page with sound and the interactive picture.")
    ] = None,
    textgrid: Annotated[
        Path | None, typer.Option(help="Also write words, segments and seams as a TextGrid, in the time of the sound.")
    ] = None,
    captions: Annotated[
        Path | None, typer.Option(help="Also write captions, .srt or .vtt, in the time of the sound.")
    ] = None,
    reference: Annotated[
        Path | None, typer.Option(help="TextGrid whose tier words is compared; it gives the word times of a WAV.")
    ] = None,
    attention: Annotated[
        Path | None, typer.Option(help="Also write the attention of a trace to this .npz, and draw it in --html.")
    ] = None,
    voices: Voices = VOICES,
    device: Device = "auto",
    as_json: Json = False,
) -> None:
    """Show when each word was typed, generated and played, and the cause of every wait."""
    from studio.core.traces.captions import SUFFIXES, write_captions
    from studio.inspection.facts import compare_with_reference, facts, render_facts
    from studio.inspection.opening import open_file, with_word_times
    from studio.inspection.textgrid import read_words, write_textgrid
    from studio.inspection.timeline import timeline

    pictures = _checked_pictures(svg, png, pdf, html)
    check_output_file(attention, "--attention", ".npz")
    check_output_file(textgrid, "--textgrid", ".textgrid")
    check_output_file(captions, "--captions", *SUFFIXES)
    trace = open_file(file, text)
    reference_words = read_words(reference) if reference else []
    is_recording = trace.meta.get("source") == "recording"
    if reference and is_recording:
        trace = with_word_times(trace, reference_words)
    line = timeline(trace)
    figures = facts(trace, line)
    if reference and not is_recording:
        figures["reference"] = compare_with_reference(trace, reference_words)
    _print(figures, render_facts(figures), as_json)
    if pictures:
        from studio.inspection.picture import draw, write_figure

        for path in pictures:
            write_figure(draw(line, line.text if len(line.text) < 100 else file.name), path)
            print_line(f"{path}: the timeline", err=True)
    forced = _attention(trace, attention, voices, device) if attention else None
    if textgrid:
        write_textgrid(trace, textgrid)
        print_line(f"{textgrid}: words, segments and seams", err=True)
    if captions:
        count = write_captions(trace, captions)
        print_line(f"{captions}: {counted(count, 'caption')}", err=True)
    if html:
        from studio.ui.html_file import write_inspection

        write_inspection(trace, html, forced)
        print_line(f"{html}: the utterance with its sound", err=True)


def _checked_pictures(svg: Path | None, png: Path | None, pdf: Path | None, html: Path | None) -> list[Path]:
    """The pictures to draw. Raises BadFile if one of them, or the page, cannot be written."""
    pictures = {"--svg": svg, "--png": png, "--pdf": pdf}
    for option, path in (pictures | {"--html": html}).items():
        check_output_file(path, option, f".{option[2:]}")
    return [path for path in pictures.values() if path]


def _print(figures: "Mapping[str, Any]", parts: "Iterable[Any]", as_json: bool) -> None:
    from studio.measure.report import console, plain

    if as_json:
        print_json(plain(figures))
        return
    for part in parts:
        console().print(part, highlight=False, markup=False)


def _attention(trace: "Trace", path: Path, voices: Path, device: str) -> "TeacherForcingResult":
    """Compute the attention, and write it.

    The file has ``by_layer`` float16 [L, F, K], ``shares`` float32 [F, K], ``word`` int32 [F] (the spoken word of
    column 0), ``words`` (their texts), ``p_eos`` and ``log_likelihood`` float32 [F].
    """
    import numpy as np

    from studio.engine.engine import open_engine
    from studio.text.normalise import best

    with closing(open_engine(voices, best(), device, speakers=speakers_folder())) as engine:
        forced = engine.recomputer().compute_attention(trace)
    np.savez_compressed(
        path,
        by_layer=forced.by_layer,
        shares=forced.shares,
        word=forced.word,
        words=np.array([word.text for word in trace.words()]),
        p_eos=forced.p_eos,
        log_likelihood=forced.log_likelihood,
        what=np.array(forced.what),
    )
    difference = forced.difference(trace.p_eos)
    print_line(f"{path}: {forced.what}; p_eos computed again differs by at most {difference:.2g}", err=True)
    return forced


def compare(
    files: Files,
    text: Annotated[str, typer.Option(help="Text of WAV files without a FILE.txt.")] = "",
    svg: ComparisonPicture = None,
    png: ComparisonPicture = None,
    pdf: ComparisonPicture = None,
    html: Annotated[
        Path | None, typer.Option(help="Also write one page with the sounds and the interactive picture.")
    ] = None,
    no_pitch: Annotated[bool, typer.Option("--no-pitch", help="Skip pitch, which takes the longest.")] = False,
    overlapped: Annotated[
        bool,
        typer.Option(
            "--overlapped", help="Also compare each trace with its frames vocoded segment by segment with cross-fades."
        ),
    ] = False,
    voices: Voices = VOICES,
    device: Device = "auto",
    as_json: Json = False,
) -> None:
    """Compare utterances of one text word by word: times, durations, pitch, level, latency."""
    from studio.core.errors import BadOption
    from studio.inspection.comparison.bundle import figures_of, render_comparison
    from studio.inspection.comparison.compare import MAX_UTTERANCES, compared_utterance, labels
    from studio.inspection.comparison.compare import compare as compared
    from studio.inspection.opening import open_source

    count = len(files) * (2 if overlapped else 1)
    if not 2 <= count <= MAX_UTTERANCES:
        raise BadOption(
            f"{count} to compare", f"give from {1 if overlapped else 2} to {MAX_UTTERANCES // (1 + overlapped)} files"
        )
    pictures = _checked_pictures(svg, png, pdf, html)
    traces = [open_source(file, text) for file in files]
    sources = [file.name for file in files]
    if overlapped:
        traces = _with_overlapped(traces, voices, device)
        sources = [name for file in sources for name in (file, f"{file}, overlapped")]
    names = labels(traces)
    if len(set(names)) < len(names):
        names = sources
    comparison = compared([compared_utterance(name, trace) for name, trace in zip(names, traces, strict=True)])
    figures = figures_of(comparison, with_pitch=not no_pitch)
    _print(figures, render_comparison(figures, names), as_json)
    if pictures:
        from studio.inspection.picture import draw_comparison, write_figure

        for path in pictures:
            write_figure(draw_comparison(comparison, names), path)
            print_line(f"{path}: the comparison", err=True)
    if html:
        from studio.ui.html_file import write_comparison

        write_comparison(comparison, html)
        print_line(f"{html}: the comparison with its sounds", err=True)


def _with_overlapped(traces: "list[Trace]", voices: Path, device: str) -> "list[Trace]":
    """Each trace, followed by the same frames vocoded segment by segment by the voice that spoke it."""
    from studio.engine.engine import open_engine
    from studio.text.normalise import best

    with closing(open_engine(voices, best(), device, speakers=speakers_folder())) as engine:
        recomputer = engine.recomputer()
        return [one for trace in traces for one in (trace, recomputer.vocode_overlapped(trace))]
