"""Opens utterances off the event loop, with the credit that the settings allow."""

import asyncio
import math
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial

from studio.core.cards import Card, parse_voice
from studio.core.errors import BadMessage
from studio.core.options import parse_options
from studio.core.ports import Engine, SpeakRequest, Utterance
from studio.markup.parts import open_marked
from studio.serve.live import protocol as wire
from studio.serve.live.in_turn import in_turn
from studio.serve.live.stream import UtteranceStream
from studio.serve.settings import ServeSettings
from studio.serve.trace_store import TraceStore

_LOADER = ThreadPoolExecutor(1, thread_name_prefix="loading")  # an engine loads one voice at a time


async def open_stream(
    message: wire.Open,
    engine: Engine,
    trace_store: TraceStore,
    settings: ServeSettings,
    *,
    client: str,
    is_guest: bool = False,
    revises: bool = True,
    via: tuple[str, ...] = (),
) -> UtteranceStream:
    """Open an utterance; its stream is not started yet.

    Args:
        client: the network address of the caller.
        is_guest: leaves one slot (of several) and half of the queue to others.
        revises: whether edits of a keyboard revise text that was sent and not yet played.
        via: ids of the systems through which the request came.

    Raises:
        BadMessage: the credit is above the limit, or a keyboard's text has markup.
        BadVoice, BadOption, Busy, LeadsBack: as ``Engine.open``.
    """
    if message.source == "keyboard" and message.markup != "plain":
        raise BadMessage("edits refer to the text as typed", "leave 'markup' out, or set 'source' to 'stream'")
    voice, _, written = message.voice.partition("?")  # name:speaker?language=fr
    card, _ = parse_voice(voice, {card.name: card for card in engine.cards()})
    named = parse_options(card.options, written.split("&")) if written else {}
    credit_samples = _credit_samples(message, card, settings)
    request = SpeakRequest(
        voice=voice,
        seed=message.seed,
        temperature=message.temperature,
        options={**named, **message.options},
        credit_samples=credit_samples,
        is_guest=is_guest,
        may_wait=message.wait,
        client=client,
        via=via,
    )
    opening = partial(open_marked, engine, request, message.markup, message.speed)
    utterance = await _open_in_thread(engine, card.name, request.client, opening)
    try:
        return UtteranceStream(
            message,
            utterance,
            credit_samples,
            trace_store=trace_store,
            settings=settings,
            revises=revises,
            owner=client,
        )
    except BaseException:
        utterance.cancel()
        raise


def _credit_samples(message: wire.Open, card: Card, settings: ServeSettings) -> int:
    credit_ms = settings.credit_ms if message.credit_ms is None else message.credit_ms
    if credit_ms > settings.credit_cap_ms:
        raise BadMessage(f"'credit_ms' of 'open' is {credit_ms:g}", f"ask for 50 to {settings.credit_cap_ms}")
    least = card.frame_samples
    if message.speed != 1.0:  # a stretcher buffers audio, and sends it if the voice has credit for over two frames
        least = math.ceil((3 * card.frame_samples + card.sample_rate_hz // 8) / message.speed)
    return max(least, round(credit_ms * card.sample_rate_hz / 1000))


async def _open_in_thread(engine: Engine, voice: str, client: str, open_: Callable[[], Utterance]) -> Utterance:
    """Open off the event loop: a loaded voice never waits for one that is being loaded."""
    if engine.is_loaded(voice):
        return await in_turn(client, open_, lambda opened: opened.cancel())
    opening = asyncio.get_running_loop().run_in_executor(_LOADER, open_)
    try:
        return await asyncio.shield(opening)
    except asyncio.CancelledError:
        opening.add_done_callback(_cancel_opened)
        raise


def _cancel_opened(opening: asyncio.Future[Utterance]) -> None:
    """Free the slot of an utterance whose client has left."""
    if not opening.cancelled() and opening.exception() is None:
        opening.result().cancel()
