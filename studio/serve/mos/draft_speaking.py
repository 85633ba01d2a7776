"""Synthesis of drafts by the server's own voices, in the background and at guest priority."""

import logging
import threading
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from studio.core.cards import Card
from studio.core.errors import BadOption, Busy, Closing, StudioError
from studio.core.ports import Engine, SpeakRequest, Utterance
from studio.mos.service import ListeningTests
from studio.mos.stimuli.building import require_draft
from studio.mos.stimuli.editing import add_spoken, missing_speech
from studio.mos.stimuli.synthesis import SpeechTask, engine_speaker, speak_all

_RETRY_S = 2.0  # between two attempts to get a slot

log = logging.getLogger("studio.serve")


class SpeakingStopped(StudioError):
    """Stopped by the owner; the finished texts are kept."""

    code = "stopped"


@dataclass
class SpeakingJob:
    """The synthesis of one draft: its progress and how it ended."""

    campaign: str
    of: int
    done: int = 0
    is_over: bool = False
    error: str = ""
    notes: tuple[str, ...] = ()


class DraftSpeaker:
    """Synthesizes one draft at a time, one text after the other, so that live typing is hardly affected."""

    def __init__(self, listening: ListeningTests, engine: Engine) -> None:
        self._listening, self._engine = listening, engine
        self._lock = threading.Lock()
        self._stop = threading.Event()
        self._job: SpeakingJob | None = None

    def begin(self, name: str) -> None:
        """Start to synthesize the missing texts of a draft. Raises BadOption, Busy."""
        with self._listening.store.read() as session:
            sayings = missing_speech(session, require_draft(session, name))
        if not sayings:
            raise BadOption("there is nothing to speak", "add a voice and texts first")
        with self._lock:
            if self._job is not None and not self._job.is_over:
                raise Busy(f"{self._job.campaign!r} is being spoken", "wait until it is done")
            self._stop.clear()
            self._job = SpeakingJob(name, sum(len(one.texts) for one in sayings))
            threading.Thread(target=self._run, args=(self._job, sayings), daemon=True).start()

    def stop(self, name: str) -> None:
        """Stop after the current text."""
        if self._job is not None and self._job.campaign == name:
            self._stop.set()

    def progress(self, name: str) -> dict[str, Any] | None:
        """The progress of a draft; None if its synthesis was not started by this server."""
        job = self._job
        if job is None or job.campaign != name:
            return None
        return {"done": job.done, "of": job.of, "over": job.is_over, "error": job.error, "notes": list(job.notes)}

    def _run(self, job: SpeakingJob, sayings: Sequence[SpeechTask]) -> None:
        def spoken() -> None:
            job.done += 1
            if self._stop.is_set():
                raise SpeakingStopped("it was stopped", "what was spoken is kept: begin again to go on")

        try:
            out = self._listening.clips.root.parent / "spoken" / job.campaign
            speak = engine_speaker(_RetryingEngine(self._engine, self._stop), is_guest=True)
            job.notes = tuple(add_spoken(self._listening, job.campaign, speak_all(sayings, out, speak, spoken)))
        except StudioError as error:
            job.error = str(error)
        except Exception:
            log.exception("the synthesis of a draft failed")
            job.error = "it could not be spoken; the server's log says why"
            raise
        finally:
            job.is_over = True


class _RetryingEngine:
    """Retries ``open`` while the engine has no free slot."""

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
                if self._stop.wait(_RETRY_S):
                    raise SpeakingStopped("it was stopped", "what was spoken is kept: begin again to go on") from None

    def is_loaded(self, voice: str) -> bool:
        return self._engine.is_loaded(voice)

    def free_slots(self) -> int:
        return self._engine.free_slots()

    def drain(self) -> None:
        self._engine.drain()

    def close(self) -> None:
        pass  # owned by the server
