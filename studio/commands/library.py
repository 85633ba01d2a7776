"""``studio library``: stored utterances."""

from collections.abc import Generator
from contextlib import closing, contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from studio.commands.common import Data, Json, progress_bar
from studio.core.errors import bad_file
from studio.core.folders import DEFAULT_DATA
from studio.core.terminal import print_data, print_json, print_line

if TYPE_CHECKING:
    from studio.library.entries import LibraryEntry
    from studio.library.library import Library

library = typer.Typer(no_args_is_help=True, help="Find, open, tag and remove stored utterances.")

Which = Annotated[str, typer.Argument(help="At least six digits of its name.")]
Tags = Annotated[list[str] | None, typer.Option(help="Tag. Repeatable.")]
Title = Annotated[str, typer.Option(help="One line.")]
Day = Annotated[datetime | None, typer.Option(formats=["%Y-%m-%d"], help="A day, UTC.")]


@contextmanager
def _opened(data: Path) -> "Generator[Library]":
    from studio.library.library import Library

    with closing(Library(data / "library")) as store:
        yield store


@library.command()
def add(
    files: Annotated[list[Path], typer.Argument(help="Traces or WAV files.")],
    text: Annotated[str, typer.Option(help="Text of a WAV; by default FILE.txt.")] = "",
    title: Title = "",
    tag: Tags = None,
    data: Data = DEFAULT_DATA,
) -> None:
    """Store traces, or recordings with their text."""
    from studio.core.files import MAX_TEXTS_BYTES, read_bounded
    from studio.library.library import MAX_FILE_BYTES

    with _opened(data) as store:
        for file in files:
            words = text
            with bad_file(f"{file} cannot be read", "give a trace, or a WAV with its text", UnicodeError):
                sound = read_bounded(file, MAX_FILE_BYTES)
                text_file = file.with_suffix(".txt")
                if not words and sound.startswith(b"RIFF") and text_file.is_file():
                    words = read_bounded(text_file, MAX_TEXTS_BYTES).decode("utf-8").strip()
            print_line(_line(store.add(sound, words, title, tag or ())))


@library.command()
def find(
    text: Annotated[str, typer.Argument(help="Words that the text or title contains.")] = "",
    voice: Annotated[str, typer.Option(help="name[:speaker].")] = "",
    tag: Annotated[str, typer.Option(help="Tag of the utterance.")] = "",
    since: Day = None,
    until: Day = None,
    count: Annotated[int, typer.Option(min=1, max=1000, help="Number of utterances, newest first.")] = 50,
    skip: Annotated[int, typer.Option(min=0, help="Number of utterances to skip.")] = 0,
    data: Data = DEFAULT_DATA,
    as_json: Json = False,
) -> None:
    """List stored utterances."""
    from studio.library.index import Query

    wanted = Query(
        text=text,
        voice=voice,
        tag=tag,
        since_s=since.replace(tzinfo=UTC).timestamp() if since else None,
        until_s=until.replace(tzinfo=UTC).timestamp() + 86_400.0 if until else None,
        limit=count,
        offset=skip,
    )
    with _opened(data) as store:
        entries, of = store.find(wanted)
        if as_json:
            print_json({"of": of, "entries": [one.to_dict() for one in entries]})
            return
        for one in entries:
            print_line(_line(one))
        print_line(f"{len(entries)} of {of}", err=True)


@library.command()
def tags(data: Data = DEFAULT_DATA) -> None:
    """List tags with counts."""
    with _opened(data) as store:
        for tag, count in store.tags():
            print_line(f"{count:6}  {tag}")


@library.command()
def note(
    name: Which,
    title: Annotated[str | None, typer.Option(help="One line.")] = None,
    tag: Tags = None,
    untag: Annotated[list[str] | None, typer.Option(help="Tag to remove. Repeatable.")] = None,
    data: Data = DEFAULT_DATA,
) -> None:
    """Change an utterance's title and tags."""
    with _opened(data) as store:
        print_line(_line(store.update_note(store.entry(name), title, tag or (), untag or ())))


@library.command()
def path(name: Which, data: Data = DEFAULT_DATA) -> None:
    """Print the path of its file: studio inspect "$(studio library path NAME)"."""
    with _opened(data) as store:
        print_line(store.path(store.entry(name)))


@library.command()
def remove(
    names: Annotated[list[str], typer.Argument(help="Names, six or more digits each.")], data: Data = DEFAULT_DATA
) -> None:
    """Delete utterances with their notes and annotations."""
    with _opened(data) as store:
        for one in [store.entry(name) for name in names]:
            store.remove(one)


@library.command()
def rebuild(data: Data = DEFAULT_DATA) -> None:
    """Rebuild the index from the folder."""
    with _opened(data) as store, progress_bar() as bar:
        task = bar.add_task("Reading utterances", total=None)
        count, problems = store.rebuild(lambda done, of: bar.update(task, completed=done, total=of))
    for one in problems:
        print_line(one, err=True)
    print_line(f"{count} utterances")
    if problems:
        raise typer.Exit(1)


@library.command()
def annotations(
    name: Which,
    annotator: Annotated[str, typer.Option(help="Annotator; required if there are several.")] = "",
    format: Annotated[str, typer.Option(help="Export as textgrid, audacity, labelstudio, eaf or csv.")] = "",
    out: Annotated[
        Path | None, typer.Option("-o", "--out", help="File to write; its extension gives the format.")
    ] = None,
    agreement: Annotated[str, typer.Option(help="Report agreement on this layer.")] = "",
    collar_ms: Annotated[float, typer.Option(min=0.0, help="Largest distance of two matching boundaries.")] = 20.0,
    data: Data = DEFAULT_DATA,
    as_json: Json = False,
) -> None:
    """List an utterance's annotations, export them, or compare annotators."""
    from studio.core.errors import BadOption
    from studio.library.exchange import agreement_rows, agreement_to_dict, export_annotation, layer_agreement
    from studio.measure.report import print_table

    with _opened(data) as store:
        entry = store.entry(name)
        if agreement:
            layers = layer_agreement(store.annotations.of(entry.sha256), agreement, collar_ms)
            if as_json:
                print_json(agreement_to_dict(layers))
                return
            columns = ("annotators", "matched", "only 1st", "only 2nd", "boundary F1", "labels, kappa", "frames, kappa")
            note = "all: mean F1, Krippendorff's alpha of labels and of frames"
            print_table(f"{agreement}: boundaries within {collar_ms:g} ms", columns, agreement_rows(layers), note)
            return
        documents = [one for one in store.annotations.of(entry.sha256) if annotator in ("", one.annotator)]
        if format or out:
            if len(documents) != 1:
                what = "several have annotated it" if documents else "no annotator of that name"
                raise BadOption(what, "give --annotator; without --format and -o they are listed")
            _write_annotation(export_annotation(store, entry, documents[0].annotator, format or _format_of(out)), out)
            return
        if as_json:
            print_json([one.to_dict() for one in documents])
            return
        for one in documents:
            print_line(f"{one.annotator}: {one.marks} marks{', done' if one.is_done else ''}")
            for layer in one.layers.values():
                print_line(f"  {layer.name}  {len(layer.marks)} {layer.kind}")


@library.command()
def agreement(
    layer: Annotated[str, typer.Option(help="Layer; by default all that two annotators share.")] = "",
    text: Annotated[str, typer.Option(help="Only utterances with these words in text or title.")] = "",
    voice: Annotated[str, typer.Option(help="Only utterances of name[:speaker].")] = "",
    tag: Annotated[str, typer.Option(help="Only utterances with this tag.")] = "",
    collar_ms: Annotated[
        float, typer.Option(min=0.0, max=10_000.0, help="Largest distance of two matching boundaries.")
    ] = 20.0,
    seed: Annotated[int, typer.Option(min=0, help="Seed of the bootstrap.")] = 0,
    data: Data = DEFAULT_DATA,
    as_json: Json = False,
) -> None:
    """Agreement of annotators over all utterances that two or more annotated, by layer, with 95% intervals."""
    from dataclasses import asdict

    from studio.annotation.corpus_agreement import FEW_SOUNDS, corpus_agreement
    from studio.core.errors import BadOption
    from studio.library.exchange import corpus_layers, corpus_rows
    from studio.library.index import Query
    from studio.measure.report import print_table

    with _opened(data) as store:
        layers, mixed = corpus_layers(store, Query(text=text, voice=voice, tag=tag))
    for utterance, name in mixed:
        what = f"{utterance} is left out: its layer {name!r} holds regions by one annotator and points by another"
        print_line(what, err=True, colour="yellow")
    agreements = [
        corpus_agreement(name, sounds, collar_ms, seed=seed)
        for (name, _), sounds in layers.items()
        if layer in ("", name)
    ]
    if not agreements:
        what = f"no utterance has a layer {layer!r} of two annotators" if layer else "no layer has two annotators"
        raise BadOption(what, f"layers of two annotators: {', '.join(sorted({name for name, _ in layers})) or 'none'}")
    if as_json:
        print_json([asdict(one) for one in agreements])
        return
    columns = ("layer", "utterances", "annotators", "boundary F1", "marks matched", "labels, alpha", "frames, alpha")
    note = (
        f"Boundaries within {collar_ms:g} ms; pooled over utterances; alpha is Krippendorff's (nominal). 95% intervals "
        f"by bootstrap over utterances, from {FEW_SOUNDS} on."
    )
    print_table("Agreement of annotators", columns, corpus_rows(agreements), note)


@library.command()
def annotate(
    name: Which,
    file: Annotated[Path, typer.Option("--from", help="TextGrid, Audacity labels, Label Studio JSON, EAF or CSV.")],
    annotator: Annotated[str, typer.Option(help="Name of the annotator.")],
    format: Annotated[str, typer.Option(help="Format, if the extension does not give it.")] = "",
    data: Data = DEFAULT_DATA,
) -> None:
    """Import layers from a file into an annotator's annotations, for example an aligner's words."""
    from studio.core.files import read_bounded
    from studio.library.exchange import MAX_FILE_BYTES, import_annotation

    with bad_file(f"{file} cannot be read", "give an annotation's file"):
        body = read_bounded(file, MAX_FILE_BYTES)
    with _opened(data) as store:
        imported = import_annotation(store, store.entry(name), annotator, format or _format_of(file), body)
        print_line(f"{imported.annotator}: {imported.marks} marks in {len(imported.layers)} layers")


def _format_of(path: Path | None) -> str:
    from studio.annotation.formats.registry import FORMATS
    from studio.core.errors import BadOption

    ending = path.suffix.casefold() if path else ""
    for name, one in FORMATS.items():
        if one.suffix.casefold() == ending:
            return name
    raise BadOption(f"the ending {ending!r} names no format", f"give --format: {', '.join(FORMATS)}")


def _write_annotation(body: bytes, out: Path | None) -> None:

    if out is None:
        print_data(body.decode("utf-8"))
        return
    with bad_file(f"{out} cannot be written", "give another place with -o"):
        out.write_bytes(body)


def _line(one: "LibraryEntry") -> str:
    day = datetime.fromtimestamp(one.note.added_at, UTC).strftime("%Y-%m-%d")
    who = f"{one.voice}:{one.speaker}" if one.voice else "recording"
    title = one.note.title or one.text
    tags = "".join(f" [{tag}]" for tag in one.note.tags)
    return f"{one.name}  {day}  {one.duration_ms / 1000.0:6.1f} s  {who}  {title[:80]}{tags}"
