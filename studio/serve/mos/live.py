"""The socket of ``/mos/live``: a rater types to one unnamed voice, then the typing is replayed to the other.

The rater's browser receives packets of one size, the replayed keys, and the end. It receives no voice, option or engine
event, and no message whose size or kind would distinguish the two voices.
"""

import asyncio
import json
import logging
from collections.abc import Collection
from dataclasses import replace
from typing import Annotated, Any, Literal

from fastapi import FastAPI
from pydantic import BaseModel, ConfigDict, Field
from starlette.websockets import WebSocket

from studio.core import events as ev
from studio.core.cards import parse_voice, voice_address
from studio.core.errors import BadMessage, BadOption, BadText, BadVoice, Busy, StudioError
from studio.core.ports import Engine
from studio.core.traces.trace import open_trace
from studio.measure.latency import ladder
from studio.mos.service import ListeningTests
from studio.mos.sessions.erasure import sweep_takes, takes_folder
from studio.mos.sessions.takes import MAX_LATE_MS, REPLAYED, TYPED, FinishedTake, Miss, Typing
from studio.serve.auth import TokenAuth
from studio.serve.live import protocol as wire
from studio.serve.live.socket import RETRY_MS, SpeakSession
from studio.serve.live.stream import Outgoing, UtteranceStream
from studio.serve.mos.live_take import LiveTake, late_ms, leveled_packets
from studio.serve.server import Drain, admit
from studio.serve.settings import ServeSettings
from studio.serve.trace_store import TraceStore

CREDIT_MS = 2000.0
LEAD_S = 0.6  # from the opening of the second voice to the first key, for the player to get ready
ENTER_S = 10.0  # time limit of a rater's 'enter'
QUIET_MS = 60_000  # without typing or audio for so long, the slot is freed
TAKE_S = 300.0  # time limit of a take

log = logging.getLogger("studio.serve")


class Take(BaseModel):
    """A rater asks for a voice of a screen: that of the first keys, or that of the replay."""

    model_config = ConfigDict(strict=True)
    type: Literal["take"] = "take"
    slot: Annotated[int, Field(ge=TYPED, le=REPLAYED)]
    utterance: wire.U32
    trial: Annotated[str, Field(pattern="^[0-9a-f]{8,64}$", description="the id of a screen")]


class VoiceUnavailable(StudioError):
    """A voice of the test cannot speak. The rater does not learn which, nor why."""

    code = "mute"


class LiveTrialSession(SpeakSession):
    """One rater's socket: one voice at a time, and edits never revise text that was sent, for both voices alike."""

    revises, is_guest = False, True

    def __init__(
        self,
        websocket: WebSocket,
        engine: Engine,
        trace_store: TraceStore,
        settings: ServeSettings,
        listening: ListeningTests,
        auth: TokenAuth,
        others: Collection["LiveTrialSession"],
    ) -> None:
        quiet_ms = min(QUIET_MS, settings.quiet_close_ms)
        super().__init__(
            websocket, engine, trace_store, replace(settings, max_utterances_per_socket=1, quiet_close_ms=quiet_ms)
        )
        self._listening, self._auth, self._others = listening, auth, others
        self.rater: int | None = None
        self._takes: dict[int, LiveTake] = {}

    async def _send_hello(self) -> None:
        """Send nothing: raters do not see the voices."""

    def idle_s(self) -> float:
        """Seconds since the last take; 0 during one."""
        return 0.0 if self._takes else super().idle_s()

    def _idle_limit_s(self) -> float:
        return super()._idle_limit_s() if self.rater is not None else ENTER_S

    async def _clean_up(self) -> None:
        for take in self._takes.values():
            take.stop()
        await super()._clean_up()

    # --- from the rater ------------------------------------------------------------------------------

    async def _handle(self, data: dict[str, Any]) -> None:
        kind = data.get("type")
        if kind == "enter":
            self.rater = self._auth.rater(self._websocket, str(data.get("token"))[:400])
            self._is_used = True
            await self._send(json.dumps({"type": "entered"}))
        elif self.rater is None:
            raise BadMessage("no rater has entered", "send 'enter' with the rater's token first")
        elif kind == "take":
            await self._begin_take(wire.validate(Take, data), self.rater)
        elif kind in ("edit", "end", "cancel", "played"):
            await self._handle_typing(wire.parse(data))
        else:
            raise BadMessage(f"unknown message type {str(kind)[:40]!r}", "known are take, edit, end, cancel, played")

    async def _begin_take(self, message: Take, rater: int) -> None:
        trial, slot, number = message.trial, message.slot, message.utterance
        if self._streams or number in self._takes:
            raise Busy("a voice is speaking", "let it finish, or cancel it")
        for other in [*self._others]:  # a rater with two tabs has one slot
            if other is not self and other.rater == rater:
                await other.cancel_all()
        part = await asyncio.to_thread(self._listening.slot_voice, rater, trial, slot)
        take = LiveTake(trial, slot, part, 10.0 ** (part.gain_db / 20.0))
        voice, cards = part.voice, self._engine.cards()
        self._takes[number] = take
        try:
            address = voice_address(voice.voice, voice.speaker, cards)
            take.rate_hz = parse_voice(address, {card.name: card for card in cards})[0].sample_rate_hz
            await self._open(
                wire.Open(
                    utterance=number,
                    voice=address,
                    seed=voice.seed,
                    temperature=voice.temperature,
                    options=dict(voice.options),
                    source="keyboard",
                    credit_ms=CREDIT_MS,
                )
            )
        except (BadVoice, BadOption) as error:
            del self._takes[number]
            log.warning("a voice of a listening test cannot speak: %s", error)
            await self._report_miss(take, rater, "mute")
            raise VoiceUnavailable(
                "this voice cannot speak now", "report it to the people who run this test"
            ) from error
        except StudioError:
            del self._takes[number]
            raise
        take.limit = asyncio.create_task(self._enforce_limit(take))
        if part.typing is not None:
            take.replay = asyncio.create_task(self._replay_typing(number, take, part.typing))

    async def _enforce_limit(self, take: LiveTake) -> None:
        await take.opened.wait()
        await asyncio.sleep(TAKE_S)
        log.warning("a take of a listening test was cancelled after %.0f s", TAKE_S)
        await self.cancel_all()

    async def _handle_typing(self, message: wire.Message) -> None:
        take = self._takes.get(message.utterance)
        if take is not None and isinstance(message, wire.EditText | wire.End):
            if not take.opened.is_set():  # the wait for a slot would count as time between two keys
                raise BadMessage("this voice has no slot yet", "wait for 'opened'")
            if take.part.typing is not None:
                raise BadMessage("this voice hears what was typed before", "listen")
            if isinstance(message, wire.EditText) and not message.remove and not message.insert:
                return  # an empty edit stands for a pause
            try:
                take.note(message, asyncio.get_running_loop().time())
            except BadText:
                await self.cancel_all()  # the voice's text would differ from the field
                raise
        elif take is not None and isinstance(message, wire.Cancel) and take.replay is not None:
            take.replay.cancel()
        await self._dispatch(message)

    async def _replay_typing(self, number: int, take: LiveTake, typing: Typing) -> None:
        """Send every key to the second voice at its time, and show it to the rater."""
        await take.opened.wait()
        began_s = asyncio.get_running_loop().time() + LEAD_S
        try:
            for stroke in typing.strokes:
                await _sleep_until(began_s + stroke.at_ms / 1000.0)
                edit = {"at": stroke.at, "remove": stroke.remove, "insert": stroke.insert}
                await self._dispatch(wire.EditText(utterance=number, **edit))
                if not stroke.is_pause:
                    await self._send(json.dumps({"type": "typed", "utterance": number} | edit, ensure_ascii=False))
            await _sleep_until(began_s + typing.end_ms / 1000.0)
            await self._dispatch(wire.End(utterance=number))
        except StudioError as error:  # the voice ended by itself and has sent its error
            log.warning("the typing could not be replayed to the second voice: %s", error)
            await self.cancel_all()

    def _begin(self, stream: UtteranceStream) -> None:
        """Pauses are recorded with the first voice and replayed to the second: one near the limit could differ."""
        take, loop = self._takes[stream.number], asyncio.get_running_loop()
        if take.part.typing is None:
            stream.on_pause = lambda: take.note_pause(loop.time())
        else:
            stream.replays_typing = True
        super()._begin(stream)

    # --- to the rater --------------------------------------------------------------------------------

    def _encoded(self, stream: UtteranceStream, item: Outgoing) -> list[str | bytes]:
        take = self._takes[stream.number]
        match item:
            case ev.Queued():
                return [json.dumps({"type": "queued", "utterance": stream.number, "ahead": item.ahead})]
            case ev.Ready():
                take.opened.set()
                return [json.dumps({"type": "opened", "utterance": stream.number, "rate_hz": take.rate_hz})]
            case ev.Audio():
                take.samples = item.sample + len(item.pcm)
                return [stream.packet(part) for part in leveled_packets(item, take.gain)]
            case ev.Cancelled():
                take.is_cancelled = True
                return []
            case ev.Ended():
                take.is_whole = take.samples > 0 and not take.is_cancelled
                return [json.dumps({"type": "ended", "utterance": stream.number, "samples": take.samples})]
            case ev.Failed(code=Busy.code, message=message):  # the wait for a slot timed out
                return [wire.error_message(Busy(message), stream.number, RETRY_MS)]
            case ev.Failed():
                return [wire.error_message(VoiceUnavailable("the voice failed", "begin again"), stream.number)]
            case ev.Event():
                return []
            case StudioError():
                return [wire.error_message(item, stream.number)]
        raise AssertionError(item)

    async def _last_message(self, stream: UtteranceStream, token: str | None) -> str:
        """Store a complete take; the message says whether it was stored."""
        take = self._takes.pop(stream.number)
        take.stop()
        try:
            if token is not None:
                is_valid = take.is_whole and not self._closed.is_set()
                timing = await asyncio.to_thread(self._measure, take, token) if is_valid else None
                trace = await asyncio.to_thread(self._trace_store.take, token)
                if timing is not None and self.rater is not None:
                    return await self._store_take(stream, take, trace, self.rater, *timing)
            if self.rater is not None and not take.is_cancelled and not self._closed.is_set():
                await self._report_miss(take, self.rater, "failed")
        except StudioError as error:
            return wire.error_message(error, stream.number)
        except (OSError, ValueError):
            log.exception("a take of a listening test could not be stored")
        return json.dumps({"type": "dropped", "utterance": stream.number})

    def _measure(self, take: LiveTake, token: str) -> tuple[float | None, float]:
        """t5 - t0 of a take in ms, and the delay that late keys caused in ms."""
        trace = open_trace(self._trace_store.path(token))
        latency_ms = ladder(trace).since("t5", "t0")
        if not take.part.trace:
            return latency_ms, 0.0
        return latency_ms, late_ms(trace, open_trace(self._listening.clips.trace_path(take.part.trace)))

    async def _store_take(
        self,
        stream: UtteranceStream,
        take: LiveTake,
        trace: bytes,
        rater: int,
        latency_ms: float | None,
        late_ms: float,
    ) -> str:
        typing = take.part.typing or Typing(take.strokes, take.end_ms or 0.0)
        finished = FinishedTake(take.trial, take.slot, typing, take.rate_hz, take.samples, latency_ms, late_ms)
        if late_ms > MAX_LATE_MS:
            log.warning("late keys delayed the second voice by %.0f ms; the take is repeated", late_ms)
            await self._report_miss(take, rater, "late", late_ms)
            return json.dumps({"type": "again", "utterance": stream.number})
        await asyncio.wrap_future(await asyncio.to_thread(self._listening.store_take, rater, finished, trace))
        return json.dumps({"type": "kept", "utterance": stream.number, "samples": take.samples})

    async def _report_miss(self, take: LiveTake, rater: int, why: Miss, late_ms: float | None = None) -> None:
        """Record a failed take; after some of them the rater may skip the screen."""
        may_skip = await asyncio.to_thread(self._listening.record_miss, rater, take.trial, take.slot, why, late_ms)
        if await asyncio.wrap_future(may_skip):
            await self._send(json.dumps({"type": "may_skip"}))


async def _sleep_until(due_s: float) -> None:
    await asyncio.sleep(due_s - asyncio.get_running_loop().time())


def add_live(
    app: FastAPI, listening: ListeningTests, auth: TokenAuth, engine: Engine, settings: ServeSettings, drain: Drain
) -> None:
    """Add the raters' socket. Raises BadFile: the folder of takes cannot be made."""
    sweep_takes(listening.clips)  # left by a crash
    trace_store = TraceStore(takes_folder(listening.clips), settings.max_traces, settings.max_traces_bytes)
    sockets: set[LiveTrialSession] = set()
    drain.watch(sockets)

    @app.websocket("/mos/live")
    async def live(websocket: WebSocket) -> None:
        session = LiveTrialSession(websocket, engine, trace_store, settings, listening, auth, sockets)
        await admit(websocket, sockets, settings, session)
