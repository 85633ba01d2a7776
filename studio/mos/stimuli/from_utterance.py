"""Adds a played utterance to a draft campaign: its clip as synthesised, its trace and its system."""

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from sqlmodel import Session

from studio.core import events as ev
from studio.core.errors import BadFile, BadOption, BadText, StudioError
from studio.core.traces.trace import Trace, open_trace
from studio.mos.campaign.manifest import ManifestBuilder, StimulusManifest
from studio.mos.campaign.templates import load_template
from studio.mos.service import ListeningTests
from studio.mos.sessions.campaigns import add_stimuli, create_campaign
from studio.mos.stimuli.building import campaign_contents, require_draft
from studio.mos.stimuli.derived import excerpt_length_s
from studio.mos.store.clips import store_stimuli
from studio.mos.store.sounds import sound_from_pcm

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
        trace: the utterance's trace, stored beside the clip.
        new: create the campaign first, from this template.
        is_sure: allow a complete draft to become incomplete.

    Raises:
        LeavesHoles: the draft would become incomplete; nothing was added.
        BadFile: the trace is incomplete, or its sound is unusable.
        BadOption: the campaign or template does not exist, it is not a draft, it rates excerpts, or the system has
            this text already.
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
    clips, _ = store_stimuli({key: lambda: sound}, listening.clips, level)
    clips[key] = replace(clips[key], trace=listening.clips.add_trace(trace_bytes))
    systems, items = [draft.systems[spoken.system]], [draft.items[item]]

    def add(session: Session) -> None:
        if config is not None:
            create_campaign(session, campaign, config, systems, items, clips, whole=False)
            return
        row = require_draft(session, campaign)
        assert row.id is not None, "rows from the database have ids"
        if campaign_contents(session, row, listening.clips)[0] != there:
            raise BadOption(f"{campaign!r} was changed elsewhere meanwhile", "add it again")
        add_stimuli(session, row.id, systems, items, clips)

    listening.store.write_now(add)
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

    Raises:
        BadFile: it was cancelled, it failed, or its options changed midway, so that it has no single system.
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
    said = ",".join(f"{name}={value}" for name, value in sorted(options.items()))
    who = f"{ready.voice}:{ready.speaker}" if ready.speaker else ready.voice
    voice = {"voice": ready.voice, "speaker": ready.speaker, **options}
    return UtteranceContent(f"{who}?{said}" if said else who, voice, text, trace.pcm, trace.rate_hz)


def _item_of(there: StimulusManifest, text: str) -> str:
    """The name of the item with this text, or the next free name."""
    names = {i.name.casefold() for i in there.items}
    free = next(f"text{n:03}" for n in range(1, len(names) + 2) if f"text{n:03}" not in names)
    return next((i.name for i in there.items if i.text == text and i.role == "test"), free)
