"""The API page: a voice speaks a text, and Gradio's clients call the same functions by name.

``/speak`` answers with an audio file and the words with their times; ``/speak_stream`` yields pieces of the sound as
they are made. The file is the WAV of the utterance's trace, which has its own route and limits: Gradio stores nothing.
"""

import base64
import html
from collections.abc import AsyncGenerator, Iterator
from contextlib import aclosing, contextmanager
from typing import Any, get_args

import gradio as gr
from gradio.events import api
from starlette.requests import HTTPConnection

from studio.core.errors import StudioError
from studio.core.folders import without_folders
from studio.markup import Markup
from studio.serve.adapters.pieces import MARKUP, address_of_sound, speak_pieces, speak_whole
from studio.serve.adapters.speech import MAX_INPUT_CHARS, SpeechRequests
from studio.serve.adapters.voices import DEFAULT, addresses

EXAMPLE = "Speech starts before the text is finished."
_MAX_VOICE_CHARS = 200
_LIMITS: dict[str, Any] = {"concurrency_limit": 16, "concurrency_id": "speech"}
_ABOUT = """<h1>API</h1>
<p>Gradio's clients call <code>/speak</code> and <code>/speak_stream</code> of this server, and agents the tool
<code>speak</code> at <code>/gradio_api/mcp</code>. “Use via API” at the foot of the page has examples.</p>"""


def build(requests: SpeechRequests) -> None:
    """Build the page in the surrounding Blocks."""

    async def speak(
        text: str, voice: str = DEFAULT, markup: Markup = MARKUP, request: gr.Request | None = None
    ) -> tuple[dict[str, Any], dict[str, Any]]:
        """Speak a text: a WAV file, and its words with the seconds in which they are spoken.

        Args:
            text: at most 4,096 characters.
            voice: a voice, a speaker, or voice:speaker.
            markup: what the text is written in. Marks, code and reasoning of markdown are not spoken.
        """
        caller = _caller(request)
        with _as_gradio_errors():
            spoken = await speak_whole(requests, caller, text, voice, markup)
        address = address_of_sound(caller, spoken.token)
        report = {"duration_s": round(len(spoken.pcm) / 2 / spoken.rate_hz, 3), "rate_hz": spoken.rate_hz}
        # A stream to Gradio, so that it neither copies the file nor keeps it.
        file = {"path": address, "url": address, "is_stream": True, "meta": {"_type": "gradio.FileData"}}
        return file, {**report, "words": [*spoken.words]}

    async def speak_stream(
        text: str, voice: str = DEFAULT, markup: Markup = MARKUP, request: gr.Request | None = None
    ) -> AsyncGenerator[dict[str, Any], None]:
        """Speak a text and send the sound as it is made: base64 of 16-bit mono samples, and the words that ended.

        Args:
            text: at most 4,096 characters.
            voice: a voice, a speaker, or voice:speaker.
            markup: what the text is written in. Marks, code and reasoning of markdown are not spoken.
        """
        caller = _caller(request)
        with _as_gradio_errors():
            async with aclosing(speak_pieces(requests, caller, text, voice, markup)) as pieces:
                async for piece in pieces:
                    pcm = base64.b64encode(piece.pcm).decode("ascii")
                    report = {"sample": piece.sample, "rate_hz": piece.rate_hz, "words": [*piece.words]}
                    yield {"pcm": pcm, **report}

    async def show(text: str, voice: str, markup: Markup, request: gr.Request) -> str:
        caller = _caller(request)
        with _as_gradio_errors():
            spoken = await speak_whole(requests, caller, text, voice, markup)
        words = " ".join(f"{html.escape(one['word'])} <i>{one['start_s']:.2f}</i>" for one in spoken.words)
        return f'<audio controls autoplay src="traces/{spoken.token}.wav"></audio><p class="muted">{words}</p>'

    with gr.Column(elem_classes="owner", elem_id="api-page"):
        gr.HTML(_ABOUT, apply_default_css=False)
        text = gr.Textbox(EXAMPLE, label="Text", lines=3, max_length=MAX_INPUT_CHARS)
        known = ", ".join([DEFAULT, *addresses(requests.engine.cards())])
        voice = gr.Textbox(DEFAULT, label="Voice", max_length=_MAX_VOICE_CHARS)
        markup = gr.Dropdown([*get_args(Markup)], value=MARKUP, label="Written in")
        # Not as Gradio's info, which is Markdown: speaker names of pulled voices are not trusted.
        gr.HTML(f'<p class="muted">{html.escape(known)}</p>', apply_default_css=False)
        button = gr.Button("Speak", variant="primary")
        result = gr.HTML("", apply_default_css=False)
    button.click(show, [text, voice, markup], [result], api_visibility="private", **_LIMITS)
    api(speak, api_name="speak", **_LIMITS)
    api(speak_stream, api_name="speak_stream", **_LIMITS)


def _caller(request: gr.Request | None) -> HTTPConnection:
    assert request is not None and request.request is not None, "Gradio passes the request"
    return HTTPConnection(request.request.scope)  # with the listener in its state, see QueueCalls


@contextmanager
def _as_gradio_errors() -> Iterator[None]:
    try:
        yield
    except StudioError as error:
        raise gr.Error(without_folders(str(error)), print_exception=False) from error
