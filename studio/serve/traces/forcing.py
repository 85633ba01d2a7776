"""Recordings of the caller's own sent through a voice from the Inspect page: teacher forcing over HTTP.

What comes of it lies on the shelf of recent traces, as an utterance does, under a name that cannot be guessed.
"""

import json
from collections.abc import Callable
from dataclasses import replace
from importlib.util import find_spec
from typing import Annotated, Any, cast
from urllib.parse import unquote

from fastapi import Body, FastAPI, Header, Request
from fastapi.responses import Response

from studio.core.clips import read_wav
from studio.core.errors import BadFile, BadMessage, BadText
from studio.core.ports import Engine
from studio.core.traces.forced import MAX_FORCED_S, Forces, Recording, Unable
from studio.core.traces.textgrid import MAX_BYTES
from studio.inspection.recordings import ALIGNER, by_aligner, by_textgrid
from studio.serve.door.addresses import address_of
from studio.serve.door.bodies import FileRoute
from studio.serve.live import protocol as wire
from studio.serve.refusals import private_json
from studio.serve.traces.inspection import MAX_FILE_BYTES, MAX_TEXT_CHARS, MEDIA_TYPE, Views, sent, while_asked
from studio.serve.traces.shelf import TraceShelf

FORCE, VOICES = "/inspect/force", "/inspect/voices"
FORCE_FILES = {FORCE: FileRoute(MAX_FILE_BYTES)}
MAX_ALIGNED_S = 120.0  # an aligner cannot be stopped in the middle
MAX_OPTIONS_CHARS = 2_000
_TEXTGRID = "the TextGrid"
_OPTIONS = 'write them by name, as {"m": 3}'


class Sending:
    """Sends recordings through voices; the engine takes one at a time, and none beside an utterance's attention."""

    def __init__(self, engine: Engine, shelf: TraceShelf, views: Views) -> None:
        self._engine, self._shelf, self._views = engine, shelf, views

    def voices(self) -> dict[str, Any]:
        """The voices that take recordings, as ``/api/voices`` tells them, and the aligner where there is one.

        ``families`` are theirs; None where the engine does not know.
        """
        aligner = ALIGNER if find_spec(ALIGNER) else ""
        if not isinstance(self._engine, Forces):
            return {"voices": [], "families": None, "aligner": aligner}
        cards = self._engine.forcible()
        families = sorted({card.family for card in cards})
        return {"voices": [wire.card_summary(card) for card in cards], "families": families, "aligner": aligner}

    def sent(self, read: Callable[[], Recording], voice: str, owner: str, wanted: Callable[[], bool]) -> Response:
        """The token of the trace that a recording became; ``owner`` is whose share of the shelf it is.

        Raises:
            BadMessage: the recording, its text or its TextGrid is not what it should be.
            Unable: this engine, or the voice's family, takes none.
            BadVoice, BadText, Busy, Left, NeedsPackage, NotStored.
        """
        if not isinstance(self._engine, Forces):
            raise Unable("this server's engine takes no recordings", "`studio force` does")
        with sent():
            with self._views.place():
                recording = read()
            trace = self._engine.force(replace(recording, voice=voice), wanted)
        return private_json({"trace": self._shelf.put(trace, owner)})


def add_forcing(app: FastAPI, sending: Sending) -> None:
    """Add the routes."""

    @app.get(VOICES)
    async def voices() -> Response:
        return private_json(sending.voices())

    @app.post(FORCE)
    async def force(
        request: Request,
        body: Annotated[bytes, Body(media_type=MEDIA_TYPE)] = b"",
        x_studio_text: Annotated[str, Header(max_length=MAX_TEXT_CHARS)] = "",
        x_studio_voice: Annotated[str, Header(max_length=200)] = "",
        x_studio_placed_by: Annotated[str, Header(max_length=40)] = "",
        x_studio_textgrid_bytes: Annotated[int, Header(ge=0, le=MAX_BYTES)] = 0,
        x_studio_options: Annotated[str, Header(max_length=MAX_OPTIONS_CHARS)] = "",
    ) -> Response:
        def read() -> Recording:
            options = read_options(unquote(x_studio_options))
            found = read_recording(body, unquote(x_studio_text), x_studio_textgrid_bytes, x_studio_placed_by)
            return replace(found, options=options)

        voice, owner = unquote(x_studio_voice), address_of(request)
        return await while_asked(request, lambda wanted: sending.sent(read, voice, owner, wanted))


def read_options(text: str) -> dict[str, Any]:
    """The family's options by name, as a JSON object; the family looks at what they say. Raises BadMessage."""
    try:
        options = json.loads(text or "{}")
    except (ValueError, RecursionError) as error:
        raise BadMessage("the options are no JSON", _OPTIONS) from error
    if not isinstance(options, dict):
        raise BadMessage("the options are no JSON object", _OPTIONS)
    return cast("dict[str, Any]", options)


def read_recording(body: bytes, text: str, textgrid_bytes: int, placed_by: str) -> Recording:
    """A WAV, before which its TextGrid may stand.

    Args:
        text: what it says, where there is no TextGrid.
        textgrid_bytes: of the body, the first ones.
        placed_by: the aligner's name, or nothing where the voice itself is to find the words' ends.

    Raises:
        BadFile: it is no WAV, too long, or no TextGrid; or the aligner finds another text.
        BadOption: a TextGrid and an aligner are both to place its words.
        BadText: its text is not known.
        BadMessage: it is to be placed by something else.
    """
    if placed_by not in ("", ALIGNER):
        raise BadMessage(f"nothing here is called {placed_by!r:.40}", f"words are placed by {ALIGNER}, or by the voice")
    pcm, rate_hz = read_wav(body[textgrid_bytes:])
    most_s = MAX_ALIGNED_S if placed_by else MAX_FORCED_S
    if len(pcm) > most_s * rate_hz:
        raise BadFile(f"the recording lasts {len(pcm) / rate_hz:.0f} s", f"give at most {most_s:.0f} s")
    if not len(pcm):
        raise BadFile("the WAV holds no samples", "give one that does")
    if textgrid_bytes:
        recording = by_textgrid(pcm, rate_hz, body[:textgrid_bytes], _TEXTGRID)
    elif text.strip():
        recording = Recording(pcm, rate_hz, text=text)
    else:
        raise BadText("what the recording says is not known", "write its text, or give its TextGrid")
    return by_aligner(recording) if placed_by else recording
