"""``studio backup`` and ``studio restore``: copy the data folder with its database to a folder or file, and back."""

import os
import shlex
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from studio.commands.common import Data, Database, progress_bar
from studio.core.errors import BadFile, BadOption
from studio.core.folders import DEFAULT_DATA, real_path
from studio.core.terminal import print_line

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

_NOTES = 10  # printed of each kind


def backup(
    target: Annotated[Path, typer.Argument(help="New folder, or new file that ends in .zip.")],
    settings: Annotated[Path | None, typer.Option(help="The server's settings file, to include.")] = None,
    lexicon: Annotated[
        Path | None, typer.Option(help="The server's --lexicon, to include; by default that of the settings.")
    ] = None,
    database: Database = "",
    data: Data = DEFAULT_DATA,
) -> None:
    """Back up listening tests, clips, library, annotations and systems; the server may be running.

    The systems are those of STUDIO_SYSTEMS, or of systems.toml in the default data folder. The backup contains tokens,
    answers and panel ids of raters, and typed text: keep it as private as the data folder.
    """
    from studio.backup.containers import LEXICON
    from studio.backup.create import create_backup

    outside = _outside(data, settings, lexicon)
    with _on_interrupt(f"stopped: there is no backup {target}"), progress_bar() as bar:
        task = bar.add_task("saving")
        manifest = create_backup(
            data, database, target, outside, lambda done, of: bar.update(task, completed=done, total=max(done, of))
        )
    _note(f"{name} is missing, although the database refers to it" for name in manifest.missing)
    if not manifest.database:
        _note([f"no listening tests: there is no studio.sqlite in {data}; if they are elsewhere, give --database"])
    absent = [option for option, given in (("--settings", settings), ("--lexicon", lexicon)) if given is None]
    if absent and LEXICON not in outside:
        _note([f"a file that the server was given with {' or '.join(absent)} is not in the backup; give it here, too"])
    for name, path in outside.items():
        print_line(f"{path} is in the backup as {name}")
    print_line(f"{target}: {_counts_text(manifest.counts)}, {manifest.size:,} bytes")
    print_line(f"studio restore {shlex.quote(str(target))} --data FOLDER")


def restore(
    source: Annotated[Path, typer.Argument(help="Folder or file made by `studio backup`.")],
    check: Annotated[bool, typer.Option("--check", help="Only verify the backup.")] = False,
    database: Database = "",
    data: Data = DEFAULT_DATA,
) -> None:
    """Restore a data folder from a backup. The folder, and --database if given, must be empty."""
    from studio.backup.containers import LEXICON, SETTINGS, SYSTEMS
    from studio.backup.restore import check_backup, restore_backup

    with _on_interrupt("stopped: nothing was restored"), progress_bar() as bar:
        task = bar.add_task("reading" if check else "restoring")

        def progress(done: int, of: int) -> None:
            bar.update(task, completed=done, total=of)

        if check:
            manifest, counts, problems = check_backup(source, progress), None, ()
        else:
            restored = restore_backup(source, data, database, progress)
            manifest, counts, problems = restored.manifest, restored.counts, restored.problems
    if counts is None:
        print_line(f"{source} is whole: {_counts_text(manifest.counts)}, of {manifest.created_at}")
        return
    _note(problems)
    _note(f"{name} was missing when the backup was made" for name in manifest.missing)
    print_line(f"{data}: {_counts_text(counts)}, of {manifest.created_at}")
    for name, what, use in (
        (SETTINGS, "settings are", "studio app --settings {}"),
        (SYSTEMS, "systems are", "STUDIO_SYSTEMS={} studio app"),
        (LEXICON, "lexicon is", "studio app --lexicon {}"),
    ):
        if name in manifest.files:
            print_line(f"The server's {what} in {data / name}: {use.format(shlex.quote(str(data / name)))}")


def _outside(data: Path, settings: Path | None, lexicon: Path | None) -> "dict[str, Path]":
    """The server's files outside its data folder, by their name in a backup."""
    from studio.backup.containers import LEXICON, SETTINGS, SYSTEMS
    from studio.serve.settings import load_settings
    from studio.systems.combined import systems_file

    files = {} if settings is None else {SETTINGS: settings}
    with suppress(BadOption):  # no home folder: no systems
        systems = systems_file()
        if systems.is_file() and not real_path(systems).is_relative_to(real_path(data)):
            files[SYSTEMS] = systems
    with suppress(BadOption, BadFile):  # settings that the server cannot read are backed up as well
        named = load_settings(settings, os.environ).lexicon
        lexicon = lexicon or (Path(named) if named else None)
    if lexicon is not None and not real_path(lexicon).is_relative_to(real_path(data)):
        files[LEXICON] = lexicon.expanduser()
    return files


@contextmanager
def _on_interrupt(message: str) -> "Iterator[None]":
    try:
        yield
    except KeyboardInterrupt:
        print_line(message, err=True)
        raise


def _note(messages: "Iterable[str]") -> None:
    """Print the first messages and how many more there are."""
    lines = list(messages)
    for line in lines[:_NOTES]:
        print_line(f"note: {line}", err=True, colour="yellow")
    if len(lines) > _NOTES:
        print_line(f"note: and {len(lines) - _NOTES} more such files", err=True, colour="yellow")


def _counts_text(counts: "Mapping[str, int]") -> str:
    return ", ".join(f"{count} {name}" for name, count in counts.items())
