"""The API page: a voice speaks a text, and Gradio's clients call the same functions by name.

``/speak`` answers with an audio file and the words with their times; ``/speak_stream`` yields pieces of the sound as
they are made. The file is the utterance's trace, which has its own route and limits: Gradio stores nothing.
"""

import asyncio
import base64
import html
from collections.abc import AsyncGenerator
from typing import Any

import gradio as gr
from starlette.requests import HTTPConnection

from studio.core import events as ev
from studio.core.errors import BadFile, BadText, StudioError
from studio.core.folders import without_folders
from studio.serve.adapters.alignment import Alignment
from studio.serve.adapters.speech import MAX_INPUT_CHARS, Speech, SpeechRequests
from studio.serve.adapters.validation import spoken_text
from studio.serve.adapters.voices import DEFAULT, addresses, find_voice

EXAMPLE = "Speech starts before the text is finished."
_PIECE_S = 0.25  # of sound in one output of a stream
_MAX_VOICE_CHARS = 200


def build(requests: SpeechRequests) -> None:
    """Build the page in the surrounding Blocks."""
    shown = ", ".join([DEFAULT, *addresses(requests.engine.cards())])

    async def speak(text: str, voice: str = DEFAULT, request: gr.Request | None = None) -> tuple[dict, dict]:
        """Speak a text.

        Args:
            text: what is spoken, at most 4,096 characters; Markdown is not read aloud.
            voice: a voice, a speaker, or voice:speaker.

        Returns:
            the sound, a WAV file; and its length, rate and words with the seconds in which they are spoken.
        """
        assert request is not None, "Gradio passes the request"
        told = await _spoken(requests, text, voice, request)
        address = f"{_root(request)}traces/{told.pop('token')}.wav"
        # A stream to Gradio, so that it neither copies the file nor keeps it.
        return {"path": address, "url": address, "is_stream": True, "meta": {"_type": "gradio.FileData"}}, told

    async def speak_stream(
        text: str, voice: str = DEFAULT, request: gr.Request | None = None
    ) -> AsyncGenerator[dict, None]:
        """Speak a text, and send the sound as it is made.

        Args:
            text: what is spoken, at most 4,096 characters; Markdown is not read aloud.
            voice: a voice, a speaker, or voice:speaker.

        Returns:
            pieces of the sound: base64 of 16-bit mono samples (pcm), their rate and first sample, and ended words.
        """
        assert request is not None, "Gradio passes the request"
        async for piece in _pieces(requests, text, voice, request):
            yield piece

    async def show(text: str, voice: str, request: gr.Request) -> str:
        told = await _spoken(requests, text, voice, request)
        words = " ".join(
            f"<span>{html.escape(one['word'])} <i>{one['start_s']:.2f}</i></span>" for one in told["words"]
        )
        return f'<audio controls autoplay src="traces/{told["token"]}.wav"></audio><p class="muted">{words}</p>'

    with gr.Column(elem_classes="owner"):
        gr.HTML("<h1>API</h1>", apply_default_css=False)
        gr.HTML(
            "<p>Gradio's clients and agents call <code>/speak</code> and <code>/speak_stream</code> of this server: "
            "“Use via API” at the foot of the page has examples.</p>",
            apply_default_css=False,
        )
        text = gr.Textbox(EXAMPLE, label="Text", lines=3, max_length=MAX_INPUT_CHARS)
        voice = gr.Textbox(DEFAULT, label="Voice", info=shown, max_length=_MAX_VOICE_CHARS)
        button = gr.Button("Speak", variant="primary")
        result = gr.HTML("", apply_default_css=False)
    limits: dict[str, Any] = {"concurrency_limit": 16, "concurrency_id": "speech"}
    button.click(show, [text, voice], [result], api_visibility="private", **limits)
    gr.api(speak, api_name="speak", **limits)
    gr.api(speak_stream, api_name="speak_stream", **limits)


async def _spoken(requests: SpeechRequests, text: str, voice: str, request: gr.Request) -> dict[str, Any]:
    """The words of a speech that has ended, and the token of its trace."""
    words: list[dict[str, Any]] = []
    end: dict[str, Any] = {}
    async for piece in _pieces(requests, text, voice, request):
        words += piece["words"]
        end = piece
    samples = end["sample"] + len(base64.b64decode(end["pcm"])) // 2
    told = {"duration_s": round(samples / end["rate_hz"], 3), "rate_hz": end["rate_hz"], "words": words}
    return told | {"token": end["token"]}


async def _pieces(
    requests: SpeechRequests, text: str, voice: str, request: gr.Request
) -> AsyncGenerator[dict[str, Any], None]:
    """The sound in pieces, each with the words that ended in it; the last one has the token of the trace."""
    speech: Speech | None = None
    try:
        if len(text) > MAX_INPUT_CHARS:
            raise BadText(f"the text has {len(text)} characters", f"give 1 to {MAX_INPUT_CHARS}")
        card, address = find_voice(voice[:_MAX_VOICE_CHARS], "", requests.engine.cards())
        caller = HTTPConnection({**request.request.scope, "state": {}})  # the call has been answered
        speech = await requests.open(caller, address, spoken_text(text, "markdown"))
        rate_hz, alignment = card.sample_rate_hz, Alignment()
        piece: dict[str, Any] = {"rate_hz": rate_hz, "sample": 0, "words": []}
        sound, sample = bytearray(), 0
        async for event in speech.events():
            if isinstance(event, ev.Audio):
                sound += event.pcm.astype("<i2", copy=False).tobytes()
            for token in alignment.add(event):
                edges = {"start_s": round(token.start / rate_hz, 3), "end_s": round(token.end / rate_hz, 3)}
                piece["words"].append({"word": token.text.strip(), **edges})
            if len(sound) >= 2 * _PIECE_S * rate_hz:
                yield {**piece, "pcm": base64.b64encode(sound).decode("ascii")}
                sample += len(sound) // 2
                piece, sound = {"rate_hz": rate_hz, "sample": sample, "words": []}, bytearray()
        ended, token, speech = requests.close(speech), speech.trace_token, None
        await asyncio.shield(ended)  # the trace is stored
        if not token:
            raise BadFile("the sound could not be stored", "the server's log says why")
        yield {**piece, "pcm": base64.b64encode(sound).decode("ascii"), "token": token}
    except StudioError as error:
        raise gr.Error(without_folders(str(error)), print_exception=False) from error
    finally:
        if speech is not None:
            requests.close(speech)


def _root(request: gr.Request) -> str:
    """The address of the server as the caller knows it; its Host header has been checked."""
    return str(request.request.base_url).rstrip("/") + "/"
