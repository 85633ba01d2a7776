"""Recomputation of traces and recordings by voices, in the engine's process or, pickled, in another one."""

import threading
from collections.abc import Callable, Generator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch

from studio.core.cards import Card, parse_voice
from studio.core.errors import BadVoice, Busy
from studio.core.ports import Normaliser
from studio.core.speakers import SpeakerStore
from studio.core.traces.provenance import provenance
from studio.core.traces.teacher_forcing import TeacherForcingRequest, TeacherForcingResult, never_stop
from studio.core.traces.trace import Trace
from studio.engine.families.base import family_info
from studio.engine.nets.cpu.threads import THREADS
from studio.engine.speakers import AddedSpeakers
from studio.engine.teacher_forcing import attention_of_trace, trace_of_recording
from studio.engine.vocoders.module import revocode_by_segment
from studio.engine.vocoders.overlapped import FADES
from studio.engine.voice_store import VoiceStore
from studio.engine.voices import Voice, load_voice


class Recomputer:
    """See ``SupportsAttention``, ``SupportsTeacherForcing``, ``SupportsOverlappedVocoding`` in ``core``.

    Runs one computation at a time, on the caller's thread; KV slots are not touched. An unpickled one loads the voices
    again.
    """

    def __init__(self, voices: VoiceStore, device: torch.device, threads: int, normalise: Normaliser) -> None:
        self._voices, self._device, self._threads, self._normalise = voices, device, threads, normalise
        self._running = threading.Lock()
        self._speakers = AddedSpeakers(voices, normalise)

    def speakers(self) -> AddedSpeakers:
        """See ``studio.core.speakers.SupportsSpeakers``; the engine's process sees what is added here."""
        return self._speakers

    def voice_folders(self) -> dict[str, Path]:
        """Folders of the voices, by name."""
        return {name: self._voices.voices[name][1] for name in self._voices.cards}

    def __reduce__(self) -> tuple[Any, ...]:
        voices = {name: self._voices.voices[name] for name in self._voices.cards}
        return _reopen, (voices, self._voices.speakers.root, str(self._device), self._threads, self._normalise)

    def compute_attention(self, trace: Trace, should_continue: Callable[[], bool] = never_stop) -> TeacherForcingResult:
        """See ``SupportsAttention``."""
        with self._one_at_a_time():
            return attention_of_trace(self._voice_of(trace), trace, should_continue)

    def teacher_force(
        self, recording: TeacherForcingRequest, should_continue: Callable[[], bool] = never_stop
    ) -> Trace:
        """See ``SupportsTeacherForcing``."""
        card, speaker = parse_voice(recording.voice, self._voices.current_cards())
        meta = provenance(card, device=self._device.type, threads=self._threads, temperature=1.0)
        with self._one_at_a_time():
            voice = self._voices.get(card.name)
            return trace_of_recording(voice, speaker, recording, self._normalise, meta, should_continue)

    def teacher_forcing_cards(self) -> list[Card]:
        """Cards of the voices that support teacher forcing, the default first."""
        cards = self._voices.current_cards().values()
        return [card for card in cards if family_info(card.family).supports_teacher_forcing]

    def vocode_overlapped(self, trace: Trace, should_continue: Callable[[], bool] = never_stop) -> Trace:
        """See ``SupportsOverlappedVocoding``."""
        with self._one_at_a_time():
            voice = self._voice_of(trace)
            fade = FADES[family_info(voice.card.family).fade]
            return revocode_by_segment(voice.card, voice.vocoder, fade, trace, should_continue)

    @contextmanager
    def _one_at_a_time(self) -> Generator[None]:
        """Raises Busy."""
        if not self._running.acquire(blocking=False):
            raise Busy("another recording or utterance is being recomputed", "try again in a moment")
        try:
            yield
        finally:
            self._running.release()

    def _voice_of(self, trace: Trace) -> Voice:
        self._voices.refresh()
        name = str(trace.meta.get("voice", ""))
        if name not in self._voices.cards:
            available = ", ".join(self._voices.cards)
            raise BadVoice(f"the voice {name!r} of this trace is not available", f"there are {available}")
        return self._voices.get(name)


_opened: list[
    tuple[Mapping[str, tuple[Card, Path]], Path | None, str, int, Recomputer]
] = []  # the most recent one of this process


def _reopen(
    voices: Mapping[str, tuple[Card, Path]],
    speakers: Path | None,
    device_name: str,
    threads: int,
    normalise: Normaliser,
) -> Recomputer:
    """A recomputer in another process; its voices stay loaded from call to call."""
    if _opened and _opened[0][:4] == (voices, speakers, device_name, threads):
        return _opened[0][4]
    THREADS.begin()
    torch.set_num_threads(threads)
    device = torch.device(device_name)
    store = VoiceStore(voices, lambda card, folder: load_voice(card, folder, device, 1), SpeakerStore(speakers))
    recomputer = Recomputer(store, device, threads, normalise)
    _opened[:] = [(voices, speakers, device_name, threads, recomputer)]
    return recomputer
