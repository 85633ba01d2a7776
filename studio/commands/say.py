"""``studio say``: speak a text, a pipe or recorded arrivals; ``studio words``: its spoken words, without a voice."""

import codecs
import json
import os
import sys
from collections.abc import Callable, Generator, Iterable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from studio.bench.options import Device, FamilyOption, Threads, Vocoder, VoiceName, Voices
from studio.commands.common import Json, Speed, check_output_file
from studio.commands.lexicon import LexiconFile, normaliser
from studio.core.errors import BadFile, BadOption, BadText
from studio.core.files import read_bounded
from studio.core.folders import VOICES
from studio.core.plurals import counted
from studio.core.speaking import PUSH_CHARS, Arrival, at_once, save_audio, speak, typed
from studio.core.terminal import print_json, print_line
from studio.core.text.language import DEFAULT, in_language
from studio.core.text.livetext import MAX_FIELD_CHARS
from studio.core.text.words import whole_text
from studio.desktop.devices import TO_FILE, sounddevice_module
from studio.markup import Markup

if TYPE_CHECKING:
    from studio.core.traces.trace import Trace

MAX_ARRIVALS_BYTES = 16_000_000
MAX_ARRIVAL_MS = 86_400_000.0  # a day
STANDARD_OUTPUT = Path("-")


def say(
    text: Annotated[str, typer.Argument(help="Text; - reads a pipe and speaks while it arrives.")] = "",
    out: Annotated[
        Path | None,
        typer.Option(
            "--out",
            "-o",
            help="WAV file; - writes it to standard output. Without one it is played here, which needs sounddevice "
            "(pip) and PortAudio.",
        ),
    ] = None,
    voice: VoiceName = "",
    option: FamilyOption = None,
    window: Annotated[
        int | None, typer.Option("--window", "-m", help="Words seen per segment: --option m=... (SpeakStream).")
    ] = None,
    hop: Annotated[
        int | None, typer.Option("--hop", "-n", help="Words spoken per segment: --option n=... (SpeakStream).")
    ] = None,
    scheme: Annotated[
        str | None, typer.Option(help="S1 repeats look-ahead words, S2 does not: --option scheme=... (SpeakStream).")
    ] = None,
    temperature: Annotated[
        float | None, typer.Option(help="Sampling temperature; by default the voice's; 0 is greedy.")
    ] = None,
    seed: Annotated[int, typer.Option(help="Random seed; the same seed gives the same samples.")] = 0,
    trace: Annotated[Path | None, typer.Option(help="Also write a trace: events, frames, p_eos, sound.")] = None,
    captions: Annotated[
        Path | None, typer.Option(help="Also write captions: .srt or .vtt, in the time of the sound that is written.")
    ] = None,
    typing_wpm: Annotated[float | None, typer.Option(help="Simulate typing at this rate, words a minute.")] = None,
    arrivals: Annotated[
        Path | None, typer.Option(help='File of lines {"t_ms": 0, "text": "Hel"}, sent at these times.')
    ] = None,
    as_heard: Annotated[bool, typer.Option("--as-heard", help="Include waits for text in the output.")] = False,
    markup: Annotated[
        Markup,
        typer.Option(help="What the text is written in: marks of Markdown are not spoken; SSML has pauses and rates."),
    ] = "plain",
    speed: Speed = 1.0,
    lexicon: LexiconFile = None,
    voices: Voices = VOICES,
    device: Device = "auto",
    vocoder: Vocoder = "",
    threads: Threads = 1,
) -> None:
    """Speak a text: play it, or write a WAV file with -o."""
    from studio.core.cards import parse_voice
    from studio.core.options import merge_options, options_from_flags, parse_options
    from studio.core.ports import SpeakRequest
    from studio.core.time import MonotonicClock
    from studio.core.traces.captions import SUFFIXES, write_captions
    from studio.markup.parts import MarkedEngine
    from studio.systems.combined import all_cards, open_voices

    if arrivals and (text or typing_wpm is not None):
        raise BadOption("--arrivals brings its own text and times", "leave out the text and --typing-wpm")
    if out is None:
        sounddevice_module(TO_FILE)  # fail before anything is spoken
    elif out != STANDARD_OUTPUT:
        check_output_file(out, "-o", ".wav")
    elif sys.stdout.isatty():
        raise BadFile("a WAV is binary, and standard output is a terminal", 'pipe it: studio say "..." -o - | aplay')
    check_output_file(trace, "--trace", ".trace")
    check_output_file(captions, "--captions", *SUFFIXES)
    if arrivals:
        source = read_arrivals(arrivals)
    elif text == "-":
        source = read_pipe(sys.stdin.fileno())
    else:
        source = list(at_once(text) if typing_wpm is None else typed(text, typing_wpm))
    card, _ = parse_voice(voice, all_cards(voices))
    if markup == "markdown":
        source = _without_markdown(source)
    elif markup == "ssml" and (arrivals or typing_wpm is not None):
        raise BadOption("SSML needs the complete text at once", "leave out --arrivals and --typing-wpm")
    flags = {"--window": ("m", window), "--hop": ("n", hop), "--scheme": ("scheme", scheme)}
    assignments = options_from_flags(card.options, flags) + (option or [])
    options = merge_options(card.options, parse_options(card.options, assignments), {})

    with closing(
        open_voices(voices, normaliser(lexicon), device, [card.name], threads=threads, vocoder=vocoder)
    ) as engine:
        request = SpeakRequest(voice=voice, seed=seed, temperature=temperature, options=options)
        folder = trace.with_suffix("") if trace else None
        with _progress() as on_progress:
            result = speak(MarkedEngine(engine, markup, speed), request, source, MonotonicClock(), folder, on_progress)
    spoken, error = result.trace, result.error
    if error and not len(spoken.pcm):
        raise error
    for reason in _unspoken(spoken):
        print_line(f"left out: {reason}", err=True)
    if out:
        length_s = _save(spoken, out, as_heard=as_heard)
        speech_s = len(spoken.pcm) / spoken.rate_hz
        length = f"{length_s:.2f} s, {speech_s:.2f} s of it speech" if as_heard else f"{length_s:.2f} s"
        so_far = ", all that was spoken before the error" if error else ""
        target = "standard output" if out == STANDARD_OUTPUT else out
        print_line(f"{target}: {length}{so_far}", err=True)
    elif not error:
        _play(spoken, as_heard=as_heard)
    if captions:
        count = write_captions(spoken, captions, as_heard=as_heard)
        print_line(f"{captions}: {counted(count, 'caption')}", err=True)
    if error:
        raise error


def read_arrivals(path: Path) -> list[Arrival]:
    """Read lines ``{"t_ms": 0, "text": "Hel"}``. Raises BadFile with the number of an invalid line."""
    shape = 'every line must be {"t_ms": number, "text": "..."}, times from 0, never going back, at most a day'
    try:
        lines = read_bounded(path, MAX_ARRIVALS_BYTES).decode("utf-8").splitlines()
    except OSError as error:
        raise BadFile(
            f"the arrivals {path} cannot be read: {error.strerror}", "give a file of lines with --arrivals"
        ) from error
    except UnicodeDecodeError as error:
        raise BadFile(f"the arrivals {path} are no text in UTF-8", shape) from error
    arrivals: list[Arrival] = []
    for number, line in enumerate(lines, 1):
        if not line.strip():
            continue
        try:
            value: Any = json.loads(line)
            t_ms, text = value["t_ms"], value["text"]
        except (ValueError, TypeError, KeyError, RecursionError) as error:
            raise BadFile(f"line {number} of {path} is not an arrival", shape) from error
        earlier = arrivals[-1].t_ms if arrivals else 0.0
        is_number = isinstance(t_ms, int | float) and not isinstance(t_ms, bool)
        if not is_number or not isinstance(text, str) or not (earlier or 0.0) <= t_ms <= MAX_ARRIVAL_MS:
            raise BadFile(f"line {number} of {path} is not an arrival", shape)
        arrivals.append(Arrival(float(t_ms), text))
    if not any(one.text.strip() for one in arrivals):
        raise BadText(f"{path} holds no text", shape)
    return arrivals


def read_pipe(descriptor: int) -> Iterator[Arrival]:
    """Decode a pipe's text as it arrives. Raises BadText if it is not UTF-8."""
    decoder, read_bytes = codecs.getincrementaldecoder("utf-8")(), 0
    is_over = False
    while not is_over:
        chunk = os.read(descriptor, PUSH_CHARS)
        is_over = not chunk
        try:
            text = decoder.decode(chunk, final=is_over)
        except UnicodeDecodeError as error:
            raise BadText(
                f"the pipe holds no text in UTF-8 near byte {read_bytes + error.start:,}",
                "pipe text, or convert it first: iconv -f latin1 -t utf-8",
            ) from error
        read_bytes += len(chunk)
        if text:
            yield Arrival(None, text)


@contextmanager
def _progress() -> Generator[Callable[[float], None]]:
    """Show the seconds spoken so far, on a terminal only."""
    from studio.measure.report import console

    with console(stderr=True).status("waiting for text") as status:
        yield lambda seconds: status.update(f"{seconds:.1f} s spoken")


def _unspoken(trace: "Trace") -> list[str]:
    """Tokens that the voice could not speak, with reasons. Raises BadText if nothing was spoken."""
    from studio.core.events import TextReceived, Unsupported
    from studio.core.text.reasons import nothing_spoken

    text = "".join(event.text for event in trace.events if isinstance(event, TextReceived))
    skipped = [event for event in trace.events if isinstance(event, Unsupported)]
    reasons = [f"{text[event.char_start : event.char_end].strip()[:40]!r}: {event.why}" for event in skipped]
    if not len(trace.pcm):
        raise nothing_spoken(reasons)
    return reasons


def _save(trace: "Trace", wav: Path, *, as_heard: bool) -> float:
    """Write a trace's sound to a file or standard output; returns its length in seconds. Raises BadFile."""
    from studio.core.clips import wav_bytes
    from studio.core.speakers import sound_comment

    pcm = trace.pcm_with_waits() if as_heard else trace.pcm
    if wav == STANDARD_OUTPUT:
        sys.stdout.buffer.write(wav_bytes(pcm, trace.rate_hz, sound_comment(trace.meta)))
        sys.stdout.buffer.flush()
    else:
        save_audio(wav, pcm, trace.rate_hz, trace.meta)
    return len(pcm) / trace.rate_hz


def _play(trace: "Trace", *, as_heard: bool) -> None:
    """Play a trace's sound. Raises BadOption if that fails."""
    sounddevice = sounddevice_module(TO_FILE)
    try:
        sounddevice.play(trace.pcm_with_waits() if as_heard else trace.pcm, trace.rate_hz, blocking=True)
    except sounddevice.PortAudioError as error:
        raise BadOption(f"sound cannot be played on this machine: {error}", TO_FILE) from error


def _without_markdown(arrivals: Iterable[Arrival]) -> Iterator[Arrival]:
    """Arrivals without the parts of Markdown that are not spoken."""
    from studio.core.errors import needs

    with needs("Markdown needs markdown-it-py, which is not installed", "app"):
        from studio.text.markdown import MarkdownStream
    stream, last_ms = MarkdownStream(), None
    for one in arrivals:
        last_ms = one.t_ms
        if text := stream.feed(one.text):
            yield Arrival(one.t_ms, text)
    if rest := stream.end():
        yield Arrival(last_ms, rest)


def words(
    text: Annotated[str, typer.Argument(help="Text; - reads a pipe.")],
    language: Annotated[str, typer.Option(help="Of the text: en or fr.")] = DEFAULT,
    as_json: Json = False,
) -> None:
    """Print the spoken words of a text with their places in it: characters, the first is 0, the end is not included."""
    from studio.text.normalise import best

    if text == "-":
        text = "".join(piece.text for piece in _bounded(read_pipe(sys.stdin.fileno())))
    elif len(text) > MAX_FIELD_CHARS:
        raise _too_long()
    changes = whole_text(in_language(best(), language), text)
    if as_json:
        print_json(
            [{"word": one.word, "char_start": one.char_start, "char_end": one.char_end} for one in changes.words]
        )
        return
    for one in changes.words:
        print_line(f"{one.char_start}-{one.char_end}\t{one.word}")
    for span in changes.unsupported:
        print_line(f"left out: {span.char_start}-{span.char_end}: {span.why}", err=True)


def _bounded(arrivals: Iterable[Arrival]) -> Iterator[Arrival]:
    chars = 0
    for one in arrivals:
        chars += len(one.text)
        if chars > MAX_FIELD_CHARS:
            raise _too_long()
        yield one


def _too_long() -> BadText:
    return BadText(f"a text holds at most {MAX_FIELD_CHARS:,} characters", "give a shorter one")
