"""``studio train``: make a voice, from sentences to a card."""

import json
from functools import partial
from pathlib import Path
from typing import Annotated

import typer

from studio.commands.common import RECIPE, Count, Device, Json, Recipe, Save, Texts, show
from studio.core.shipped import TEXTS, VOICES

train = typer.Typer(no_args_is_help=True, help="Make a voice: speak a corpus, encode it, fit, pack.")


@train.command()
def texts(
    sentences: Annotated[Path, typer.Option(help="Prose: a text file, one sentence a line (or id|sentence).")],
    out: Annotated[Path, typer.Option(help="The file to write, one text and its kind a line.")],
    recipe: Recipe = RECIPE,
    wordnet: Annotated[Path, typer.Option(help="WordNet's data files.")] = Path("/usr/share/wordnet"),
) -> None:
    """Write what a corpus is to say: prose, usage examples, short texts, questions, dialogue, numbers, rare words."""
    from studio.train.corpus.speak import read_sentences
    from studio.train.corpus.texts import HeldOut, deal, write_texts
    from studio.train.recipe import check_held_out, read_recipe

    chosen = read_recipe(recipe)
    shards = sum(len(speakers) * count for speakers, count in chosen.corpus.stages)
    held_out = HeldOut(check_held_out(chosen, TEXTS))
    made = deal(read_sentences(sentences), wordnet, chosen.corpus.kinds, shards, held_out, chosen.seed)
    typer.echo(f"{write_texts(made, out)} texts in {out}")


@train.command()
def corpus(
    sentences: Annotated[Path, typer.Option(help="One sentence a line (or id|sentence), or what `texts` wrote.")],
    out: Annotated[Path, typer.Option(help="Folder for the spoken shards; a stopped run goes on.")],
    recipe: Recipe = RECIPE,
    teacher: Annotated[str, typer.Option(help="programs (festival, flite) or kokoro:FOLDER; else the recipe's.")] = "",
    workers: Annotated[int | None, typer.Option(help="Processes; one per core unless given.")] = None,
) -> None:
    """Speak sentences with synthetic teachers."""
    from studio.train.corpus.speak import speak_corpus
    from studio.train.recipe import read_recipe

    count = speak_corpus(read_recipe(recipe), sentences, TEXTS, out, workers, teacher)
    typer.echo(f"{count} shards in {out}")


@train.command()
def hear(
    corpus: Annotated[Path, typer.Option(help="Folder of spoken shards.")],
    recogniser: Annotated[str, typer.Option(help="whisper, whisper:FOLDER or pocketsphinx.")] = "whisper",
    sample: Annotated[int, typer.Option(min=1, help="Clips of each kind; all where over 1% of these are wrong.")] = 60,
    workers: Annotated[int, typer.Option(min=1, help="Processes that recognise.")] = 2,
) -> None:
    """Listen to a corpus and leave out clips in which other sounds are heard than were written."""
    from studio.measure.recognisers.choose import transcribe_all
    from studio.measure.report import print_table
    from studio.train.corpus.hear import hear_corpus

    found = hear_corpus(corpus, partial(transcribe_all, recogniser=recogniser, workers=workers), sample)
    rows = [(kind, k.clips, k.heard, k.misheard, f"{k.share:.1%}", k.odd) for kind, k in found.items()]
    columns = ("kind", "clips", "heard", "misheard", "share", "length or loudness wrong")
    print_table(f"clips of {corpus}", columns, rows, "misheard: over 20% of the phonemes differ")


@train.command()
def speakers(
    names: Annotated[list[str], typer.Argument(help="The teacher's speakers, such as af_heart.")],
    teacher: Annotated[str, typer.Option(help="kokoro:FOLDER, or programs.")] = "kokoro",
    texts: Annotated[Path, typer.Option(help="One text a line.")] = TEXTS / "eval.txt",
    count: Annotated[int, typer.Option(min=1, help="How many texts, evenly from the file.")] = 14,
    recogniser: Annotated[str, typer.Option(help="whisper, whisper:FOLDER or pocketsphinx.")] = "whisper",
) -> None:
    """Compare a teacher's speakers: word errors, predicted MOS, pitch, spectrum, speed, and the gain to -18 dB."""
    from studio.bench.evaluation.speakers import compare_speakers
    from studio.bench.material import read_texts
    from studio.measure.recognisers.choose import transcribe_all
    from studio.predict.distillmos import DistillMos
    from studio.train.teachers.choose import open_teacher

    lines = read_texts(texts)
    chosen = lines[:: max(1, len(lines) // count)][:count]
    with DistillMos() as predictor:
        hear_all = partial(transcribe_all, recogniser=recogniser)
        compare_speakers(open_teacher(teacher), names, chosen, hear_all, predictor.predict)


@train.command()
def recordings(
    folder: Annotated[Path, typer.Option("--recordings", help="WAV or FLAC files and their texts.")],
    textgrids: Annotated[Path, typer.Option(help="TextGrids of the same names, with tiers words and phones (MFA).")],
    out: Annotated[Path, typer.Option(help="Folder for the shards; a stopped run goes on.")],
    speaker: Annotated[str, typer.Option(help="The speaker; else a file name's part before its first _.")] = "",
    shard_sentences: Annotated[int, typer.Option(min=1, help="Recordings in a shard.")] = 250,
) -> None:
    """Take real recordings, aligned by the Montreal Forced Aligner, in place of the teachers."""
    from studio.train.corpus.recordings import take_recordings

    taken, skipped = take_recordings(folder, textgrids, out, speaker, shard_sentences)
    typer.echo(f"{taken} recordings in {out}; {skipped} left out (no TextGrid, no text, or words that differ)")


@train.command()
def features(
    corpus: Annotated[Path, typer.Option(help="Folder of spoken shards.")],
    out: Annotated[Path, typer.Option(help="Folder for the encoded shards.")],
    workers: Annotated[int | None, typer.Option(help="Processes; one per core unless given.")] = None,
) -> None:
    """Encode a spoken corpus: dMel frames, word ends, phones."""
    from studio.train.features import write_features

    typer.echo(f"{write_features(corpus, out, workers)} shards in {out}")


@train.command()
def bpe(
    texts: Annotated[Path, typer.Option(help="What `texts` wrote.")],
    out: Annotated[
        Path, typer.Option(help="The file to write; a fit of IST-LM or DSM-TTS wants bpe.json in its state folder.")
    ],
    size: Annotated[int, typer.Option(min=60, max=20_000, help="How many tokens.")] = 500,
    phonemes: Annotated[bool, typer.Option(help="Of each word's phonemes in place of its letters.")] = False,
) -> None:
    """Learn a byte-pair encoding from a corpus' texts, as they are spoken."""
    from studio.train.bpe import read_spoken, train_bpe

    count = train_bpe(read_spoken(texts), size, out, "phonemes" if phonemes else "letters")
    typer.echo(f"{count} tokens in {out}")


@train.command()
def fit(
    features: Annotated[Path, typer.Option(help="Folder of encoded shards.")],
    state: Annotated[Path, typer.Option(help="Folder for checkpoints and metrics; a stopped run goes on.")],
    recipe: Recipe = RECIPE,
    device: Device = "auto",
    threads: Annotated[int | None, typer.Option(help="Of arithmetic on a CPU.")] = None,
    start: Annotated[Path | None, typer.Option(help="Weights to begin from, such as a shipped voice's.")] = None,
    like: Annotated[
        Path | None, typer.Option(help="Weights of another family: layers of the same name and shape begin as there.")
    ] = None,
    workers: Annotated[int, typer.Option(min=0, max=64, help="Processes that make batches ahead, for a GPU.")] = 0,
    minutes: Annotated[float | None, typer.Option(min=0.1, help="End after so long, the rate fallen.")] = None,
    teacher: Annotated[Path | None, typer.Option(help="Of a distillation: weights of the T5-TTS that teaches.")] = None,
    taught: Annotated[Path | None, typer.Option(help="Of a distillation: what `taught` wrote.")] = None,
) -> None:
    """Fit the net of a voice, of the family that its recipe names."""
    from studio.core.errors import BadOption
    from studio.engine.voices import pick_device
    from studio.train.ahead import Ahead
    from studio.train.families import fitting_of
    from studio.train.fitting import run
    from studio.train.recipe import read_recipe

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


@train.command()
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
    from studio.train.recipe import read_recipe
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


@train.command()
def vocoder(
    corpus: Annotated[Path, typer.Option(help="Folder of spoken shards.")],
    state: Annotated[Path, typer.Option(help="Folder for checkpoints and metrics; a stopped run goes on.")],
    export: Annotated[Path, typer.Option(help="The weights to write; their configuration goes beside them.")],
    name: Annotated[str, typer.Option(help="What the recipe calls it, such as sourcefilter.")] = "sourcefilter",
    recipe: Recipe = RECIPE,
    device: Device = "auto",
    threads: Annotated[int, typer.Option(help="Of arithmetic on a CPU.")] = 1,
    start: Annotated[Path | None, typer.Option(help="Weights to begin from, such as a shipped voice's.")] = None,
    minutes: Annotated[float | None, typer.Option(min=0.1, help="End after so long, the rate fallen.")] = None,
) -> None:
    """Fit a vocoder."""
    from studio.train.recipe import read_recipe, vocoder_settings
    from studio.train.vocoder_fit import VocoderFit, fit

    asked = vocoder_settings(read_recipe(recipe), name) | {"start": start, "device": device, "threads": threads}
    if minutes is not None:
        asked["budget_s"] = 60.0 * minutes
    typer.echo(json.dumps(fit(VocoderFit(corpus, state, export, **asked))))


@train.command()
def pack(
    state: Annotated[Path, typer.Option(help="The fit's state folder.")],
    vocoders: Annotated[Path, typer.Option(help="Folder of <name>.safetensors and <name>.json.")],
    recipe: Recipe = RECIPE,
    out: Annotated[Path, typer.Option(help="Folder of voices to write into.")] = VOICES,
    eight_bits: Annotated[bool, typer.Option(help="Keep the net's matrices in 8 bits, in half the space.")] = False,
) -> None:
    """Put weights, curves and a card together: a voice. A vocoder that a voice beside it has is not written again."""
    from studio.train.pack import pack_voice
    from studio.train.recipe import read_recipe

    typer.echo(pack_voice(read_recipe(recipe), state, vocoders, out, eight_bits=eight_bits))


@train.command()
def table(
    name: Annotated[str, typer.Argument(help="The paper, such as 000; without it those that there are.")] = "",
    features: Annotated[Path, typer.Option(help="Folder of encoded shards.")] = Path("work/features"),
    vocoders: Annotated[Path, typer.Option(help="Folder of <name>.safetensors and <name>.json.")] = Path(
        "work/vocoders"
    ),
    work: Annotated[Path, typer.Option(help="Folder for nets, voices and rows; a stopped run goes on.")] = Path(
        "work/tables"
    ),
    bpe: Annotated[Path | None, typer.Option(help="The byte-pair encoding, where a family needs one.")] = None,
    teacher_texts: Annotated[
        Path | None,
        typer.Option(help="Texts for the teacher of a distillation, one a line; without them it is left out."),
    ] = None,
    steps: Annotated[int, typer.Option(min=0, help="Of every net; the recipes' own unless given.")] = 0,
    seeds: Annotated[int, typer.Option(min=1, max=20, help="Trainings of every net.")] = 1,
    texts: Texts = TEXTS / "eval.txt",
    count: Count = 50,
    only: Annotated[str, typer.Option(help="Only rows whose names hold this.")] = "",
    teacher: Annotated[bool, typer.Option("--teacher/--no-teacher", help="Measure the teacher too.")] = True,
    recogniser: Annotated[
        str, typer.Option(help="whisper, whisper:FOLDER or pocketsphinx.", envvar="STUDIO_RECOGNISER")
    ] = "whisper",
    device: Device = "auto",
    threads: Annotated[int | None, typer.Option(min=1, max=256, help="Of arithmetic on a CPU.")] = None,
    is_plan: Annotated[bool, typer.Option("--plan", help="Say what would be trained and measured, and stop.")] = False,
    as_json: Json = False,
    save: Save = False,
) -> None:
    """Make a paper's tables: fit every tiny net, measure every row, print the paper's figures beside ours."""
    from studio.bench.tables.definition import read_table, table_names
    from studio.bench.tables.nets import Workshop
    from studio.bench.tables.run import TableSetting, make_table, plan

    if not name:
        for one in table_names():
            typer.echo(f"{one}  {read_table(one).title}")
        return
    shop = Workshop(
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
        quiet=as_json,
    )
    if is_plan:
        typer.echo(json.dumps(plan(setting), indent=1))
        return
    show(f"table-{name}", make_table(setting), as_json, save)
