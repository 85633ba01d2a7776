"""Texts of drafts spoken by the server's own voices, in the background and behind everybody who types."""

import logging
import threading
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from studio.core.cards import Card
from studio.core.errors import BadOption, Busy, Closing, StudioError
from studio.core.ports import Engine, SpeakRequest, Utterance
from studio.mos.making.building import draft_of
from studio.mos.making.editing import take_spoken, unspoken
from studio.mos.making.speaking import Saying, by_engine, speak_all
from studio.mos.service import Listening

_AGAIN_S = 2.0  # until a place in the engine is asked for again

log = logging.getLogger("studio.serve")


class Stopped(StudioError):
    """Somebody pressed Stop; what was spoken is kept for the next time."""

    code = "stopped"


@dataclass
class Job:
    """One draft being spoken: how many sounds of how many, and how it ended."""

    campaign: str
    of: int
    done: int = 0
    is_over: bool = False
    error: str = ""
    notes: tuple[str, ...] = ()


class DraftSpeaking:
    """Speaks for one draft at a time, one text after the other, so that typing is hardly disturbed."""

    def __init__(self, listening: Listening, engine: Engine) -> None:
        self._listening, self._engine = listening, engine
        self._lock = threading.Lock()
        self._stop = threading.Event()
        self._job: Job | None = None

    def begin(self, name: str) -> None:
        """Begin to speak what a draft's voices have not said yet. Raises BadOption, Busy."""
        with self._listening.store.read() as session:
            sayings = unspoken(session, draft_of(session, name))
        if not sayings:
            raise BadOption("there is nothing to speak", "add a voice and texts first")
        with self._lock:
            if self._job is not None and not self._job.is_over:
                raise Busy(f"{self._job.campaign!r} is being spoken", "wait until it is done")
            self._stop.clear()
            self._job = Job(name, sum(len(one.texts) for one in sayings))
            threading.Thread(target=self._run, args=(self._job, sayings), daemon=True).start()

    def stop(self, name: str) -> None:
        """Stop after the text that is being spoken."""
        if self._job is not None and self._job.campaign == name:
            self._stop.set()

    def told(self, name: str) -> dict[str, Any] | None:
        """How far a draft is; None of one that was not spoken since the server started."""
        job = self._job
        if job is None or job.campaign != name:
            return None
        return {"done": job.done, "of": job.of, "over": job.is_over, "error": job.error, "notes": list(job.notes)}

    def _run(self, job: Job, sayings: Sequence[Saying]) -> None:
        def spoken() -> None:
            job.done += 1
            if self._stop.is_set():
                raise Stopped("it was stopped", "what was spoken is kept: begin again to go on")

        try:
            out = self._listening.clips.root.parent / "spoken" / job.campaign
            speak = by_engine(_Patient(self._engine, self._stop), is_guest=True)
            job.notes = tuple(take_spoken(self._listening, job.campaign, speak_all(sayings, out, speak, spoken)))
        except StudioError as error:
            job.error = str(error)
        except Exception:
            log.exception("a draft could not be spoken")
            job.error = "it could not be spoken; the server's log says why"
            raise
        finally:
            job.is_over = True


class _Patient:
    """An engine that is asked again while all its places are taken."""

    def __init__(self, engine: Engine, stop: threading.Event) -> None:
        self._engine, self._stop = engine, stop

    def cards(self) -> Sequence[Card]:
        return self._engine.cards()

    def open(self, request: SpeakRequest) -> Utterance:
        while True:
            try:
                return self._engine.open(request)
            except Closing:
                raise
            except Busy:
                if self._stop.wait(_AGAIN_S):
                    raise Stopped("it was stopped", "what was spoken is kept: begin again to go on") from None

    def is_loaded(self, voice: str) -> bool:
        return self._engine.is_loaded(voice)

    def places_free(self) -> int:
        return self._engine.places_free()

    def drain(self) -> None:
        self._engine.drain()

    def close(self) -> None:
        pass  # it is not ours
