"""``studio talk``: a language model speaks while it writes, and receives which of its words were played."""

import os
import select
import signal
import sys
from collections.abc import Callable, Generator, Iterator
from contextlib import closing, contextmanager, nullcontext, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import numpy as np
import typer

from studio.bench.options import Device, Threads, Vocoder, VoiceName, Voices
from studio.commands.common import check_output_file
from studio.core.errors import BadText, StudioError
from studio.core.folders import VOICES
from studio.core.terminal import print_line
from studio.desktop.devices import TO_FILE, open_output, sounddevice_module
from studio.desktop.player import Player

if TYPE_CHECKING:
    from studio.chat.conversation import ChatMessage
    from studio.chat.endpoint import ChatClient
    from studio.chat.speaking import Background, Spoken
    from studio.core.ports import Engine, SpeakRequest

MAX_QUESTION_CHARS = 8_000


def talk(
    llm: Annotated[str, typer.Option(help="Address of an OpenAI-compatible server: http://127.0.0.1:11434/v1.")],
    model: Annotated[str, typer.Option(help="Name of the model there.")],
    voice: VoiceName = "",
    system_prompt: Annotated[
        str | None, typer.Option(help="First message to the model; by default it asks for short plain replies.")
    ] = None,
    key_env: Annotated[str, typer.Option(help="Environment variable with the server's key.")] = "",
    text: Annotated[str, typer.Option(help="One question; without it, a line each from the terminal or a pipe.")] = "",
    out: Annotated[
        Path | None, typer.Option("--out", "-o", help="WAV file of all replies, which are not played then.")
    ] = None,
    seed: Annotated[int, typer.Option(help="Random seed; the same seed and reply give the same samples.")] = 0,
    voices: Voices = VOICES,
    device: Device = "auto",
    vocoder: Vocoder = "",
    threads: Threads = 1,
) -> None:
    """Talk with a language model: its words are spoken as they come. Enter, Esc or Ctrl+C interrupts it."""
    from studio.chat.endpoint import SYSTEM_PROMPT, ChatClient, ChatEndpoint
    from studio.chat.speaking import Background
    from studio.core.cards import parse_voice
    from studio.core.ports import SpeakRequest
    from studio.core.speaking import save_audio
    from studio.systems.combined import all_cards, open_voices
    from studio.text.normalise import best

    if out is None:
        sounddevice_module(TO_FILE)  # fail before anything is asked
    check_output_file(out, "-o", ".wav")
    prompt = SYSTEM_PROMPT if system_prompt is None else system_prompt
    client = ChatClient(ChatEndpoint(llm, model, key_env, prompt))
    card, speaker = parse_voice(voice, all_cards(voices))
    is_dialogue = not text and sys.stdin.isatty()
    questions = [text] if text else _typed_questions() if is_dialogue else map(str.strip, sys.stdin)
    replies: list[Spoken] = []
    with (
        closing(
            open_voices(voices, best(), device, [card.name], threads=threads, vocoder=vocoder, warms_up=True)
        ) as engine,
        closing(Background()) as background,
    ):
        turns = Turns(engine, SpeakRequest(voice=voice, seed=seed), client, background, card.sample_rate_hz)
        if is_dialogue:
            print_line("Type a question. Enter, Esc or Ctrl+C interrupts a reply; Ctrl+D ends.", err=True)
        for question in questions:
            if not question.strip():
                continue
            try:
                replies.append(turns.take(question, plays=out is None, is_dialogue=is_dialogue))
            except StudioError as error:
                if not is_dialogue:
                    raise
                print_line(error, err=True, colour="red")
        background.start(client.close()).result(timeout=10.0)
    if not is_dialogue and not replies:
        raise BadText("no question came", 'give one: --text "Why is the sky blue?", or pipe a line each')
    pcm = np.concatenate([np.zeros(0, np.int16), *(one.pcm for one in replies)])
    if out is not None and len(pcm):
        save_audio(out, pcm, card.sample_rate_hz, {**replies[0].provenance, "voice": card.name, "speaker": speaker})
        print_line(f"{out}: {len(pcm) / card.sample_rate_hz:.2f} s", err=True)
    failures = [one.error for one in replies if one.error is not None]
    if failures and not is_dialogue:
        raise failures[0]


class Turns:
    """A conversation: each turn is a question and its spoken reply."""

    def __init__(
        self, engine: "Engine", request: "SpeakRequest", client: "ChatClient", background: "Background", rate_hz: int
    ) -> None:
        self._engine, self._request, self._client, self._background = engine, request, client, background
        self._rate_hz = rate_hz
        self.messages: list[ChatMessage] = []

    def take(self, question: str, *, plays: bool, is_dialogue: bool) -> "Spoken":
        """Ask, speak the reply, and store the part of it that was heard. Raises StudioError if it cannot be spoken."""
        from studio.chat.conversation import recent
        from studio.chat.speaking import speak_reply

        if len(question) > MAX_QUESTION_CHARS:
            raise BadText(f"the question has {len(question):,} characters", f"ask with at most {MAX_QUESTION_CHARS:,}")
        messages = recent([*self.messages, {"role": "user", "content": question}])
        player = Player(self._rate_hz)
        output = closing(open_output(player, "", TO_FILE)) if plays else nullcontext()
        with output, _interruption(reads_keys=is_dialogue) as is_interrupted:
            spoken = speak_reply(
                self._engine,
                self._request,
                self._client.reply(messages),
                self._background,
                player if plays else Memory(),
                is_interrupted=is_interrupted,
                on_heard=lambda part: print_line(part, end=""),
                plays=plays,
            )
        print_line(" [interrupted]" if spoken.was_interrupted else "")
        print_line(spoken.ladder, err=True)
        if spoken.error is not None and is_dialogue:
            print_line(spoken.error, err=True, colour="red")
        if spoken.text:
            self.messages = [*messages, spoken.message()]
        return spoken


class Memory:
    """A player for output to a file: samples count as played immediately."""

    def __init__(self) -> None:
        self._samples = 0

    def play(self, pcm: np.ndarray) -> None:
        """Count the samples."""
        self._samples += len(pcm)

    def position(self) -> int:
        """All samples."""
        return self._samples

    def stop(self) -> int:
        """All samples."""
        return self._samples


def _typed_questions() -> Iterator[str]:
    """Lines of the terminal, until Ctrl+D or Ctrl+C."""
    with suppress(ImportError):
        import readline  # noqa: F401  # pyright: ignore[reportUnusedImport] - input() edits lines with it
    while True:
        try:
            yield input("> ")
        except (EOFError, KeyboardInterrupt):
            print_line("", err=True)
            return


@contextmanager
def _interruption(*, reads_keys: bool) -> Generator[Callable[[], bool]]:
    """Yield a test whether Ctrl+C, or with ``reads_keys`` Enter or Esc, was pressed; a second Ctrl+C raises."""
    pressed: list[int] = []

    def on_signal(number: int, frame: object) -> None:
        signal.signal(signal.SIGINT, signal.default_int_handler)
        pressed.append(number)

    def is_interrupted() -> bool:
        while reads_keys and select.select([descriptor], [], [], 0.0)[0]:
            key = os.read(descriptor, 64)
            if not key or key[:1] in b"\r\n\x1b":
                pressed.append(0)
                break
        return bool(pressed)

    descriptor = sys.stdin.fileno() if reads_keys else -1
    previous: Any = signal.signal(signal.SIGINT, on_signal)
    try:
        with _single_keys(descriptor) if reads_keys else nullcontext():
            yield is_interrupted
    finally:
        signal.signal(signal.SIGINT, previous)


@contextmanager
def _single_keys(descriptor: int) -> Generator[None]:
    """Let the terminal pass on keys as they are pressed, without echo."""
    import termios
    import tty

    before = termios.tcgetattr(descriptor)
    tty.setcbreak(descriptor)
    try:
        yield
    finally:
        termios.tcsetattr(descriptor, termios.TCSADRAIN, before)
