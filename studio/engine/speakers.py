"""Adds speakers to voices: computes the reference of a recording, stores it and lists the speaker."""

import hashlib
import threading
from concurrent.futures import wait

import numpy as np
import torch

from studio.core.errors import BadOption, BadText, BadVoice
from studio.core.ports import Normaliser
from studio.core.speakers import CONSENT, AddedSpeaker, SpeakerRequest, SpeakerVoice, now_utc
from studio.core.text.words import whole_text
from studio.engine.families.base import NewReference, SupportsReferences, family_info
from studio.engine.tokenizers import dmel
from studio.engine.voice_store import VoiceStore
from studio.engine.voices import Voice


class AddedSpeakers:
    """See ``studio.core.speakers.Speakers``. Works on the caller's thread, one recording at a time."""

    def __init__(self, voices: VoiceStore, normalise: Normaliser) -> None:
        self._voices, self._normalise = voices, normalise
        self._adding = threading.Lock()

    def voices(self) -> list[SpeakerVoice]:
        """Voices to which speakers can be added."""
        cards = self._voices.current_cards().values()
        return [
            SpeakerVoice(card.name, card.title, family_info(card.family).needs_transcript)
            for card in cards
            if family_info(card.family).takes_speakers(card)
        ]

    def listed(self) -> list[AddedSpeaker]:
        """Added speakers, the oldest first."""
        return [*self._voices.speakers.read().values()]

    def add(self, wanted: SpeakerRequest) -> AddedSpeaker:
        """Create and store a speaker; see ``studio.core.speakers.Speakers``."""
        wanted.check()
        if wanted.voice not in (supported := [one.name for one in self.voices()]):
            hint = (
                f"these voices support it: {', '.join(supported)}"
                if supported
                else "voices whose speakers are recordings support it, such as finch"
            )
            raise BadVoice(f"speakers cannot be added to {wanted.voice[:80]!r}", hint)
        with self._adding:
            self._voices.refresh()
            if wanted.name in (names := self._voices.cards[wanted.voice].speakers):
                raise BadOption(
                    f"{wanted.voice} has a speaker {wanted.name!r} already",
                    f"choose another name than {', '.join(names)}",
                )
            made = _reference(self._voices.get(wanted.voice), wanted, self._normalise)
            tensors = _to_bytes(made)
            now = now_utc()
            speaker = AddedSpeaker(
                wanted.voice,
                wanted.name,
                wanted.text,
                round(made.length_s, 3),
                now,
                CONSENT,
                wanted.consent_by,
                now,
                wanted.recording_sha256,
                hashlib.sha256(tensors).hexdigest(),
            )
            self._voices.speakers.add(speaker, tensors, wanted.recording)
            self._voices.refresh()
            return speaker

    def remove(self, voice: str, name: str) -> None:
        """Remove a speaker; utterances that have begun continue. Raises BadVoice, NotStored."""
        self._voices.speakers.remove(voice, name)
        self._voices.refresh()


def _reference(voice: Voice, wanted: SpeakerRequest, normalise: Normaliser) -> NewReference:
    """Raises BadText, BadRecording, BadFile."""
    assert isinstance(voice.family, SupportsReferences), "takes_speakers says so"
    words = [word.word for word in whole_text(normalise, wanted.text).words]
    if not words and family_info(voice.card.family).needs_transcript:
        raise BadText("the text of the recording is missing", "write what it says")
    if (lookup := voice.start_lookup(words)) is not None:
        wait([lookup])
    samples = dmel.resample(torch.from_numpy(wanted.samples), wanted.rate_hz, voice.card.sample_rate_hz)
    return voice.family.reference_from(samples.numpy().astype(np.float32), words)


def _to_bytes(made: NewReference) -> bytes:
    from safetensors.numpy import save

    return save({name: np.ascontiguousarray(one) for name, one in made.tensors.items()})
