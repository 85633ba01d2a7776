"""A scripted engine without torch that speaks tones, for tests and for work on the page.

``python tests/fakes.py --port 7861`` serves the real app on it, with the page if studio.ui is installed.
"""

import argparse
import importlib.util
import os
import sys
import threading
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from fakeutterance import FakeUtterance
from tones import FRAME_MS, FRAME_SAMPLES, Script, tone_card

from studio.core.cards import Card, read_card
from studio.core.errors import BadFile, Busy, Closing
from studio.core.events import Audio
from studio.core.folders import VOICES
from studio.core.ports import EngineLoad, ModuleLoad, SpeakRequest
from studio.core.traces.teacher_forcing import CallerGone, never_stop
from studio.core.traces.trace import Trace
from studio.engine.admission import fair_order, pick_evicted


class FakeEngine:
    """``places`` concurrent utterances; ``queue`` more wait for a slot, and the next one gets Busy."""

    def __init__(
        self,
        script: Script | None = None,
        places: int = 4,
        queue: int = 2,
        queue_timeout_s: float = 120.0,
        voices: int = 1,
        cards: Sequence[Card] = (),
    ) -> None:
        self.script = script or Script()
        self.places, self.queue, self.queue_timeout_s = places, queue, queue_timeout_s
        self.waiting: list[FakeUtterance] = []
        self._draining = False
        self.speaking: list[FakeUtterance] = []
        self.opened: list[FakeUtterance] = []
        self._lock = threading.Lock()
        more = (replace(tone_card(), name=f"tone{n}", title=f"Tone {n}: Sines, no model") for n in range(2, voices + 1))
        self._cards = (tone_card(), *more, *cards)

    def cards(self) -> Sequence[Card]:
        return self._cards

    def open(self, request: SpeakRequest) -> FakeUtterance:
        with self._lock:
            if self._draining:
                raise Closing("the engine is being closed", "start it again")
            utterance, leaver = FakeUtterance(self, len(self.opened), request), None
            queue = self.queue // 2 if request.is_guest else self.queue
            if not request.may_wait and len(self.speaking) + len(self.waiting) >= self._share(request):
                raise Busy("no slot is free", "let it wait in the queue")
            if len(self.speaking) >= self._share(request) and len(self.waiting) >= queue:
                there = [one for one in self.waiting if one.request.is_guest or not request.is_guest]
                at = pick_evicted([one.request.client for one in there], request.client)
                if at is None:
                    raise Busy(f"all {self.places} slots are taken", "try again in a moment")
                leaver = there[at]
                self.waiting.remove(leaver)
            self.waiting.append(utterance)
            self.opened.append(utterance)
        if leaver is not None:
            leaver.fail("busy", "others have fewer in the queue; try again in a moment")
        self.settle()
        if utterance in self.waiting:
            timer = threading.Timer(self.queue_timeout_s, self._give_up, (utterance,))
            timer.daemon = True
            timer.start()
        return utterance

    def _give_up(self, utterance: FakeUtterance) -> None:
        with self._lock:
            waits = utterance in self.waiting
            if waits:
                self.waiting.remove(utterance)
        if waits:
            utterance.fail("busy", f"no slot became free within {self.queue_timeout_s:g} s; try again later")
            self.settle()

    def free(self, utterance: FakeUtterance) -> None:
        """Release the utterance's slot or queue position."""
        with self._lock:
            for place in (self.speaking, self.waiting):
                if utterance in place:
                    place.remove(utterance)

    def settle(self) -> None:
        """Give free slots to waiting utterances and report the others' positions."""
        with self._lock:
            begun = []
            for one in self._in_turn():
                if len(self.speaking) < self._share(one.request):
                    self.waiting.remove(one)
                    self.speaking.append(one)
                    begun.append(one)
            waiting = self._in_turn()
        for one in begun:
            one.start()
        for ahead, one in enumerate(waiting):
            one.wait_behind(ahead)

    def _in_turn(self) -> list[FakeUtterance]:
        speaking = [one.request.client for one in self.speaking]
        return [self.waiting[at] for at in fair_order([one.request.client for one in self.waiting], speaking)]

    def _share(self, request: SpeakRequest) -> int:
        return max(1, self.places - 1) if request.is_guest else self.places

    def drain(self) -> None:
        """Start nothing new; running utterances speak committed text and end."""
        with self._lock:
            self._draining = True
            waiting, self.waiting = self.waiting, []
            speaking = [*self.speaking]
        for one in waiting:
            one.fail("closing", "the engine is being closed; start it again")
        for one in speaking:
            one.wind_up()

    def is_loaded(self, voice: str) -> bool:
        return True

    def free_slots(self) -> int:
        """Number of slots that the next utterances can take."""
        with self._lock:
            return self.places - len(self.speaking) - len(self.waiting)

    def vocode_overlapped(self, trace: Trace, should_continue: Callable[[], bool] = never_stop) -> Trace:
        """The same audio negated: inaudible, but visible to every test."""
        if not should_continue():
            raise CallerGone("nobody waits for the answer")
        if not trace.is_spoken:
            raise BadFile("this utterance holds no frames that a voice has spoken", "give one that a voice has spoken")
        pcm = -trace.pcm
        events = [
            replace(one, pcm=pcm[one.sample : one.sample + len(one.pcm)]) if isinstance(one, Audio) else one
            for one in trace.events
        ]
        return replace(trace, meta={**trace.meta, "vocoder": "tone, overlapped"}, events=events, pcm=pcm)

    def load(self) -> EngineLoad:
        """As if its tones came from a module."""
        frames = sum(one.samples for one in self.opened) // FRAME_SAMPLES
        ran = {1: frames} if frames else {}
        speak = ModuleLoad("tone", "speak", ran, {size: FRAME_MS / self.script.speed * n for size, n in ran.items()})
        return EngineLoad(
            slots=self.places,
            speaking=len(self.speaking),
            queue=self.queue,
            waiting=len(self.waiting),
            opened=len(self.opened),
            audio_s=frames * FRAME_MS / 1000.0,
            modules=(speak,) if ran else (),
        )

    def close(self) -> None:
        self.drain()
        for utterance in list(self.speaking):
            utterance.cancel()
            utterance.join()


def shipped_cards() -> list[Card]:
    """The tone's card with the names and options of the voices that ship."""
    shipped = [read_card(folder) for folder in sorted(VOICES.iterdir())]
    return [replace(tone_card(), name=one.name, title=one.title, options=one.options) for one in shipped]


def main() -> None:
    """Serve the real app on the fake engine."""
    parser = argparse.ArgumentParser(description=main.__doc__)
    parser.add_argument("--host", default="127.0.0.1")
    parser.add_argument("--port", type=int, default=7861)
    parser.add_argument("--speed", type=float, default=4.0, help="times real time")
    parser.add_argument("--cold-ms", type=float, default=20.0, help="time before a segment's first frame")
    parser.add_argument("--fail-at-word", type=int)
    parser.add_argument("--stall-at-word", type=int)
    parser.add_argument("--stall-ms", type=float, default=300.0)
    parser.add_argument("--idle-socket-ms", type=int, default=300_000)
    parser.add_argument("--queue-timeout-s", type=float, default=120.0)
    parser.add_argument("--queue", type=int, default=2, help="utterances that wait for a slot")
    parser.add_argument("--voices", type=int, default=1, help="voices, all of them the tone's")
    parser.add_argument("--shipped", action="store_true", help="more voices: with the options of those that ship")
    parser.add_argument("--llm", default="", help="address of a chat endpoint")
    parser.add_argument("--model", default="")
    parser.add_argument("--design-page", action="store_true", help="serve /design")
    args = parser.parse_args()
    from studio.serve.app import create_app
    from studio.serve.server import run
    from studio.serve.settings import ServeSettings

    script = Script(args.speed, args.fail_at_word, args.stall_at_word, args.stall_ms, args.cold_ms)
    folder = Path(os.environ.get("STUDIO_SERVE_TRACES_FOLDER", ServeSettings().traces_folder))
    settings = ServeSettings(
        host=args.host,
        port=args.port,
        idle_socket_ms=args.idle_socket_ms,
        traces_folder=folder,
        design_page=args.design_page,
        llm_url=args.llm,
        llm_model=args.model,
    )
    cards = shipped_cards() if args.shipped else []
    engine = FakeEngine(script, queue=args.queue, queue_timeout_s=args.queue_timeout_s, voices=args.voices, cards=cards)
    app = create_app(engine, settings)
    if importlib.util.find_spec("studio.ui.app"):
        from studio.ui.app import mount

        app = mount(app, engine, settings)
    run(app, settings)


if __name__ == "__main__":
    main()
