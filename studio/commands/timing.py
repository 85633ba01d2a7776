"""``studio timing``: word times by several aligners."""

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any

import typer

from studio.commands.common import progress_bar


def timing(
    places: Annotated[list[Path], typer.Argument(help="Traces, WAV files with FILE.txt, or folders of them.")],
    out: Annotated[Path, typer.Option("--out", "-o", help="Folder for the table and the TextGrids.")],
    aligner: Annotated[
        list[str] | None, typer.Option(help="pocketsphinx, whisper or whisper:FOLDER. Repeatable.")
    ] = None,
    others: Annotated[
        list[Path] | None, typer.Option("--from", help="Folder of another aligner's TextGrids. Repeatable.")
    ] = None,
    cut: Annotated[
        str, typer.Option(help="Also cut at each boundary and transcribe both sides: whisper or pocketsphinx.")
    ] = "",
    moved_ms: Annotated[float, typer.Option(min=1, max=1000, help="Offset of the control cuts.")] = 100.0,
    kind: Annotated[str, typer.Option("--format", help="parquet, csv or json.")] = "parquet",
    workers: Annotated[int, typer.Option(min=1, max=256, help="Processes.")] = 1,
) -> None:
    """Align words with several aligners: median and interval of each boundary, as a table and a TextGrid."""
    from studio.core.errors import BadFile
    from studio.inspection.batch.run import check_kind
    from studio.inspection.batch.sources import find_sources
    from studio.inspection.timing import COLUMNS, TimingSetting, summary, time_all
    from studio.measure.tables import write_rows

    ending = check_kind(kind)
    sources = find_sources(places)
    setting = TimingSetting(
        aligners=tuple(aligner if aligner else () if others else ("pocketsphinx",)),
        folders=tuple(others or ()),
        recogniser=cut,
        moved_ms=moved_ms,
    )
    try:
        out.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise BadFile(f"{out} cannot be made: {error.strerror}", "choose another folder") from error
    with progress_bar() as bar:
        task = bar.add_task("Timing", total=len(sources))
        answers = time_all(sources, setting, workers=workers, on_done=lambda: bar.advance(task))
    found = [one for one in answers if not isinstance(one, str)]
    for one in found:
        place = (out / one.file).with_suffix(".TextGrid")
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_text(one.textgrid(), encoding="utf-8")
    table = out / f"boundaries{ending}"
    write_rows(
        table, COLUMNS, [row for one in found for row in one.rows()], {}, "boundaries of words, by studio timing"
    )
    typer.echo(table)
    if found:
        _show(summary(found))
    problems = [one for one in answers if isinstance(one, str)]
    for one in problems:
        typer.echo(one, err=True)
    if problems:
        raise typer.Exit(1)


def _show(found: Mapping[str, Any]) -> None:
    from studio.measure.report import print_table

    def spread(of: Mapping[str, float] | None) -> str:
        return f"{of['p50']:.1f}, {of['p90']:.1f}" if of else "-"

    def share(of: Any) -> str:
        return f"{of.value:.3f} [{of.low:.3f}, {of.high:.3f}]" if of else "-"

    rows: list[list[object]] = [
        ["width of an interval: median, p90 (ms)", spread(found["width_ms"])],
        ["own boundary from the median: median, p90 (ms)", spread(found["own_away_ms"])],
        ["own boundaries within their interval", found["own_inside"]],
    ]
    if found["cuts_held"]:
        rows.append(["cuts with both words recognised", share(found["cuts_held"])])
        rows.append(["the same, moved", share(found["moved_held"])])
    print_table(f"{found['boundaries']} boundaries of {found['utterances']} utterances", ("", "value"), rows)
