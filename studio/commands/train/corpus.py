"""``studio train`` texts, corpus, hear, speakers, recordings, features and bpe: what nets learn from."""

from functools import partial
from pathlib import Path
from typing import Annotated

import typer

from studio.commands.common import RECIPE, Recipe
from studio.core.shipped import TEXTS

corpus_commands = typer.Typer()


@corpus_commands.command()
def texts(
    sentences: Annotated[Path, typer.Option(help="Prose: a text file, one sentence a line (or id|sentence).")],
    out: Annotated[Path, typer.Option(help="The file to write, one text and its kind a line.")],
    recipe: Recipe = RECIPE,
    wordnet: Annotated[Path, typer.Option(help="WordNet's data files.")] = Path("/usr/share/wordnet"),
) -> None:
    """Write what a corpus is to say: prose, usage examples, short texts, questions, dialogue, numbers, rare words."""
    from studio.train.corpus.speak import read_sentences
    from studio.train.corpus.texts import HeldOut, deal, write_texts
    from studio.train.recipes.recipe import check_held_out, read_recipe

    chosen = read_recipe(recipe)
    shards = sum(len(speakers) * count for speakers, count in chosen.corpus.stages)
    held_out = HeldOut(check_held_out(chosen, TEXTS))
    made = deal(read_sentences(sentences), wordnet, chosen.corpus.kinds, shards, held_out, chosen.seed)
    typer.echo(f"{write_texts(made, out)} texts in {out}")


@corpus_commands.command()
def corpus(
    sentences: Annotated[Path, typer.Option(help="One sentence a line (or id|sentence), or what `texts` wrote.")],
    out: Annotated[Path, typer.Option(help="Folder for the spoken shards; a stopped run goes on.")],
    recipe: Recipe = RECIPE,
    teacher: Annotated[str, typer.Option(help="programs (festival, flite) or kokoro:FOLDER; else the recipe's.")] = "",
    workers: Annotated[int | None, typer.Option(min=1, max=256, help="Processes; one per core unless given.")] = None,
) -> None:
    """Speak sentences with synthetic teachers."""
    from studio.train.corpus.speak import speak_corpus
    from studio.train.recipes.recipe import read_recipe

    count = speak_corpus(read_recipe(recipe), sentences, TEXTS, out, workers, teacher)
    typer.echo(f"{count} shards in {out}")


@corpus_commands.command()
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


@corpus_commands.command()
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


@corpus_commands.command()
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


@corpus_commands.command()
def features(
    corpus: Annotated[Path, typer.Option(help="Folder of spoken shards.")],
    out: Annotated[Path, typer.Option(help="Folder for the encoded shards.")],
    workers: Annotated[int | None, typer.Option(min=1, max=256, help="Processes; one per core unless given.")] = None,
) -> None:
    """Encode a spoken corpus: dMel frames, word ends, phones."""
    from studio.train.features import write_features

    typer.echo(f"{write_features(corpus, out, workers)} shards in {out}")


@corpus_commands.command()
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
