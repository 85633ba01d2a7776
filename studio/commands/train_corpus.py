"""``studio train`` texts, corpus, hear, speakers, recordings, features and bpe: training data."""

from functools import partial
from pathlib import Path
from typing import Annotated

import typer

from studio.commands.common import RECIPE, Recipe
from studio.core.folders import TEXTS
from studio.core.terminal import print_line

corpus_commands = typer.Typer()


@corpus_commands.command()
def texts(
    sentences: Annotated[Path, typer.Option(help="Prose: one sentence (or id|sentence) per line.")],
    out: Annotated[Path, typer.Option(help="Output file: one text and its kind per line.")],
    recipe: Recipe = RECIPE,
    wordnet: Annotated[Path, typer.Option(help="WordNet's data files.")] = Path("/usr/share/wordnet"),
) -> None:
    """Draw the texts of a corpus: prose, usage examples, short texts, questions, dialogue, numbers, rare words."""
    from studio.train.corpus.synthesis import read_sentences
    from studio.train.corpus.texts import HeldOut, draw_texts, write_texts
    from studio.train.recipes.recipe import read_held_out, read_recipe

    chosen = read_recipe(recipe)
    shards = sum(len(speakers) * count for speakers, count in chosen.corpus.stages)
    held_out = HeldOut(read_held_out(chosen, TEXTS))
    drawn_texts = draw_texts(read_sentences(sentences), wordnet, chosen.corpus.kinds, shards, held_out, chosen.seed)
    print_line(f"{write_texts(drawn_texts, out)} texts in {out}")


@corpus_commands.command()
def corpus(
    sentences: Annotated[Path, typer.Option(help="One sentence (or id|sentence) per line, or output of `texts`.")],
    out: Annotated[Path, typer.Option(help="Folder for the shards; a stopped run resumes.")],
    recipe: Recipe = RECIPE,
    teacher: Annotated[str, typer.Option(help="programs (festival, flite) or kokoro:FOLDER; else the recipe's.")] = "",
    workers: Annotated[int | None, typer.Option(min=1, max=256, help="Processes; default: one per core.")] = None,
) -> None:
    """Synthesise a corpus with a teacher."""
    from studio.train.corpus.synthesis import synthesise_corpus
    from studio.train.recipes.recipe import read_recipe

    count = synthesise_corpus(read_recipe(recipe), sentences, TEXTS, out, workers, teacher)
    print_line(f"{count} shards in {out}")


@corpus_commands.command()
def hear(
    corpus: Annotated[Path, typer.Option(help="Folder of corpus shards.")],
    recogniser: Annotated[str, typer.Option(help="whisper, whisper:FOLDER or pocketsphinx.")] = "whisper",
    sample: Annotated[int, typer.Option(min=1, help="Clips of each kind; all, if over 1% of these are wrong.")] = 60,
    workers: Annotated[int, typer.Option(min=1, help="Processes of the recogniser.")] = 2,
) -> None:
    """Filter a corpus: exclude clips that a recogniser transcribes otherwise."""
    from studio.measure.recognisers.registry import transcribe_all
    from studio.measure.report import print_table
    from studio.train.corpus.asr_filter import filter_corpus

    counts = filter_corpus(corpus, partial(transcribe_all, recogniser=recogniser, workers=workers), sample)
    rows = [(kind, k.clips, k.transcribed, k.wrong, f"{k.share:.1%}", k.implausible) for kind, k in counts.items()]
    columns = ("kind", "clips", "transcribed", "wrong", "share", "wrong length or loudness")
    print_table(f"clips of {corpus}", columns, rows, "wrong: over 20% of the phonemes differ")


@corpus_commands.command()
def speakers(
    names: Annotated[list[str], typer.Argument(help="The teacher's speakers, such as af_heart.")],
    teacher: Annotated[str, typer.Option(help="kokoro:FOLDER, or programs.")] = "kokoro",
    texts: Annotated[Path, typer.Option(help="One text per line.")] = TEXTS / "eval.txt",
    count: Annotated[int, typer.Option(min=1, help="Number of texts, evenly from the file.")] = 14,
    recogniser: Annotated[str, typer.Option(help="whisper, whisper:FOLDER or pocketsphinx.")] = "whisper",
) -> None:
    """Compare a teacher's speakers: word errors, predicted MOS, pitch, spectrum, speed, and the gain to -18 dB."""
    from studio.bench.evaluation.speakers import compare_speakers
    from studio.bench.material import read_texts
    from studio.measure.recognisers.registry import transcribe_all
    from studio.predict.distillmos import DistillMos
    from studio.train.teachers.registry import open_teacher

    lines = read_texts(texts)
    chosen = lines[:: max(1, len(lines) // count)][:count]
    with DistillMos() as predictor:
        transcribe = partial(transcribe_all, recogniser=recogniser)
        compare_speakers(open_teacher(teacher), names, chosen, transcribe, predictor.predict)


@corpus_commands.command()
def recordings(
    folder: Annotated[Path, typer.Option("--recordings", help="WAV or FLAC files and their texts.")],
    textgrids: Annotated[Path, typer.Option(help="TextGrids of the same names, with tiers words and phones (MFA).")],
    out: Annotated[Path, typer.Option(help="Folder for the shards; a stopped run resumes.")],
    speaker: Annotated[str, typer.Option(help="The speaker; default: the file name up to the first _.")] = "",
    shard_sentences: Annotated[int, typer.Option(min=1, help="Recordings per shard.")] = 250,
) -> None:
    """Import recordings with alignments of the Montreal Forced Aligner."""
    from studio.train.corpus.shards import import_recordings

    imported, skipped = import_recordings(folder, textgrids, out, speaker, shard_sentences)
    print_line(f"{imported} recordings in {out}; {skipped} left out (no TextGrid, no text, or words that differ)")


@corpus_commands.command()
def features(
    corpus: Annotated[Path, typer.Option(help="Folder of corpus shards.")],
    out: Annotated[Path, typer.Option(help="Folder for the encoded shards.")],
    workers: Annotated[int | None, typer.Option(min=1, max=256, help="Processes; default: one per core.")] = None,
) -> None:
    """Encode a spoken corpus: dMel frames, word ends, phones."""
    from studio.train.features import write_features

    print_line(f"{write_features(corpus, out, workers)} shards in {out}")


@corpus_commands.command()
def bpe(
    texts: Annotated[Path, typer.Option(help="Output of `texts`.")],
    out: Annotated[Path, typer.Option(help="Output file; IST-LM and DSM-TTS need bpe.json in their state folder.")],
    size: Annotated[int, typer.Option(min=60, max=20_000, help="Vocabulary size.")] = 500,
    phonemes: Annotated[bool, typer.Option(help="Encode phonemes instead of letters.")] = False,
) -> None:
    """Train a byte-pair encoding on the spoken words of a corpus' texts."""
    from studio.train.corpus.texts import read_spoken, train_bpe

    count = train_bpe(read_spoken(texts), size, out, "phonemes" if phonemes else "letters")
    print_line(f"{count} tokens in {out}")
