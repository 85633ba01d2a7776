"""``studio campaign push``: answers of a listening test as a dataset on the Hugging Face Hub."""

from typing import Annotated

import typer

from studio.commands.common import Data, Database, Name, confirm, read_campaign
from studio.core.errors import BadOption
from studio.core.folders import DEFAULT_DATA
from studio.core.terminal import print_line

campaign_publishing = typer.Typer()


@campaign_publishing.command("push")
def push(
    name: Name,
    repo: Annotated[str, typer.Argument(metavar="REPO", help="Dataset on the hub: owner/name.")],
    licence: Annotated[str, typer.Option(help="Licence of the answers, such as cc-by-4.0.")],
    private: Annotated[bool, typer.Option("--private", help="Only people that you admit on the hub can read it.")] = (
        False
    ),
    yes: Annotated[bool, typer.Option("--yes", help="Publish without a question.")] = False,
    database: Database = "",
    data: Data = DEFAULT_DATA,
) -> None:
    """Publish a campaign's answers with a data dictionary: pseudonyms, no comments, days instead of times."""
    from studio.hub.push import push_files
    from studio.hub.ratings import LEFT_OUT, publication

    with read_campaign(name, database, data) as (_, session, campaign):
        package = publication(session, campaign, licence)
    print_line(f"Published in {repo}{' (private)' if private else ''}, under {licence}:", err=True)
    for file, content in package.files.items():
        print_line(f"  {file}: {len(content):,} bytes", err=True)
    print_line(f"  {package.rows:,} rows of {package.raters:,} pseudonyms on {', '.join(package.systems)}", err=True)
    for column, why in LEFT_OUT.items():
        print_line(f"Not published: {column} ({why})", err=True)
    print_line("The consent of the raters has to cover this. Copies of it cannot be taken back.", err=True)
    if not confirm("Publish it?", yes, "--yes"):
        raise BadOption("nothing was published", "answer y, or give --yes")
    print_line(push_files(repo, "dataset", package.files, f"Answers of {name}", private=private))
