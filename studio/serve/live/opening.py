"""Opening utterances off the event loop: who opens a voice that is there never waits for one that is being loaded."""

import asyncio
from concurrent.futures import ThreadPoolExecutor
from weakref import WeakKeyDictionary

from studio.core.ports import Engine, SpeakRequest, Utterance

_OPENERS = ThreadPoolExecutor(4, thread_name_prefix="opening")
_LOADER = ThreadPoolExecutor(1, thread_name_prefix="loading")  # an engine loads one voice at a time
_there: WeakKeyDictionary[Engine, set[str]] = WeakKeyDictionary()  # voices that have been opened, of each engine


def opened(engine: Engine, voice: str, request: SpeakRequest) -> "asyncio.Future[Utterance]":
    """What ``engine.open`` will answer; a voice that was never opened here may take seconds.

    Args:
        voice: the name of the voice that the request asks for, without a speaker.
    """
    there = _there.setdefault(engine, {engine.cards()[0].name})  # the default is loaded before anybody comes

    def first() -> Utterance:
        utterance = engine.open(request)
        there.add(voice)
        return utterance

    loop = asyncio.get_running_loop()
    if voice in there:
        return loop.run_in_executor(_OPENERS, engine.open, request)
    return loop.run_in_executor(_LOADER, first)
