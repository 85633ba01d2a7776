"""``studio voices``: list and describe voices; the hub and added speakers are in separate modules."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from studio.bench.options import Voices
from studio.commands.common import Json
from studio.commands.voices_hub import voices_hub
from studio.commands.voices_speaker import voices_speaker
from studio.core.folders import VOICES

if TYPE_CHECKING:
    from studio.core.cards import Card
    from studio.core.pulled import Source
from studio.core.options import OptionSpec
from studio.core.terminal import print_json, print_line

voices = typer.Typer(
    invoke_without_command=True, help="List and describe voices, add speakers, pull from the hub, push to it."
)
voices.add_typer(voices_hub)
voices.add_typer(voices_speaker, name="speaker")


@voices.callback()
def voices_by_default(context: typer.Context, voices: Voices = VOICES, as_json: Json = False) -> None:
    """List and describe voices."""
    if context.invoked_subcommand is None:
        list_voices(voices, as_json)
    defaults = {"voices": voices, "as_json": as_json}
    context.default_map = {"list": defaults, "info": defaults}  # options before the subcommand apply to it


@voices.command("list")
def list_voices(voices: Voices = VOICES, as_json: Json = False) -> None:
    """List voices, one a line."""
    from studio.core.pulled import find_cards
    from studio.systems.combined import all_cards

    cards = all_cards(voices)
    folders = {name: folder for name, (_, folder) in find_cards(voices).items()}
    if as_json:
        print_json({name: card.to_dict() for name, card in cards.items()}, indent=1)
        return
    for card in cards.values():
        pulled = _pulled_from(folders[card.name]) if card.name in folders else ""
        print_line(f"{card.name}: {card.title}. Speakers: {_speakers(card)}. {card.licence}{pulled}")


def _pulled_from(folder: Path) -> str:
    from studio.core.errors import BadVoice
    from studio.core.pulled import read_source

    try:
        source = read_source(folder)
    except BadVoice as error:
        return f". It will not load: {error}"
    return f". From {source.address}" if source else ""


@voices.command()
def info(
    voice: Annotated[str, typer.Argument(help="Voice; the first by default.")] = "",
    voices: Voices = VOICES,
    as_json: Json = False,
) -> None:
    """Describe a voice: family, paper, speakers, options, sizes, licence, limits."""
    from studio.core.cards import parse_voice
    from studio.core.pulled import find_cards
    from studio.systems.combined import all_cards

    folders = find_cards(voices)
    card, _ = parse_voice(voice, all_cards(voices))
    if as_json:
        print_json(card.to_dict(), indent=1)
        return
    from studio.measure.report import console

    for title, text in _facts(card, folders[card.name][1]) if card.name in folders else _system_facts(card):
        line = f"[bold]{title:<14}[/bold] {text}"
        console().print(line, highlight=False, soft_wrap=True, emoji=False)


def _system_facts(card: "Card") -> list[tuple[str, str]]:
    from rich.markup import escape

    facts = [
        ("system", f"{card.name}: {card.title}"),
        ("adapter", card.family),
        ("speakers", _speakers(card)),
        *((f"option {one.name}", _option(one)) for one in card.options),
        ("licence", card.licence),
        ("notes", card.notes),
    ]
    return [(title, escape(text)) for title, text in facts]


def _facts(card: "Card", folder: Path) -> list[tuple[str, str]]:
    """Facts of a card with titles; texts are escaped, since cards are untrusted."""
    from rich.markup import escape

    from studio.core.cards import find_file
    from studio.core.pulled import read_source
    from studio.engine.families.base import family_info

    family = family_info(card.family)
    weights = {name: path for name in card.sha256 if (path := find_file(folder, card, name)) is not None}
    sizes = [f"{count / 1e6:.2f}M {part}" for part, count in card.parameters.items()]
    shared = {
        name: "" if path.parent == folder else f" (shared with {path.parent.name})" for name, path in weights.items()
    }
    files = [f"{name} {path.stat().st_size / 1e6:.1f} MB{shared[name]}" for name, path in weights.items()]
    note = card.notes if family.notes in card.notes else f"{family.notes} {card.notes}".strip()
    facts = [
        ("voice", f"{card.name}: {card.title}"),
        ("family", f"{card.family}: {family.paper}"),
        ("speakers", _speakers(card)),
        ("vocoders", ", ".join(f"{name} (default)" if name == card.vocoder else name for name in card.vocoders)),
        *((f"option {one.name}", _option(one)) for one in card.options),
        ("look-ahead", f"{card.look_ahead_words} words, {card.delay_frames} frames"),
        ("temperature", f"{card.temperature:g}"),
        ("sound", f"{card.sample_rate_hz} Hz, frames of {1000 * card.frame_samples / card.sample_rate_hz:g} ms"),
        ("parameters", ", ".join(sizes)),
        ("weights", f"{', '.join(files)}; kept in {card.stored_in}, computes in {card.number_format}"),
        ("licence", card.licence),
        ("learned from", card.learned_from),
        *(_source_facts(source) if (source := read_source(folder)) else ()),
        *((("cannot", note),) if note else ()),
    ]
    return [(title, escape(text)) for title, text in facts]


def _source_facts(source: "Source") -> list[tuple[str, str]]:
    licence = source.licence or "no licence stated there"
    return [
        ("pulled from", f"{source.endpoint}/{source.repo} ({licence})"),
        ("revision", f"{source.revision}, pulled {source.pulled_at}"),
    ]


def _speakers(card: "Card") -> str:
    first, *others = card.speakers_default_first
    return ", ".join([f"{first} (default)" if others else first, *others])


def _option(one: "OptionSpec") -> str:
    limits = "" if one.low is None else f"{one.low:g} to {one.high:g}"
    allowed = ", ".join(one.choices) if one.kind == "choice" else limits
    label = f"{one.label}: {one.help}" if one.help else one.label
    return f"{one.default} ({allowed}): {label}" if allowed else f"{one.default}: {label}"
