"""Opening utterances off the event loop: who opens a voice that is there never waits for one that is being loaded."""

import asyncio
from concurrent.futures import ThreadPoolExecutor

from studio.core.ports import Engine, SpeakRequest, Utterance

_OPENERS = ThreadPoolExecutor(4, thread_name_prefix="opening")
_LOADER = ThreadPoolExecutor(1, thread_name_prefix="loading")  # an engine loads one voice at a time


def opened(engine: Engine, voice: str, request: SpeakRequest) -> "asyncio.Future[Utterance]":
    """What ``engine.open`` will answer; a voice that is not loaded yet may take seconds.

    Args:
        voice: the name of the voice that the request asks for, without a speaker.
    """
    threads = _OPENERS if engine.is_loaded(voice) else _LOADER
    return asyncio.get_running_loop().run_in_executor(threads, engine.open, request)
