"""``studio backup`` and ``studio restore``: the data folder with its database, into a folder or a file and back."""

import shlex
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from studio.commands.common import Data, Database, progress_bar
from studio.core.folders import DEFAULT_DATA
from studio.core.terminal import print_line

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

_NOTES = 10  # printed of each kind


def backup(
    target: Annotated[Path, typer.Argument(help="New folder, or new file that ends in .zip.")],
    settings: Annotated[Path | None, typer.Option(help="The server's settings file, to include.")] = None,
    database: Database = "",
    data: Data = DEFAULT_DATA,
) -> None:
    """Back up listening tests, clips, library and annotations; the server may be running.

    The backup contains tokens, answers and panel ids of raters, and typed text: keep it as private as the data folder.
    """
    from studio.backup.create import create_backup

    with _on_interrupt(f"stopped: there is no backup {target}"), progress_bar() as bar:
        task = bar.add_task("saving")
        manifest = create_backup(
            data, database, target, settings, lambda done, of: bar.update(task, completed=done, total=max(done, of))
        )
    _note(f"{name} is named by the database and is not there" for name in manifest.missing)
    if not manifest.database:
        _note([f"no listening tests: there is no studio.sqlite in {data}; if they are elsewhere, give --database"])
    print_line(f"{target}: {_counts_text(manifest.counts)}, {manifest.size:,} bytes")
    print_line(f"studio restore {shlex.quote(str(target))} --data FOLDER")


def restore(
    source: Annotated[Path, typer.Argument(help="Folder or file made by `studio backup`.")],
    check: Annotated[bool, typer.Option("--check", help="Only verify the backup.")] = False,
    database: Database = "",
    data: Data = DEFAULT_DATA,
) -> None:
    """Restore a data folder from a backup. The folder, and --database if given, must be empty."""
    from studio.backup.containers import SETTINGS
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
    if SETTINGS in manifest.files:
        print_line(f"The server's settings are in {data / SETTINGS}: studio app --settings {data / SETTINGS}")


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
