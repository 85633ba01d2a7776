"""``studio train`` fit, taught, vocoder and pack: nets, and the voices that they become."""

import json
from functools import partial
from pathlib import Path
from typing import Annotated

import typer

from studio.commands.common import RECIPE, Device, Recipe
from studio.core.shipped import VOICES

net_commands = typer.Typer()


@net_commands.command()
def fit(
    features: Annotated[Path, typer.Option(help="Folder of encoded shards.")],
    state: Annotated[Path, typer.Option(help="Folder for checkpoints and metrics; a stopped run goes on.")],
    recipe: Recipe = RECIPE,
    device: Device = "auto",
    threads: Annotated[int | None, typer.Option(min=1, max=256, help="Of arithmetic on a CPU.")] = None,
    start: Annotated[Path | None, typer.Option(help="Weights to begin from, such as a shipped voice's.")] = None,
    like: Annotated[
        Path | None,
        typer.Option(help="Weights of another net: its layers of the same name and shape are begun from."),
    ] = None,
    workers: Annotated[int, typer.Option(min=0, max=64, help="Processes that make batches ahead, for a GPU.")] = 0,
    minutes: Annotated[float | None, typer.Option(min=0.1, help="End after so long, the rate fallen.")] = None,
    teacher: Annotated[Path | None, typer.Option(help="Of a distillation: weights of the T5-TTS that teaches.")] = None,
    taught: Annotated[Path | None, typer.Option(help="Of a distillation: what `taught` wrote.")] = None,
) -> None:
    """Fit the net of a voice, of the family that its recipe names."""
    from studio.core.errors import BadOption
    from studio.engine.voices import pick_device
    from studio.train.families.registry import fitting_of
    from studio.train.loop.ahead import Ahead
    from studio.train.loop.fitting import run
    from studio.train.recipes.recipe import read_recipe

    if teacher is not None and start is None:
        raise BadOption("a distillation begins from a net that was trained", "give its weights with --start")
    fitting = fitting_of(read_recipe(recipe), teacher, taught)
    ahead = Ahead(fitting, features, workers) if workers else None
    passes = None if ahead is None else ahead.batches
    try:
        budget_s = None if minutes is None else 60.0 * minutes
        typer.echo(run(fitting, features, state, pick_device(device), threads, start, like, passes, budget_s))
    finally:
        if ahead is not None:
            ahead.close()


@net_commands.command()
def taught(
    voices: Annotated[Path, typer.Option(help="Folder that holds the teacher's voice.")],
    voice: Annotated[str, typer.Option(help="Who teaches: a voice, or one speaker's share of it as name:speaker.")],
    texts: Annotated[Path, typer.Option(help="One text a line, or what `texts` wrote.")],
    out: Annotated[Path, typer.Option(help="Folder for the features; a stopped run goes on.")],
    recipe: Recipe = RECIPE,
    recogniser: Annotated[
        str, typer.Option(help="whisper, whisper:FOLDER or pocketsphinx; none keeps what nobody has heard.")
    ] = "whisper",
    workers: Annotated[int, typer.Option(min=1, help="Processes that recognise.")] = 2,
    phones: Annotated[Path | None, typer.Option(help="Features of a corpus, by which phones are found.")] = None,
    option: Annotated[list[str] | None, typer.Option(help="name=value, of the voice's family.")] = None,
    after: Annotated[int, typer.Option(min=0, help="Texts to pass over, from the first.")] = 0,
    count: Annotated[int | None, typer.Option(min=1, help="How many texts; all unless said.")] = None,
    at_once: Annotated[int, typer.Option(min=1, max=64, help="Utterances that are spoken together.")] = 1,
    device: Device = "auto",
) -> None:
    """Let a voice speak texts for others to learn from, and keep what a recogniser hears without an error."""
    from studio.core.options import parse_options
    from studio.engine.loop import open_engine
    from studio.measure.recognisers.choose import open_recogniser, transcribe_all
    from studio.text.normalise import best
    from studio.train.alignment import Phonebook
    from studio.train.recipes.recipe import read_recipe
    from studio.train.taught import Speaking, lines_of, speak_taught

    lines, read, hear = lines_of(texts, after, count), read_recipe(recipe), None
    if recogniser != "none":
        open_recogniser(recogniser)  # what is wrong with it is told before anything is spoken
        hear = partial(transcribe_all, recogniser=recogniser, workers=workers)
    engine = open_engine(voices, best(), device, voice_names=[voice], places=at_once)
    try:
        how = Speaking(
            hear=hear,
            book=None if phones is None else Phonebook.of_folder(phones),
            options=parse_options(engine.cards()[0].options, option or []),
            at_once=at_once,
        )
        found = speak_taught(engine, read.corpus.named(), lines, out, read.seed + after, how, voice)
    finally:
        engine.close()
    typer.echo(f"{found.kept} of {found.spoken} texts kept in {out}")


@net_commands.command()
def vocoder(
    corpus: Annotated[Path, typer.Option(help="Folder of spoken shards.")],
    state: Annotated[Path, typer.Option(help="Folder for checkpoints and metrics; a stopped run goes on.")],
    export: Annotated[Path, typer.Option(help="The weights to write; their configuration goes beside them.")],
    name: Annotated[str, typer.Option(help="What the recipe calls it, such as sourcefilter.")] = "sourcefilter",
    recipe: Recipe = RECIPE,
    device: Device = "auto",
    threads: Annotated[int, typer.Option(min=1, max=256, help="Of arithmetic on a CPU.")] = 1,
    start: Annotated[Path | None, typer.Option(help="Weights to begin from, such as a shipped voice's.")] = None,
    minutes: Annotated[float | None, typer.Option(min=0.1, help="End after so long, the rate fallen.")] = None,
) -> None:
    """Fit a vocoder."""
    from studio.train.recipes.recipe import read_recipe, vocoder_settings
    from studio.train.recipes.settings import check_keys
    from studio.train.vocoder.fit import VocoderFit, fit

    said = vocoder_settings(read_recipe(recipe), name)
    check_keys(VocoderFit, said, f"vocoders.{name}")
    asked = said | {"start": start, "device": device, "threads": threads}
    if minutes is not None:
        asked["budget_s"] = 60.0 * minutes
    typer.echo(json.dumps(fit(VocoderFit(corpus, state, export, **asked))))


@net_commands.command()
def pack(
    state: Annotated[Path, typer.Option(help="The fit's state folder.")],
    vocoders: Annotated[
        Path, typer.Option(help="Folder of <name>.safetensors and <name>.json, or of a voice that has them.")
    ],
    recipe: Recipe = RECIPE,
    out: Annotated[Path, typer.Option(help="Folder of voices to write into.")] = VOICES,
    eight_bits: Annotated[bool, typer.Option(help="Keep the net's matrices in 8 bits, in half the space.")] = False,
) -> None:
    """Put weights, curves and a card together: a voice. A vocoder that a voice beside it has is not written again."""
    from studio.train.pack import pack_voice
    from studio.train.recipes.recipe import read_recipe

    typer.echo(pack_voice(read_recipe(recipe), state, vocoders, out, eight_bits=eight_bits))
