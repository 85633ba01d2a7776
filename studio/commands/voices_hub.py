"""``studio voices`` pull, push, verify and remove: voices of the Hugging Face Hub."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from studio.bench.options import Voices
from studio.commands.common import confirm, progress_bar
from studio.core.errors import BadVoice
from studio.core.folders import VOICES, pulled_voices_folder
from studio.core.terminal import print_line

if TYPE_CHECKING:
    from studio.hub.pull import Offer

voices_hub = typer.Typer()


@voices_hub.command()
def pull(
    repo: Annotated[str, typer.Argument(metavar="REPO[@REVISION]", help="Repository on the hub: owner/name.")],
    accept_licence: Annotated[bool, typer.Option("--accept-licence", help="Accept its licence without a question.")] = (
        False
    ),
    name: Annotated[str, typer.Option("--as", help="Name of the voice here; by default its card's.")] = "",
    speaker: Annotated[
        list[str] | None, typer.Option(help="Speaker of a Kyutai model: a path in kyutai/tts-voices. Up to 32 times.")
    ] = None,
    max_files: Annotated[int, typer.Option(min=1, max=10_000, help="Most files.")] = 64,
    max_mb: Annotated[int, typer.Option(min=1, help="Most megabytes of all files together.")] = 5_000,
) -> None:
    """Fetch a voice from the hub: the files of one commit that can run no code, verified by their hashes."""
    from studio.core.cards import read_cards
    from studio.core.pulled import read_source
    from studio.hub.listing import Limits
    from studio.hub.pull import pull as pull_voice
    from studio.systems.combined import declared_systems

    names = {*read_cards(VOICES), *declared_systems()}
    with progress_bar() as progress:
        bar = progress.add_task(f"pulling {repo}", total=None)

        def accept(offer: "Offer") -> bool:
            progress.update(bar, total=offer.listing.total_bytes)
            for one in offer.listing.refused:
                print_line(f"left out: {one}, a pickle, which can run code when it is loaded", err=True)
            if not accept_licence:
                progress.stop()
            answer = _ask(offer, accept_licence)
            progress.start()
            return answer

        folder = pull_voice(
            repo,
            pulled_voices_folder(),
            accept,
            name=name,
            reserved=names,
            speakers=speaker or (),
            limits=Limits(max_files, max_mb * 1_000_000),
            advance=lambda count: progress.advance(bar, count),
        )
    source = read_source(folder)
    assert source is not None, "it was just written"
    hint = f'Hear it: studio say "Good morning." --voice {folder.name}'
    print_line(f"{folder.name} is pulled from {source.repo}@{source.revision}. {hint}")


def _ask(offer: "Offer", is_accepted: bool) -> bool:
    print_line(f"{offer.card.name}: {offer.card.title}, {offer.listing.total_bytes / 1e6:,.1f} MB", err=True)
    print_line(f"Licence: {'; the card says '.join(offer.licences)}", err=True)
    print_line(f"Learned from: {offer.card.learned_from}", err=True)
    return confirm("Accept the licence?", is_accepted, "--accept-licence")


@voices_hub.command()
def push(
    voice: Annotated[str, typer.Argument(metavar="FOLDER_OR_VOICE", help="Folder of a voice, or a voice's name.")],
    repo: Annotated[str, typer.Argument(metavar="REPO", help="Repository on the hub: owner/name.")],
    private: Annotated[bool, typer.Option("--private", help="Only people that you admit on the hub can read it.")] = (
        False
    ),
    voices: Voices = VOICES,
) -> None:
    """Publish a voice on the hub: its files, and a README.md made from its card."""
    from studio.core.cards import parse_voice
    from studio.core.pulled import find_cards
    from studio.hub.push import push_voice

    folder = Path(voice)
    if not (folder / "card.json").is_file():
        cards = find_cards(voices)
        folder = cards[parse_voice(voice, {name: card for name, (card, _) in cards.items()})[0].name][1]
    print_line(push_voice(folder, repo, private=private))


@voices_hub.command()
def verify(
    names: Annotated[list[str] | None, typer.Argument(metavar="[VOICE]...", help="By default all pulled ones.")] = None,
) -> None:
    """Hash every file of pulled voices, and compare with what was fetched."""
    from studio.hub.pull import pulled_names
    from studio.hub.pull import verify as verify_voice

    root = pulled_voices_folder()
    wanted = names or pulled_names(root)
    if not wanted:
        print_line("No voice was pulled: studio voices pull --help", err=True)
    damaged = 0
    for name in wanted:
        try:
            print_line(f"{name}: {verify_voice(root / Path(name).name)} files are as they were fetched")
        except BadVoice as error:
            damaged += 1
            print_line(f"{name}: {error.what}; {error.do}", err=True, colour="red")
    if damaged:
        raise typer.Exit(1)


@voices_hub.command()
def remove(name: Annotated[str, typer.Argument(metavar="VOICE", help="A pulled voice.")]) -> None:
    """Remove a pulled voice from this machine."""
    from studio.hub.pull import remove as remove_voice

    remove_voice(name, pulled_voices_folder())
    print_line(f"{name} is removed")
