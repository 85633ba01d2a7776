"""``studio train`` fit, taught, vocoder and pack: make a voice; ``table``: the papers' tables with small nets."""

import json
from contextlib import closing
from functools import partial
from pathlib import Path
from typing import Annotated

import typer

from studio.bench.options import Count, Device, Recogniser, Texts
from studio.commands.common import RECIPE, Json, Recipe, Save, show
from studio.commands.train_corpus import corpus_commands
from studio.core.folders import TEXTS, VOICES
from studio.core.ports import MAX_SEED
from studio.core.terminal import print_json, print_line

train = typer.Typer(no_args_is_help=True, help="Make a voice: speak a corpus, encode it, fit, pack.")
net_commands = typer.Typer()
train.add_typer(corpus_commands)
train.add_typer(net_commands)  # both come after ``table`` in the help


@net_commands.command()
def fit(
    features: Annotated[Path, typer.Option(help="Folder of encoded shards.")],
    state: Annotated[Path, typer.Option(help="Folder for checkpoints and metrics; a stopped run resumes.")],
    recipe: Recipe = RECIPE,
    device: Device = "auto",
    threads: Annotated[int | None, typer.Option(min=1, max=256, help="CPU threads.")] = None,
    start: Annotated[Path | None, typer.Option(help="Initial weights, such as a shipped voice's.")] = None,
    like: Annotated[
        Path | None, typer.Option(help="Weights of another net: layers of the same name and shape are loaded.")
    ] = None,
    workers: Annotated[int, typer.Option(min=0, max=64, help="Processes that prefetch batches, for a GPU.")] = 0,
    minutes: Annotated[float | None, typer.Option(min=0.1, help="Time limit; the rate decays by then.")] = None,
    teacher: Annotated[Path | None, typer.Option(help="For a distillation: weights of the teacher T5-TTS.")] = None,
    taught: Annotated[Path | None, typer.Option(help="For a distillation: output of `taught`.")] = None,
) -> None:
    """Train the net of a voice, of the family in its recipe."""
    from studio.core.errors import BadOption
    from studio.engine.voices import pick_device
    from studio.train.families.registry import training_for
    from studio.train.fit.loop import BatchPrefetcher, run
    from studio.train.recipes.recipe import read_recipe

    if teacher is not None and start is None:
        raise BadOption("a distillation needs a trained net", "give its weights with --start")
    training = training_for(read_recipe(recipe), teacher, taught)
    prefetcher = BatchPrefetcher(training, features, workers) if workers else None
    batch_source = None if prefetcher is None else prefetcher.batches
    try:
        budget_s = None if minutes is None else 60.0 * minutes
        print_line(run(training, features, state, pick_device(device), threads, start, like, batch_source, budget_s))
    finally:
        if prefetcher is not None:
            prefetcher.close()


@net_commands.command()
def taught(
    voices: Annotated[Path, typer.Option(help="Folder that holds the teacher's voice.")],
    voice: Annotated[str, typer.Option(help="The teacher: a voice, or one speaker's share as name:speaker.")],
    texts: Annotated[Path, typer.Option(help="One text per line, or output of `texts`.")],
    out: Annotated[Path, typer.Option(help="Folder for the features; a stopped run resumes.")],
    recipe: Recipe = RECIPE,
    recogniser: Annotated[
        str, typer.Option(help="whisper, whisper:FOLDER or pocketsphinx; none for no filter.")
    ] = "whisper",
    workers: Annotated[int, typer.Option(min=1, help="Processes of the recogniser.")] = 2,
    phones: Annotated[Path | None, typer.Option(help="Features of a corpus, to align phones.")] = None,
    option: Annotated[list[str] | None, typer.Option(help="name=value, an option of the voice's family.")] = None,
    after: Annotated[int, typer.Option(min=0, help="Number of texts to skip.")] = 0,
    count: Annotated[int | None, typer.Option(min=1, help="Number of texts; default: all.")] = None,
    at_once: Annotated[int, typer.Option(min=1, max=64, help="Concurrent utterances.")] = 1,
    device: Device = "auto",
) -> None:
    """Synthesise training data with a voice, and keep utterances that a recogniser transcribes without errors."""
    from studio.core.options import parse_options
    from studio.engine.engine import open_engine
    from studio.measure.recognisers.registry import open_recogniser, transcribe_all
    from studio.text.normalise import best
    from studio.train.distillation import DistillationOptions, distil, lines_of
    from studio.train.features import PhoneModel
    from studio.train.recipes.recipe import read_recipe

    lines, chosen, transcribe = lines_of(texts, after, count), read_recipe(recipe), None
    if recogniser != "none":
        open_recogniser(recogniser)  # fail early
        transcribe = partial(transcribe_all, recogniser=recogniser, workers=workers)
    with closing(open_engine(voices, best(), device, voice_names=[voice], slots=at_once)) as engine:
        options = DistillationOptions(
            transcribe=transcribe,
            phone_model=None if phones is None else PhoneModel.load(phones),
            options=parse_options(engine.cards()[0].options, option or []),
            at_once=at_once,
        )
        counts = distil(engine, chosen.corpus.named(), lines, out, chosen.seed + after, options, voice)
    print_line(f"{counts.accepted} of {counts.spoken} texts accepted in {out}")


@net_commands.command()
def vocoder(
    corpus: Annotated[Path, typer.Option(help="Folder of corpus shards.")],
    state: Annotated[Path, typer.Option(help="Folder for checkpoints and metrics; a stopped run resumes.")],
    export: Annotated[Path, typer.Option(help="The weights to write; their configuration goes beside them.")],
    name: Annotated[str, typer.Option(help="Its name in the recipe, such as sourcefilter.")] = "sourcefilter",
    recipe: Recipe = RECIPE,
    device: Device = "auto",
    threads: Annotated[int, typer.Option(min=1, max=256, help="CPU threads.")] = 1,
    start: Annotated[Path | None, typer.Option(help="Initial weights, such as a shipped voice's.")] = None,
    minutes: Annotated[float | None, typer.Option(min=0.1, help="Time limit; the rate decays by then.")] = None,
) -> None:
    """Train a vocoder."""
    from studio.core.checks import check_keys, check_values, rules_of
    from studio.train.recipes.recipe import read_recipe, vocoder_settings
    from studio.train.vocoder.fit import VocoderFit, fit

    settings = vocoder_settings(read_recipe(recipe), name)
    check_keys(VocoderFit, settings, f"[vocoders.{name}]", is_partial=True)
    check_values(settings, rules_of(VocoderFit), f"[vocoders.{name}] {{}} cannot be")
    arguments = settings | {"start": start, "device": device, "threads": threads}
    if minutes is not None:
        arguments["budget_s"] = 60.0 * minutes
    print_json(fit(VocoderFit(corpus, state, export, **arguments)))


@net_commands.command()
def pack(
    state: Annotated[Path, typer.Option(help="State folder of `fit`.")],
    vocoders: Annotated[
        Path, typer.Option(help="Folder of <name>.safetensors and <name>.json, or of a voice that has them.")
    ],
    recipe: Recipe = RECIPE,
    out: Annotated[Path, typer.Option(help="Folder of voices to write to.")] = VOICES,
    eight_bits: Annotated[bool, typer.Option(help="Store the net's matrices in 8 bits, in half the space.")] = False,
) -> None:
    """Pack a voice: weights, curves and a card. Vocoders that a neighbouring voice has are shared."""
    from studio.train.pack import pack_voice
    from studio.train.recipes.recipe import read_recipe

    print_line(pack_voice(read_recipe(recipe), state, vocoders, out, eight_bits=eight_bits))


@net_commands.command()
def aligner(
    voice: Annotated[str, typer.Option(help="The voice; name:speaker for one speaker.")],
    voices: Annotated[Path, typer.Option(help="Folder of voices.")] = VOICES,
    texts: Annotated[Path, typer.Option(help="One text per line.")] = TEXTS / "eval.txt",
    lines: Annotated[int, typer.Option(min=1, max=100, help="Lines that are spoken as one text.")] = 4,
    device: Device = "auto",
    seed: Annotated[int, typer.Option(min=0, max=MAX_SEED, help="Seed of speech and fit.")] = 0,
    workers: Annotated[int, typer.Option(min=1, max=64, help="Processes of the aligner.")] = 2,
) -> None:
    """Fit the net that finds word times in the frames of a voice that has none, and add it to the voice."""
    from studio.train.aligner import fit_aligner
    from studio.train.distillation import lines_of

    spoken = lines_of(texts)
    joined = [" ".join(spoken[k : k + lines]) for k in range(0, len(spoken), lines)]
    print_json(fit_aligner(voices, voice, joined, device, seed, workers))


@train.command()
def table(
    name: Annotated[str, typer.Argument(help="The paper, such as 000; default: list them.")] = "",
    features: Annotated[Path, typer.Option(help="Folder of encoded shards.")] = Path("work/features"),
    vocoders: Annotated[Path, typer.Option(help="Folder of <name>.safetensors and <name>.json.")] = Path(
        "work/vocoders"
    ),
    work: Annotated[Path, typer.Option(help="Folder for nets, voices and rows; a stopped run resumes.")] = Path(
        "work/tables"
    ),
    bpe: Annotated[Path | None, typer.Option(help="The byte-pair encoding, for families that need one.")] = None,
    teacher_texts: Annotated[
        Path | None, typer.Option(help="Texts for the teacher of a distillation, one per line; default: skip it.")
    ] = None,
    steps: Annotated[int, typer.Option(min=0, help="Steps of every net; default: the recipes'.")] = 0,
    seeds: Annotated[int, typer.Option(min=1, max=20, help="Trainings of every net.")] = 1,
    texts: Texts = TEXTS / "eval.txt",
    count: Count = 50,
    only: Annotated[str, typer.Option(help="Only rows whose names contain this.")] = "",
    without: Annotated[str, typer.Option(help="Skip rows whose names contain this.")] = "",
    rate_share: Annotated[
        float, typer.Option(min=0.001, max=1, help="Share of the rows' queries per second, for slower machines.")
    ] = 1.0,
    teacher: Annotated[bool, typer.Option("--teacher/--no-teacher", help="Measure the teacher too.")] = True,
    recogniser: Recogniser = "whisper",
    device: Device = "auto",
    threads: Annotated[int | None, typer.Option(min=1, max=256, help="CPU threads.")] = None,
    is_plan: Annotated[bool, typer.Option("--plan", help="Show what would be trained and measured, and stop.")] = False,
    as_json: Json = False,
    save: Save = False,
) -> None:
    """Reproduce a paper's tables: train every net, measure every row, print the paper's figures beside ours."""
    from studio.bench.tables.definition import read_table, table_names
    from studio.bench.tables.figures import show as show_figures
    from studio.bench.tables.figures import show_plan
    from studio.bench.tables.nets import TableWorkspace
    from studio.bench.tables.run import TableSetting, make_table, plan
    from studio.core.errors import BadOption

    if not name and is_plan:
        raise BadOption("a plan is made for one paper", f"name it: {', '.join(table_names())}")
    if not name:
        for one in table_names():
            print_line(f"{one}  {read_table(one).title}")
        return
    shop = TableWorkspace(
        work=work,
        features=features,
        vocoders=vocoders,
        bpe=bpe,
        teacher_texts=teacher_texts,
        steps=steps,
        device=device,
        threads=threads,
    )
    setting = TableSetting(
        name=name,
        shop=shop,
        texts=texts,
        count=count,
        seeds=seeds,
        recogniser=recogniser,
        is_taught=teacher,
        only=only,
        without=without,
        rate_share=rate_share,
        quiet=as_json,
    )
    if is_plan:
        planned = plan(setting)
        print_line(json.dumps(planned, indent=1)) if as_json else show_plan(planned)
        return
    figures = make_table(setting)
    if not as_json:
        show_figures(figures)
    show(f"table-{name}", figures, as_json, save)
