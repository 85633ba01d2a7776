"""The tool ``speak`` for agents: the Model Context Protocol over HTTP, at the address of Gradio's own servers.

Gradio's MCP server calls the app over its network address, without the studio's key, so this one takes its place.
"""

import base64
import json
import logging
from typing import Any

import numpy as np
from mcp.server import MCPServer
from mcp.server.mcpserver import Context
from mcp.server.mcpserver.exceptions import ToolError
from mcp.server.transport_security import TransportSecuritySettings
from mcp.types import AudioContent, CallToolResult, TextContent
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.routing import Route

from studio.core.clips import wav_bytes
from studio.core.errors import StudioError
from studio.core.folders import without_folders
from studio.markup import Markup
from studio.serve.adapters.pieces import MARKUP, address_of_sound, speak_whole
from studio.serve.adapters.speech import SpeechRequests
from studio.serve.adapters.voices import DEFAULT, addresses
from studio.serve.middleware.bodies import MAX_BODY_BYTES
from studio.ui.gradio_middleware import MCP

MAX_INLINE_BYTES = 2 * 1024 * 1024  # of sound within an answer; longer speech is at its address


def build_mcp(requests: SpeechRequests) -> Starlette:
    """The app with the route ``MCP``, without sessions; Host and Origin are checked before it."""
    root = logging.getLogger()
    handlers, level = [*root.handlers], root.level
    server = MCPServer("streaming-tts-studio")
    root.handlers[:] = handlers  # the package configures logging for the whole process
    root.setLevel(level)

    async def speak(
        text: str, voice: str = DEFAULT, markup: Markup = MARKUP, *, context: Context[Any, Request]
    ) -> CallToolResult:
        request = context.request_context.request
        assert request is not None, "it comes over HTTP"
        try:
            spoken = await speak_whole(requests, request, text, voice, markup)
        except StudioError as error:
            raise ToolError(without_folders(str(error))) from error
        duration_s = round(len(spoken.pcm) / 2 / spoken.rate_hz, 3)
        report = {"url": address_of_sound(request, spoken.token), "duration_s": duration_s, "words": [*spoken.words]}
        content: list[Any] = [TextContent(type="text", text=json.dumps(report))]
        if len(spoken.pcm) <= MAX_INLINE_BYTES:
            wav = wav_bytes(np.frombuffer(spoken.pcm, "<i2"), spoken.rate_hz, spoken.comment)
            content.append(
                AudioContent(type="audio", data=base64.b64encode(wav).decode("ascii"), mime_type="audio/wav")
            )
        return CallToolResult(content=content, structured_content=report)

    voices = ", ".join([DEFAULT, *addresses(requests.engine.cards())])
    server.add_tool(
        speak,
        description="Speak a text of at most 4,096 characters. Answers with a WAV file, its address, and the words "
        "with the seconds in which they are spoken. markup is what the text is written in; breaks is plain text with "
        f"<break time='1s'/>. Voices: {voices}.",
    )
    app = server.streamable_http_app(
        streamable_http_path=MCP,
        json_response=True,
        stateless_http=True,
        max_request_body_size=MAX_BODY_BYTES,
        transport_security=TransportSecuritySettings(enable_dns_rebinding_protection=False),
    )
    [route] = app.routes
    assert isinstance(route, Route), "the package has one route"
    app.routes.append(Route(MCP + "/", route.endpoint))  # the address that Gradio's clients get
    return app
