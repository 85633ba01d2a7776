"""The socket of ``/mos/live``: a rater types to a voice that nobody names, then the other one hears the same keys.

What reaches the rater's browser is sound in packets of one size, the keys as they come again, and when it is over:
no voice, no option, no event of the engine's, and no message whose size or kind would tell the two apart.
"""

import asyncio
import json
import logging
import re
from collections.abc import Collection
from dataclasses import replace
from typing import Any

from fastapi import FastAPI
from starlette.websockets import WebSocket

from studio.core import events as ev
from studio.core.cards import parse_voice, voice_address
from studio.core.errors import BadMessage, BadOption, BadText, BadVoice, Busy, StudioError
from studio.core.ports import Engine
from studio.core.traces.trace import open_trace
from studio.measure.latency import ladder
from studio.mos.rating.forgetting import sweep_takes, takes_folder
from studio.mos.rating.takes import AGAIN, MAX_LATE_MS, TYPED, Made, Miss, Typing
from studio.mos.service import Listening
from studio.serve.drain import Drain
from studio.serve.live import protocol as wire
from studio.serve.live.admission import admit
from studio.serve.live.socket import RETRY_MS, Session
from studio.serve.live.stream import Outgoing, Stream
from studio.serve.mos.door import Door
from studio.serve.mos.live_take import LiveTake, late_ms, level
from studio.serve.traces.shelf import TraceShelf
from studio.settings import ServeSettings

CREDIT_MS = 2000.0
LEAD_S = 0.6  # from the second voice's opening to the first key: the listener's player is ready by then
ENTER_S = 10.0  # until a rater must have said who they are
QUIET_MS = 60_000.0  # a rater who neither types nor listens gives the place back
TAKE_S = 300.0  # and one who has had it for so long, whatever they do
_TRIAL = re.compile("[0-9a-f]{8,64}")
_TAKE = {"slot": wire.whole(TYPED, AGAIN), "utterance": wire.whole(0, wire.MAX_U32)}

log = logging.getLogger("studio.serve")


class Mute(StudioError):
    """A voice of the test cannot speak; a rater is not told which, nor why."""

    code = "mute"


class LiveSession(Session):
    """One rater's socket; at most one voice speaks at a time, and what was typed stays said, for both voices alike."""

    revises, is_guest = False, True

    def __init__(
        self,
        websocket: WebSocket,
        engine: Engine,
        shelf: TraceShelf,
        settings: ServeSettings,
        listening: Listening,
        door: Door,
        others: Collection["LiveSession"],
    ) -> None:
        quiet_ms = min(QUIET_MS, settings.quiet_close_ms)
        super().__init__(
            websocket, engine, shelf, replace(settings, max_utterances_per_socket=1, quiet_close_ms=quiet_ms)
        )
        self._listening, self._door, self._others = listening, door, others
        self.rater: int | None = None
        self._takes: dict[int, LiveTake] = {}

    async def _greet(self) -> None:
        """Nothing: who it is comes first, and the voices are nobody's business here."""

    def idle_s(self) -> float:
        """For how long no take was asked for or made."""
        return 0.0 if self._takes else super().idle_s()

    def _may_idle_s(self) -> float:
        return super()._may_idle_s() if self.rater is not None else ENTER_S

    async def _leave(self) -> None:
        for take in self._takes.values():
            take.stop()
        await super()._leave()

    # --- from the rater ------------------------------------------------------------------------------

    async def _obey(self, data: dict[str, Any]) -> None:
        kind = data.get("type")
        if kind == "enter":
            self.rater = self._door.rater(self._websocket, str(data.get("token"))[:400])
            self._is_used = True
            await self._send(json.dumps({"type": "entered"}))
        elif self.rater is None:
            raise BadMessage("nobody has entered", "send 'enter' with the rater's token first")
        elif kind == "take":
            await self._begin_take(data, self.rater)
        elif kind in ("edit", "end", "cancel", "played"):
            await self._typed(wire.parse(data))
        else:
            raise BadMessage(f"no message is of type {str(kind)[:40]!r}", "known are take, edit, end, cancel, played")

    async def _begin_take(self, data: dict[str, Any], rater: int) -> None:
        for name, check in _TAKE.items():
            if allowed := check(data.get(name)):
                raise BadMessage(f"{name!r} of 'take' is not allowed", f"give {allowed}")
        trial, slot, number = data.get("trial"), int(data["slot"]), int(data["utterance"])
        if not isinstance(trial, str) or not _TRIAL.fullmatch(trial):
            raise BadMessage("'trial' of 'take' is not allowed", "give the id of a screen")
        if self._streams or number in self._takes:
            raise Busy("a voice is speaking", "let it finish, or cancel it")
        for other in [*self._others]:  # whoever types in two tabs holds one place
            if other is not self and other.rater == rater:
                await other.hush()
        part = await asyncio.to_thread(self._listening.part, rater, trial, slot)
        take = LiveTake(trial, slot, part, 10.0 ** (part.gain_db / 20.0))
        said, cards = part.said_by, self._engine.cards()
        self._takes[number] = take
        try:
            address = voice_address(said.voice, said.speaker, cards)
            take.rate_hz = parse_voice(address, {card.name: card for card in cards})[0].sample_rate_hz
            await self._open(
                wire.Open(
                    utterance=number,
                    voice=address,
                    seed=said.seed,
                    temperature=said.temperature,
                    options=said.options,
                    source="keyboard",
                    credit_ms=CREDIT_MS,
                )
            )
        except (BadVoice, BadOption) as error:
            del self._takes[number]
            log.warning("a voice of a listening test cannot speak: %s", error)
            await self._missed(take, rater, "mute")
            raise Mute("this voice cannot speak now", "tell the people who run this test") from error
        except StudioError:
            del self._takes[number]
            raise
        take.limit = asyncio.create_task(self._end_late(take))
        if part.typing is not None:
            take.replay = asyncio.create_task(self._type_again(number, take, part.typing))

    async def _end_late(self, take: LiveTake) -> None:
        """A place is for others, too."""
        await take.opened.wait()
        await asyncio.sleep(TAKE_S)
        log.warning("a take of a listening test was broken off after %.0f s", TAKE_S)
        await self.hush()

    async def _typed(self, message: wire.Message) -> None:
        take = self._takes.get(message.utterance)
        if take is not None and isinstance(message, wire.Edit | wire.End):
            if not take.opened.is_set():  # else the wait for a place would be in the time between two keys
                raise BadMessage("this voice has no place yet", "wait for 'opened'")
            if take.part.typing is not None:
                raise BadMessage("this voice hears what was typed before", "listen")
            if isinstance(message, wire.Edit) and not message.remove and not message.insert:
                return  # it changes nothing, and would stand for a pause
            try:
                take.note(message, asyncio.get_running_loop().time())
            except BadText:
                await self.hush()  # the voice would be out of step with the field from here on
                raise
        elif take is not None and isinstance(message, wire.Cancel) and take.replay is not None:
            take.replay.cancel()
        await self._dispatch(message)

    async def _type_again(self, number: int, take: LiveTake, typing: Typing) -> None:
        """Give the second voice every key at its time, and show it to the rater."""
        await take.opened.wait()
        began_s = asyncio.get_running_loop().time() + LEAD_S
        try:
            for stroke in typing.strokes:
                await _until(began_s + stroke.at_ms / 1000.0)
                shown = {"at": stroke.at, "remove": stroke.remove, "insert": stroke.insert}
                await self._dispatch(wire.Edit(utterance=number, **shown))
                if not stroke.is_pause:
                    await self._send(json.dumps({"type": "typed", "utterance": number} | shown, ensure_ascii=False))
            await _until(began_s + typing.end_ms / 1000.0)
            await self._dispatch(wire.End(utterance=number))
        except StudioError as error:  # the voice ended by itself: its last word says so
            log.warning("the second voice could not be given every key: %s", error)
            await self.hush()

    def _begin(self, stream: Stream) -> None:
        """Pauses of the typing are the first voice's, for both: one near the limit would come or not by chance."""
        take, loop = self._takes[stream.number], asyncio.get_running_loop()
        stream.on_pause = (lambda: take.note_pause(loop.time())) if take.part.typing is None else None
        super()._begin(stream)

    # --- to the rater --------------------------------------------------------------------------------

    def _encoded(self, stream: Stream, item: Outgoing) -> list[str | bytes]:
        take = self._takes[stream.number]
        match item:
            case ev.Queued():
                return [json.dumps({"type": "queued", "utterance": stream.number, "ahead": item.ahead})]
            case ev.Ready():
                take.opened.set()
                return [json.dumps({"type": "opened", "utterance": stream.number, "rate_hz": take.rate_hz})]
            case ev.Audio():
                take.samples = item.sample + len(item.pcm)
                return [stream.packet(part) for part in level(item, take.gain)]
            case ev.Cancelled():
                take.is_cancelled = True
                return []
            case ev.Ended():
                take.is_whole = take.samples > 0 and not take.is_cancelled
                return [json.dumps({"type": "ended", "utterance": stream.number, "samples": take.samples})]
            case ev.Failed(code=Busy.code, message=message):  # it waited for a place, in vain
                return [wire.error_message(Busy(message), stream.number, RETRY_MS)]
            case ev.Failed():
                return [wire.error_message(Mute("the voice broke off", "begin again"), stream.number)]
            case ev.Event():
                return []
            case StudioError():
                return [wire.error_message(item, stream.number)]
        raise AssertionError(item)

    async def _farewell(self, stream: Stream, token: str | None) -> str:
        """Keep the take, where it is whole; the rater's page is told what became of it."""
        take = self._takes.pop(stream.number)
        take.stop()
        try:
            if token is not None:
                is_wanted = take.is_whole and not self._gone.is_set()
                measured = await asyncio.to_thread(self._measured, take, token) if is_wanted else None
                trace = await asyncio.to_thread(self._shelf.take, token)
                if measured is not None and self.rater is not None:
                    return await self._kept(stream, take, trace, self.rater, *measured)
            if self.rater is not None and not take.is_cancelled and not self._gone.is_set():
                await self._missed(take, self.rater, "failed")
        except StudioError as error:
            return wire.error_message(error, stream.number)
        except (OSError, ValueError):
            log.exception("a take of a listening test could not be kept")
        return json.dumps({"type": "dropped", "utterance": stream.number})

    def _measured(self, take: LiveTake, token: str) -> tuple[float | None, float]:
        """t5 - t0 of a take, in ms; and by how much late keys told on it."""
        trace = open_trace(self._shelf.path(token))
        latency_ms = ladder(trace).since("t5", "t0")
        if not take.part.trace:
            return latency_ms, 0.0
        return latency_ms, late_ms(trace, open_trace(self._listening.clips.trace_path(take.part.trace)))

    async def _kept(
        self, stream: Stream, take: LiveTake, trace: bytes, rater: int, latency_ms: float | None, late_ms: float
    ) -> str:
        typing = take.part.typing or Typing(take.strokes, take.end_ms or 0.0)
        made = Made(take.trial, take.slot, typing, take.rate_hz, take.samples, latency_ms, late_ms)
        if late_ms > MAX_LATE_MS:
            log.warning("keys told on the second voice by %.0f ms; it has to be heard again", late_ms)
            await self._missed(take, rater, "late", late_ms)
            return json.dumps({"type": "again", "utterance": stream.number})
        await asyncio.wrap_future(await asyncio.to_thread(self._listening.keep_take, rater, made, trace))
        return json.dumps({"type": "kept", "utterance": stream.number, "samples": take.samples})

    async def _missed(self, take: LiveTake, rater: int, why: Miss, late_ms: float | None = None) -> None:
        """Note a play that came to nothing; after some of them the rater may leave the screen out, and is told so."""
        noted = await asyncio.to_thread(self._listening.note_miss, rater, take.trial, take.slot, why, late_ms)
        if await asyncio.wrap_future(noted):
            await self._send(json.dumps({"type": "may_skip"}))


async def _until(due_s: float) -> None:
    await asyncio.sleep(due_s - asyncio.get_running_loop().time())


def add_live(
    app: FastAPI,
    listening: Listening,
    door: Door,
    engine: Engine,
    settings: ServeSettings,
    drain: Drain,
) -> None:
    """Put the raters' socket into an app.

    Raises:
        BadFile: the folder of takes cannot be made.
    """
    sweep_takes(listening.clips)  # what a crash left
    shelf = TraceShelf(takes_folder(listening.clips), settings.max_traces, settings.max_traces_bytes)
    sockets: set[LiveSession] = set()
    drain.watch(sockets)

    @app.websocket("/mos/live")
    async def live(websocket: WebSocket) -> None:
        session = LiveSession(websocket, engine, shelf, settings, listening, door, sockets)
        await admit(websocket, sockets, settings, session)
