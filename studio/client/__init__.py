"""Clients of a running studio, on this or another machine: they send text piece by piece and receive events and sound.

    with Client("http://127.0.0.1:7860") as client:
        for event in client.speak("Good morning."):
            if isinstance(event, Audio):
                play(event.pcm)

``AsyncClient`` is the same for asyncio. Events are those of ``studio.core.events``; docs/protocol.md describes when
each is sent. Requires the package websockets.
"""

from studio.client.aio import AsyncClient, AsyncUtterance
from studio.client.messages import Refused, ServerGone
from studio.client.sync import Client, Utterance

__all__ = ["AsyncClient", "AsyncUtterance", "Client", "Refused", "ServerGone", "Utterance"]
