"""The command line, and the one module that knows every room; each room is imported inside its command.

``say``, ``train`` and ``bench`` work where gradio, fastapi, pydantic and sqlmodel are absent.
"""

import json
import os
import sys
from pathlib import Path
from typing import Annotated, Any

import typer

from studio.core.errors import StudioError

ASSETS = Path(__file__).resolve().parent.parent / "assets"
TEXTS = ASSETS / "texts"

cli = typer.Typer(
    name="studio",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    help="Streaming-TTS Studio: speech that starts before the text is finished.",
)
train = typer.Typer(no_args_is_help=True, help="Make a voice: speak a corpus, encode it, fit, pack.")
evaluate = typer.Typer(no_args_is_help=True, help="Measure how well a voice speaks.")
bench = typer.Typer(no_args_is_help=True, help="Measure how fast it speaks.")
cli.add_typer(train, name="train")
cli.add_typer(evaluate, name="eval")
cli.add_typer(bench, name="bench")

Voices = Annotated[Path, typer.Option(help="Folder of voices.", envvar="STUDIO_VOICES")]
Device = Annotated[str, typer.Option(help="auto, cpu or cuda.")]
VoiceName = Annotated[str, typer.Option(help="A voice, name[:speaker]; the first one unless named.")]
Json = Annotated[bool, typer.Option("--json", help="Print the figures as JSON and nothing else.")]
Save = Annotated[bool, typer.Option("--save", help="Also write a dated JSON file to bench/results/.")]
Threads = Annotated[int, typer.Option(min=1, help="Of arithmetic on a CPU; more help large nets only.")]
Texts = Annotated[Path, typer.Option(help="One text a line.")]
Count = Annotated[int, typer.Option(min=1, help="How many texts, from the first.")]
Recipe = Annotated[Path, typer.Option(help="The voice's recipe.")]
RECIPE = ASSETS / "voices" / "lark" / "recipe.toml"
VOICES = ASSETS / "voices"


def main() -> None:
    """Run a command; a user's mistake is answered in two lines, not with a traceback."""
    try:
        cli()
    except StudioError as error:
        typer.secho(f"studio: {error.what}", err=True, fg="red")
        if error.do:
            typer.echo(f"  {error.do}", err=True)
        raise SystemExit(2) from error


@cli.command()
def app(
    host: Annotated[str, typer.Option(help="Address to listen on; others can reach you on 0.0.0.0.")] = "",
    port: Annotated[int | None, typer.Option(help="0 takes any free one.")] = None,
    settings: Annotated[Path | None, typer.Option(help="A TOML file with a [serve] table.")] = None,
    voices: Voices = VOICES,
    device: Device = "auto",
    places: Annotated[int, typer.Option(min=1, max=64, help="Utterances spoken at once.")] = 4,
    threads: Threads = 1,
) -> None:
    """Open the studio in a browser: type, and hear it while you type."""
    from dataclasses import replace

    from studio.engine.loop import open_engine
    from studio.serve.app import create_app
    from studio.serve.run import run
    from studio.settings import load_settings
    from studio.text.normalise import best
    from studio.ui.app import mount

    chosen = load_settings(settings, os.environ)
    chosen = replace(chosen, host=host or chosen.host, port=chosen.port if port is None else port)
    engine = open_engine(voices, best(), device, places=places, threads=threads)
    typer.echo(f"Streaming-TTS Studio: http://{chosen.host}:{chosen.port}{chosen.root_path}", err=True)
    try:
        run(mount(create_app(engine, chosen, _provenance(device)), engine, chosen), chosen)
    finally:
        engine.close()


@cli.command()
def say(
    text: Annotated[str, typer.Argument(help="What to say; - reads a pipe and speaks as it comes.")] = "",
    out: Annotated[Path | None, typer.Option("--out", "-o", help="WAV file; played here when absent.")] = None,
    voice: VoiceName = "",
    scheme: Annotated[str, typer.Option(help="S1 repeats the look-ahead words, S2 feeds each once.")] = "S1",
    window: Annotated[int, typer.Option("--window", "-m", help="Words seen per segment, 1 to 6.")] = 3,
    hop: Annotated[int, typer.Option("--hop", "-n", help="Words spoken per segment, at most the window.")] = 1,
    temperature: Annotated[float | None, typer.Option(help="The voice's own unless given; 0 is greedy.")] = None,
    seed: Annotated[int, typer.Option(help="The same seed gives the same samples.")] = 0,
    trace: Annotated[Path | None, typer.Option(help="Also write the trace: events, frames, p_eos, sound.")] = None,
    typing_wpm: Annotated[float | None, typer.Option(help="Type the text at so many words a minute.")] = None,
    arrivals: Annotated[
        Path | None, typer.Option(help='Lines {"t_ms": 0, "text": "Hel"}, sent at their times.')
    ] = None,
    as_heard: Annotated[bool, typer.Option("--as-heard", help="Put the pauses for text into the WAV.")] = False,
    voices: Voices = VOICES,
    device: Device = "auto",
    threads: Threads = 1,
) -> None:
    """Speak a text into a WAV file."""
    from studio import say as saying
    from studio.core.errors import BadOption
    from studio.core.ports import SpeakRequest
    from studio.core.time import MonotonicClock
    from studio.engine.loop import open_engine
    from studio.text.normalise import best

    if arrivals and (text or typing_wpm is not None):
        raise BadOption("--arrivals brings its own text and times", "leave out the text and --typing-wpm")
    if trace and trace.suffix != ".trace":
        raise BadOption(f"{trace} does not end in .trace", "name it like out.trace")
    if arrivals:
        source = saying.recorded(arrivals)
    elif text == "-":
        source = saying.piped(sys.stdin.fileno())
    else:
        source = list(saying.at_once(text) if typing_wpm is None else saying.typed(text, typing_wpm))
    options = {"scheme": scheme, "m": window, "n": hop}
    engine = open_engine(voices, best(), device, threads=threads)
    try:
        request = SpeakRequest(voice=voice, seed=seed, temperature=temperature, options=options)
        folder = trace.with_suffix("") if trace else None
        made = saying.speak(engine, request, source, MonotonicClock(), _provenance(device), folder)
    finally:
        engine.close()
    if out:
        saying.save(made, out, as_heard=as_heard)
        typer.echo(f"{out}: {len(made.pcm) / made.rate_hz:.2f} s", err=True)
    else:
        saying.play(made)


@cli.command("voices")
def list_voices(voices: Voices = VOICES, as_json: Json = False) -> None:
    """List the voices and what they are."""
    from studio.engine.voices import read_cards

    cards = {name: card for name, (card, _) in read_cards(voices).items()}
    if as_json:
        typer.echo(json.dumps({name: card.to_dict() for name, card in cards.items()}, indent=1))
        return
    for card in cards.values():
        typer.echo(f"{card.name}: {card.title}. Speakers: {', '.join(card.speakers)}. {card.licence}")


# ------------------------------------------------------------------ train


@train.command()
def corpus(
    sentences: Annotated[Path, typer.Option(help="Text file, one sentence a line (or id|sentence).")],
    out: Annotated[Path, typer.Option(help="Folder for the spoken shards; a stopped run goes on.")],
    recipe: Recipe = RECIPE,
    workers: Annotated[int | None, typer.Option(help="Processes; one per core unless given.")] = None,
) -> None:
    """Speak sentences with the synthetic teachers (festival, flite)."""
    from studio.train.corpus import speak_corpus
    from studio.train.recipe import read_recipe

    typer.echo(f"{speak_corpus(read_recipe(recipe), sentences, TEXTS, out, workers)} shards in {out}")


@train.command()
def recordings(
    folder: Annotated[Path, typer.Option("--recordings", help="WAV or FLAC files and their texts.")],
    textgrids: Annotated[Path, typer.Option(help="TextGrids of the same names, with tiers words and phones (MFA).")],
    out: Annotated[Path, typer.Option(help="Folder for the shards; a stopped run goes on.")],
    speaker: Annotated[str, typer.Option(help="The speaker; else a file name's part before its first _.")] = "",
    shard_sentences: Annotated[int, typer.Option(min=1, help="Recordings in a shard.")] = 250,
) -> None:
    """Take real recordings, aligned by the Montreal Forced Aligner, in place of the teachers."""
    from studio.train.recordings import take_recordings

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
def fit(
    features: Annotated[Path, typer.Option(help="Folder of encoded shards.")],
    state: Annotated[Path, typer.Option(help="Folder for checkpoints and metrics; a stopped run goes on.")],
    recipe: Recipe = RECIPE,
    device: Device = "auto",
    threads: Annotated[int | None, typer.Option(help="Of arithmetic on a CPU.")] = None,
) -> None:
    """Fit the language model of a voice."""
    from studio.engine.voices import pick_device
    from studio.train.recipe import read_recipe
    from studio.train.speakstream_fit import fit as fit_speakstream

    typer.echo(fit_speakstream(read_recipe(recipe), features, state, pick_device(device), threads))


@train.command()
def vocoder(
    corpus: Annotated[Path, typer.Option(help="Folder of spoken shards.")],
    state: Annotated[Path, typer.Option(help="Folder for checkpoints and metrics; a stopped run goes on.")],
    export: Annotated[Path, typer.Option(help="The weights to write; their configuration goes beside them.")],
    name: Annotated[str, typer.Option(help="sourcefilter or vocstream.")] = "sourcefilter",
    recipe: Recipe = RECIPE,
    device: Device = "auto",
    threads: Annotated[int, typer.Option(help="Of arithmetic on a CPU.")] = 1,
) -> None:
    """Fit a vocoder."""
    from studio.train.recipe import read_recipe, vocoder_settings
    from studio.train.vocoder_fit import VocoderFit, fit

    chosen = vocoder_settings(read_recipe(recipe), name)
    typer.echo(json.dumps(fit(VocoderFit(corpus, state, export, name, device=device, threads=threads, **chosen))))


@train.command()
def pack(
    state: Annotated[Path, typer.Option(help="The language model's state folder.")],
    vocoders: Annotated[Path, typer.Option(help="Folder of <name>.safetensors and <name>.json.")],
    recipe: Recipe = RECIPE,
    out: Annotated[Path, typer.Option(help="Folder of voices to write into.")] = VOICES,
) -> None:
    """Put weights, curves and a card together: a voice."""
    from studio.train.pack import pack_voice
    from studio.train.recipe import read_recipe

    typer.echo(pack_voice(read_recipe(recipe), state, vocoders, out))


# ------------------------------------------------------------------ eval and bench


def _provenance(device: str) -> dict[str, Any]:
    """What every trace says about the program that made it."""
    import torch

    from studio.measure.report import git_sha, versions

    return {
        "git_sha": git_sha(),
        "versions": versions(),
        "device": device,
        "threads": torch.get_num_threads(),
        "dtype": "float32",
    }


def _show(name: str, figures: dict[str, Any], as_json: bool, save: bool) -> None:
    from studio.measure.report import plain, write_result

    if as_json:
        typer.echo(json.dumps(plain(figures)))
    if save:
        typer.echo(f"written to {write_result(name, figures)}", err=True)


Cache = Annotated[Path | None, typer.Option(help="Keep speech and transcripts here, so that a stopped run goes on.")]


@evaluate.command()
def wer(
    texts: Texts = TEXTS / "eval.txt",
    count: Count = 100,
    windows: Annotated[str, typer.Option(help="Windows m, comma-separated.")] = "1,2,3,4,5,6",
    voice: VoiceName = "",
    voices: Voices = VOICES,
    device: Device = "auto",
    cache: Cache = None,
    as_json: Json = False,
    save: Save = False,
) -> None:
    """Word error rate for every window, beside the teacher's (Table I of paper 000)."""
    from studio.bench.wer import WerSetting, eval_wer

    numbers = tuple(int(m) for m in windows.split(","))
    setting = WerSetting(
        voices=voices, voice=voice, device=device, cache=cache, quiet=as_json, texts=texts, count=count, windows=numbers
    )
    _show("wer", eval_wer(setting), as_json, save)


@evaluate.command("long")
def long_speech(
    texts: Texts = TEXTS / "paragraphs.txt",
    voice: VoiceName = "",
    voices: Voices = VOICES,
    device: Device = "auto",
    cache: Cache = None,
    as_json: Json = False,
    save: Save = False,
) -> None:
    """Word error rate of the first and second half of long paragraphs."""
    from studio.bench.long import LongSetting, eval_long

    setting = LongSetting(voices=voices, voice=voice, device=device, cache=cache, quiet=as_json, texts=texts)
    _show("long", eval_long(setting), as_json, save)


@evaluate.command()
def boundaries(
    texts: Texts = TEXTS / "eval.txt",
    count: Count = 50,
    voice: VoiceName = "",
    voices: Voices = VOICES,
    device: Device = "auto",
    cache: Cache = None,
    as_json: Json = False,
    save: Save = False,
) -> None:
    """Whether segments speak their own words, and where p_eos stands against word ends."""
    from studio.bench.boundaries import BoundarySetting, eval_boundaries

    setting = BoundarySetting(
        voices=voices, voice=voice, device=device, cache=cache, quiet=as_json, texts=texts, count=count
    )
    _show("boundaries", eval_boundaries(setting), as_json, save)


@evaluate.command("vocoder")
def vocoder_table(
    texts: Texts = TEXTS / "eval.txt",
    count: Count = 100,
    voice: VoiceName = "",
    voices: Voices = VOICES,
    cache: Cache = None,
    as_json: Json = False,
    save: Save = False,
) -> None:
    """The vocoders side by side: WER, STFT distance, real-time factor, parameters."""
    from studio.bench.vocoder import VocoderSetting, eval_vocoder

    setting = VocoderSetting(voices=voices, voice=voice, cache=cache, quiet=as_json, texts=texts, count=count)
    _show("vocoder", eval_vocoder(setting), as_json, save)


@evaluate.command()
def heard(
    texts: Texts = TEXTS / "live.txt",
    count: Count = 10,
    wpm: Annotated[float, typer.Option(help="Typing speed, words a minute.")] = 60.0,
    keep: Annotated[Path | None, typer.Option(help="Folder for the captured WAV files.")] = None,
    as_json: Json = False,
    save: Save = False,
) -> None:
    """Type texts live into the page, and transcribe what leaves its player."""
    from studio.bench.heard import HeardSetting, eval_heard

    setting = HeardSetting(texts=texts, count=count, wpm=wpm, keep=keep, quiet=as_json)
    _show("heard", eval_heard(setting), as_json, save)


@bench.command()
def latency(
    texts: Texts = TEXTS / "latency.txt",
    count: Count = 50,
    m: Annotated[int, typer.Option("-m", help="Words seen per segment.")] = 5,
    voice: VoiceName = "",
    voices: Voices = VOICES,
    device: Device = "auto",
    as_json: Json = False,
    save: Save = False,
) -> None:
    """First audio and real-time factor of a warm engine, by the ladder t0a .. t5."""
    from studio.bench.latency import LatencySetting, bench_latency

    setting = LatencySetting(voices=voices, voice=voice, device=device, quiet=as_json, texts=texts, count=count, m=m)
    _show("latency", bench_latency(setting), as_json, save)


@bench.command()
def page(
    count: Annotated[int, typer.Option(min=1, help="Texts typed for first audio.")] = 20,
    wpm: Annotated[float, typer.Option(help="Typing speed, words a minute.")] = 60.0,
    window: Annotated[int | None, typer.Option("-m", help="Words seen; the page's own unless given.")] = None,
    long_words: Annotated[int, typer.Option(help="Words of the text typed for stalls; 0 leaves it out.")] = 80,
    as_json: Json = False,
    save: Save = False,
) -> None:
    """The page in headless Chromium: key to first audible sample, stalls, also with a busy main thread."""
    from studio.bench.page import PageSetting, bench_page

    setting = PageSetting(n=count, wpm=wpm, window=window, long_words=long_words, quiet=as_json)
    _show("page", bench_page(setting), as_json, save)


@bench.command()
def screenshot(
    out: Annotated[Path, typer.Argument(help="PNG file to write.")],
    width: Annotated[int, typer.Option(help="Of the window, pixels.")] = 1280,
    height: Annotated[int, typer.Option(help="Of the window, pixels.")] = 860,
    dark: Annotated[bool, typer.Option("--dark", help="The dark theme.")] = False,
) -> None:
    """Take a picture of the speaking page."""
    from studio.bench.page import screenshot as take

    take(out, width=width, height=height, dark=dark)


@bench.command()
def summary() -> None:
    """Write docs/results/README.md from the newest files of bench/results/."""
    from studio.bench.summary import summarise

    typer.echo(summarise())
