"""Speech of the engine as stimuli: scripts are synthesised into a folder, played utterances are added to a draft."""

import hashlib
import json
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from sqlmodel import Session

from studio.core import events as ev
from studio.core.cards import voice_address
from studio.core.errors import BadFile, BadOption, BadText, StudioError
from studio.core.ports import Engine, SpeakRequest
from studio.core.speaking import at_once, save_audio
from studio.core.speaking import speak as speak_arrivals
from studio.core.time import MonotonicClock
from studio.core.traces.trace import Trace, open_trace
from studio.mos.campaign.config import load_template
from studio.mos.campaign.manifest import ManifestBuilder, StimulusManifest
from studio.mos.campaign.voices import SystemVoice
from studio.mos.service import ListeningTests
from studio.mos.sessions.campaigns import add_stimuli, create_campaign
from studio.mos.stimuli.building import DraftConflict, campaign_contents, level_rule, require_draft
from studio.mos.stimuli.derived import excerpt_length_s
from studio.mos.store.clips import store_stimuli
from studio.mos.store.sounds import INTEGRATED, sound_from_pcm
from studio.mos.store.tables import row_id


@dataclass(frozen=True)
class SpeechTask:
    """A system and the texts it has to speak, by item.

    Attributes:
        markup: markup language of the texts; empty for plain text.
        speed: factor of the speaking rate; 2 is twice as fast.
    """

    system: str
    voice: SystemVoice
    texts: Mapping[str, str]
    role: str = "test"
    markup: str = ""
    speed: float = 1.0


Speaker = Callable[[SystemVoice, Mapping[Path, str], Callable[[], None]], None]
"""Synthesises texts, keyed by output path without suffix, and calls back after each clip."""


def speak_all(
    tasks: Sequence[SpeechTask], out: Path, speak: Speaker, spoken: Callable[[], None] = lambda: None
) -> Path:
    """Synthesise all tasks into ``out``; returns the path of its ``manifest.json``.

    Clips of an earlier, interrupted run are reused if their text is unchanged. ``spoken`` is called after each clip.
    """
    out.mkdir(parents=True, exist_ok=True)
    files: list[dict[str, str]] = []
    for one in tasks:
        folder = out / _folder(one.system)
        folder.mkdir(exist_ok=True)
        variant = one.markup + (f" {one.speed:g}x " if one.speed != 1.0 else "")
        stems = {item: folder / f"{item}-{_digest(variant + text)}" for item, text in one.texts.items()}
        todo = {stem: one.texts[item] for item, stem in stems.items() if not _wav(stem).is_file()}
        speak(one.voice, todo, spoken)
        for item, stem in stems.items():
            result = {"system": one.system, "item": item, "file": f"{folder.name}/{_wav(stem).name}"}
            trace = stem.with_name(f"{stem.name}.trace")
            files.append(result | ({"trace": f"{folder.name}/{trace.name}"} if trace.is_file() else {}))
    texts = {item: text for one in tasks for item, text in one.texts.items()}
    described = {
        "systems": [{"name": one.system, "role": one.role, "voice": one.voice.to_dict()} for one in tasks],
        "items": [{"name": item, "text": text} for item, text in texts.items()],
        "files": files,
    }
    manifest = out / "manifest.json"
    manifest.write_text(json.dumps(described, indent=1), encoding="utf-8")
    return manifest


def engine_speaker(engine: Engine, *, is_guest: bool = False) -> Speaker:
    """Synthesises with an engine's voice, one text after the other.

    ``is_guest``: leave a concurrency slot to others.
    """

    def speak(of: SystemVoice, texts: Mapping[Path, str], spoken: Callable[[], None]) -> None:
        address = voice_address(of.voice, of.speaker, engine.cards())
        request = SpeakRequest(address, of.seed, of.temperature, of.options, is_guest=is_guest)
        for stem, text in texts.items():
            result = speak_arrivals(engine, request, at_once(text), MonotonicClock(), stem).unwrap()
            save_audio(_wav(stem), result.pcm, result.rate_hz, result.meta)
            spoken()

    return speak


def _wav(stem: Path) -> Path:
    return stem.with_name(f"{stem.name}.wav")  # a name may contain a full stop


def _folder(name: str) -> str:
    """A readable and unique folder name for a system."""
    return f"{re.sub(r'[^A-Za-z0-9]+', '-', name).strip('-')}-{_digest(name)}"


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:6]


_WHERE = "this utterance"
_FINISHED = 2  # number of systems from which a complete draft counts as finished


@dataclass(frozen=True)
class UtteranceContent:
    """Content of an utterance's trace; ``system`` is a spec of voice, speaker and options as for `campaign new`."""

    system: str
    voice: dict[str, Any]
    text: str
    pcm: np.ndarray
    rate_hz: int


class LeavesHoles(StudioError):
    """The change would make a complete draft incomplete and needs a confirmation."""

    code = "leaves_holes"


def add_utterance(
    listening: ListeningTests, campaign: str, trace: Path, new: str | None = None, is_sure: bool = False
) -> dict[str, str]:
    """Add an utterance to a draft; returns its campaign, system and item.

    Args:
        trace: the utterance's trace, stored with the clip.
        new: create the campaign first, from this template.
        is_sure: allow a complete draft to become incomplete.

    Raises:
        LeavesHoles: the draft would become incomplete; nothing was added.
        BadFile: the trace is incomplete, or its sound is unusable.
        BadOption: the campaign or template does not exist, it is not a draft, it rates excerpts, or the system has
            this text already.
        DraftConflict: the draft was changed concurrently.
        BadText: the utterance has no text or sound.
    """
    trace_bytes = trace.read_bytes()
    spoken = read_utterance(open_trace(trace))
    config = None if new is None else load_template(new)
    there, level = StimulusManifest([], [], {}, []), None
    if config is None:
        with listening.store.read() as session:
            there, level = campaign_contents(session, require_draft(session, campaign), listening.clips)
    if (excerpt_s := excerpt_length_s(there)) is not None:
        raise BadOption(
            f"{campaign!r} rates the first and the last {excerpt_s:g} s of each script, and an utterance comes whole",
            "choose another draft, or bring the sound with `studio campaign import`",
        )
    draft = ManifestBuilder.extending(trace.parent, there)
    item = _item_of(there, spoken.text)
    draft.add_system(_WHERE, spoken.system, "test", spoken.voice)
    draft.add_item(_WHERE, item, spoken.text)
    key = (item, spoken.system)
    if key in there.files:
        raise BadOption(
            f"{spoken.system} says this text in {campaign!r} already",
            "say another text, or choose another voice, window or hop",
        )
    if not is_sure:
        _check_whole(campaign, there, key)
    sound = sound_from_pcm(spoken.pcm, spoken.rate_hz, _WHERE)
    clips, _ = store_stimuli(
        {key: lambda: sound}, listening.clips, level, INTEGRATED if config is None else level_rule(config)[1]
    )
    clips[key] = replace(clips[key], trace=listening.clips.add_trace(trace_bytes))
    systems, items = [draft.systems[spoken.system]], [draft.items[item]]

    def add(session: Session) -> None:
        if config is not None:
            create_campaign(session, campaign, config, systems, items, clips, whole=False)
            return
        row = require_draft(session, campaign)
        if campaign_contents(session, row, listening.clips)[0] != there:
            raise DraftConflict(f"{campaign!r} was changed elsewhere meanwhile", "add it again")
        add_stimuli(session, row_id(row), systems, items, clips)

    listening.store.write_now(add)
    listening.clips.add_trace(trace_bytes)  # a removal of the same utterance may have deleted it before the commit
    return {"campaign": campaign, "system": spoken.system, "item": item}


def _check_whole(campaign: str, there: StimulusManifest, key: tuple[str, str]) -> None:
    """Raises LeavesHoles if the draft is complete and would not be with this sound."""
    systems = {s.name for s in there.systems if s.role == "test"}
    items = {i.name for i in there.items if i.role == "test"}
    if len(systems) < _FINISHED or any((i, s) not in there.files for i in items for s in systems):
        return
    with_it = (items | {key[0]}), (systems | {key[1]})
    missing = sum((i, s) != key and (i, s) not in there.files for i in with_it[0] for s in with_it[1])
    if missing:
        raise LeavesHoles(
            f"{campaign!r} is whole: {len(systems)} systems say all {len(items)} scripts. With this one {missing} "
            f"{'sound' if missing == 1 else 'sounds'} would be missing",
            "add it to another draft, or all the same",
        )


def read_utterance(trace: Trace) -> UtteranceContent:
    """Read text, samples and system of an utterance.

    Raises BadFile: it was cancelled, it failed, or its options changed midway, so that it has no single system;
    BadText: it has no text or sound.
    """
    ready = next((e for e in trace.events if isinstance(e, ev.Ready)), None)
    if ready is None or not isinstance(trace.events[-1], ev.Ended):
        raise BadFile("this utterance did not finish", "say the text again")
    if any(isinstance(e, ev.Cancelled) for e in trace.events):
        raise BadFile("this utterance was stopped", "say the text again, to its end")
    if any(isinstance(e, ev.OptionsChanged) for e in trace.events):
        raise BadFile("the settings changed during the utterance, so it has no single system", "say the text again")
    text = ""
    for event in trace.events:
        if isinstance(event, ev.TextReceived):
            text = text[: event.char_start] + event.text
    text = " ".join(text.split())
    if not text or not len(trace.pcm):
        raise BadText("nothing was said", "say a text first")
    options = {**ready.options, **({"temperature": t} if (t := trace.meta.get("temperature")) is not None else {})}
    option_text = ",".join(f"{name}={value}" for name, value in sorted(options.items()))
    who = f"{ready.voice}:{ready.speaker}" if ready.speaker else ready.voice
    voice = {"voice": ready.voice, "speaker": ready.speaker, **options}
    return UtteranceContent(f"{who}?{option_text}" if option_text else who, voice, text, trace.pcm, trace.rate_hz)


def _item_of(there: StimulusManifest, text: str) -> str:
    """The name of the item with this text, or the next free name."""
    names = {i.name.casefold() for i in there.items}
    free = next(f"text{n:03}" for n in range(1, len(names) + 2) if f"text{n:03}" not in names)
    return next((i.name for i in there.items if i.text == text and i.role == "test"), free)
