"""A whole text as pieces of sound with the words that ended in them; its trace is stored before the last one."""

import asyncio
from collections.abc import AsyncGenerator
from dataclasses import dataclass, replace
from typing import Annotated, TypedDict

from pydantic import BaseModel, ConfigDict, Field
from starlette.requests import HTTPConnection

from studio.core import events as ev
from studio.core.errors import BadFile
from studio.core.speakers import sound_comment
from studio.markup import Markup
from studio.serve.adapters.alignment import AlignedToken, Alignment
from studio.serve.adapters.speech import MAX_INPUT_CHARS, Speech, SpeechRequests
from studio.serve.adapters.validation import validated
from studio.serve.adapters.voices import find_voice
from studio.serve.live.protocol import Text

MARKUP: Markup = "markdown"  # where a caller does not say what the text is written in
_PIECE_S = 0.25


class SpeakArguments(BaseModel):
    """What a caller asks for."""

    model_config = ConfigDict(strict=True)
    text: Annotated[Text, Field(max_length=MAX_INPUT_CHARS)]
    voice: Annotated[str, Field(max_length=200)]
    markup: Markup


class WordTime(TypedDict):
    """A word as written, and when it is spoken."""

    word: str
    start_s: float
    end_s: float


def word_time(token: AlignedToken, samples_per_s: float) -> WordTime:
    """A token of an alignment in seconds, without what was not spoken before it."""
    start_s, end_s = (round(edge / samples_per_s, 3) for edge in (token.start, token.end))
    return {"word": token.token, "start_s": start_s, "end_s": end_s}


@dataclass(frozen=True)
class SpokenPiece:
    """Samples of 16 bit from ``sample`` on.

    Attributes:
        token: of the trace, in the last piece.
        comment: for the metadata of a file of all pieces, in the last one.
    """

    pcm: bytes
    sample: int
    rate_hz: int
    words: tuple[WordTime, ...]
    token: str = ""
    comment: str = ""


async def speak_pieces(
    requests: SpeechRequests, caller: HTTPConnection, text: str, voice: str, markup: Markup = MARKUP
) -> AsyncGenerator[SpokenPiece, None]:
    """Speak a text written in ``markup``; to be closed.

    It ends at once where the caller's connection is lost.

    Raises:
        BadMessage: an argument is none, or the text is too long.
        BadText: the text holds nothing to speak.
        BadFile: the trace could not be stored.
        StudioError: as ``find_voice`` and ``SpeechRequests.open``.
    """
    asked = validated(SpeakArguments, {"text": text, "voice": voice, "markup": markup})
    card, address = find_voice(asked.voice, "", requests.engine.cards(), requests.aliases)
    speech: Speech | None = await requests.open(caller, address, asked.text, asked.markup)
    try:
        rate_hz, alignment = card.sample_rate_hz, Alignment()
        pcm, sample, words, comment = bytearray(), 0, list[WordTime](), ""
        async for event in speech.events():
            if isinstance(event, ev.Ready):
                comment = sound_comment({**speech.provenance, "voice": event.voice, "speaker": event.speaker})
            if isinstance(event, ev.Audio):
                pcm += event.pcm.astype("<i2", copy=False).tobytes()
            for token in alignment.add(event):
                words.append(word_time(token, rate_hz))
            if len(pcm) >= 2 * _PIECE_S * rate_hz:
                yield SpokenPiece(bytes(pcm), sample, rate_hz, tuple(words))
                sample += len(pcm) // 2
                pcm.clear()
                words.clear()
        ended, trace, speech = requests.close(speech), speech.trace_token, None
        await asyncio.shield(ended)
        if not trace:
            raise BadFile("the sound could not be stored", "the server's log says why")
        yield SpokenPiece(bytes(pcm), sample, rate_hz, tuple(words), trace, comment)
    finally:
        if speech is not None:
            requests.close(speech)


async def speak_whole(
    requests: SpeechRequests, caller: HTTPConnection, text: str, voice: str, markup: Markup = MARKUP
) -> SpokenPiece:
    """All pieces as one. Raises as ``speak_pieces``."""
    pieces = [piece async for piece in speak_pieces(requests, caller, text, voice, markup)]
    words = tuple(word for piece in pieces for word in piece.words)
    return replace(pieces[-1], pcm=b"".join(piece.pcm for piece in pieces), sample=0, words=words)


def address_of_sound(caller: HTTPConnection, token: str) -> str:
    """The address of a trace's WAV as the caller knows the server; its Host header has been checked."""
    return f"{str(caller.base_url).rstrip('/')}/traces/{token}.wav"
