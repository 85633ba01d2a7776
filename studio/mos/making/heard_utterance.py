"""An utterance that was just heard, put into a draft campaign: its clip as synthesised, its trace, its system."""

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from sqlmodel import Session

from studio.core import events as ev
from studio.core.errors import BadFile, BadOption, BadText, StudioError
from studio.core.traces.trace import Trace, open_trace
from studio.mos.campaign.draft import Draft, Manifest
from studio.mos.campaign.templates import template
from studio.mos.making.building import contents, draft_of
from studio.mos.making.excerpts import excerpt_length_s
from studio.mos.rating.campaigns import add_stimuli, create
from studio.mos.service import Listening
from studio.mos.store.clips import store_stimuli
from studio.mos.store.sounds import clip_of

_WHERE = "this utterance"
_FINISHED = 2  # systems from which on a draft that is whole looks finished


@dataclass(frozen=True)
class Spoken:
    """What an utterance's trace says of it: ``system`` names voice, speaker and options, as `campaign new` reads it."""

    system: str
    voice: dict[str, Any]
    text: str
    pcm: np.ndarray
    rate_hz: int


class LeavesHoles(StudioError):
    """A draft in which every system says every script would not be whole any more; whoever is sure may add it yet."""

    code = "leaves_holes"


def add_utterance(
    listening: Listening, campaign: str, trace: Path, new: str | None = None, is_sure: bool = False
) -> dict[str, str]:
    """Add an utterance to a draft; answers its campaign, system and item.

    Args:
        trace: of the utterance; it is kept beside the clip.
        new: make the campaign first, from this template.
        is_sure: also to a draft that is whole, and would not be with it.

    Raises:
        LeavesHoles: the draft is whole; nothing was added.
        BadFile: the trace is not whole, or its sound cannot be taken.
        BadOption: there is no such campaign or template, it is no draft, it rates excerpts of scripts, or the system
            says this text already there.
        BadText: nothing was said.
    """
    kept = trace.read_bytes()
    spoken = read_utterance(open_trace(trace))
    config = None if new is None else template(new)
    there, level = Manifest([], [], {}, []), None
    if config is None:
        with listening.store.read() as session:
            there, level = contents(session, draft_of(session, campaign), listening.clips)
    if (excerpt_s := excerpt_length_s(there)) is not None:
        raise BadOption(
            f"{campaign!r} rates the first and the last {excerpt_s:g} s of each script, and an utterance comes whole",
            "choose another draft, or bring the sound with `studio campaign import`",
        )
    draft = Draft.onto(trace.parent, there)
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
    sound = clip_of(spoken.pcm, spoken.rate_hz, _WHERE)
    clips, _ = store_stimuli({key: lambda: sound}, listening.clips, level)
    clips[key] = replace(clips[key], trace=listening.clips.add_trace(kept))
    systems, items = [draft.systems[spoken.system]], [draft.items[item]]

    def add(session: Session) -> None:
        if config is not None:
            create(session, campaign, config, systems, items, clips, whole=False)
            return
        row = draft_of(session, campaign)
        assert row.id is not None, "rows from the database have ids"
        if contents(session, row, listening.clips)[0] != there:
            raise BadOption(f"{campaign!r} was changed by somebody else meanwhile", "add it again")
        add_stimuli(session, row.id, systems, items, clips)

    listening.store.write_now(add)
    return {"campaign": campaign, "system": spoken.system, "item": item}


def _check_whole(campaign: str, there: Manifest, key: tuple[str, str]) -> None:
    """Raises LeavesHoles where several systems say every script, and with one sound more they would not."""
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


def read_utterance(trace: Trace) -> Spoken:
    """What was said, and by which system.

    Raises:
        BadFile: it was stopped, it failed, or its options changed in the middle, so that no one system said it.
        BadText: nothing was said.
    """
    ready = next((e for e in trace.events if isinstance(e, ev.Ready)), None)
    if ready is None or not isinstance(trace.events[-1], ev.Ended):
        raise BadFile("this utterance did not come to its end", "say the text again")
    if any(isinstance(e, ev.Cancelled) for e in trace.events):
        raise BadFile("this utterance was stopped", "say the text again, to its end")
    if any(isinstance(e, ev.Options) for e in trace.events):
        raise BadFile("the settings were changed while it spoke, so no one system said it", "say the text again")
    text = ""
    for event in trace.events:
        if isinstance(event, ev.Text):
            text = text[: event.char_start] + event.text
    text = " ".join(text.split())
    if not text or not len(trace.pcm):
        raise BadText("nothing was said", "say a text first")
    options = {**ready.options, **({"temperature": t} if (t := trace.meta.get("temperature")) is not None else {})}
    said = ",".join(f"{name}={value}" for name, value in sorted(options.items()))
    who = f"{ready.voice}:{ready.speaker}" if ready.speaker else ready.voice
    voice = {"voice": ready.voice, "speaker": ready.speaker, **options}
    return Spoken(f"{who}?{said}" if said else who, voice, text, trace.pcm, trace.rate_hz)


def _item_of(there: Manifest, text: str) -> str:
    """The name of the item that says this text, or the next free one."""
    names = {i.name.casefold() for i in there.items}
    free = next(f"text{n:03}" for n in range(1, len(names) + 2) if f"text{n:03}" not in names)
    return next((i.name for i in there.items if i.text == text and i.role == "test"), free)
