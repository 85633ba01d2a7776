"""Adding an utterance of the Live page to a draft: audio as synthesised, trace, system name."""

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from mos.world import ACR, World
from soundmaking import put, tone

from studio.core import events as ev
from studio.core.clips import to_int16, write_wav
from studio.core.errors import BadFile, BadOption, BadText
from studio.core.traces.trace import open_trace
from studio.core.traces.trace_writer import TraceWriter
from studio.mos.analysis.results import overview
from studio.mos.sessions.campaigns import load_campaign
from studio.mos.stimuli import building
from studio.mos.stimuli.building import build_campaign, remove_sounds
from studio.mos.stimuli.manifest_files import read_manifest
from studio.mos.stimuli.speech import LeavesHoles, add_utterance
from studio.mos.store.tables import Campaign, Clip, Item, Stimulus, System

RATE_HZ = 24_000
SYSTEM = "lark:slt?m=3,n=1,temperature=0.7"
Say = Callable[..., Path]


@pytest.fixture
def say(tmp_path: Path) -> Say:
    """Writes the trace of an utterance of one second."""

    def write(text: str = "The kettle is on.", *more: ev.Event, m: int = 3, peak: float = 0.2, **meta: Any) -> Path:
        folder = tmp_path / f"trace-{len(list(tmp_path.iterdir()))}"
        writer = TraceWriter(folder, {"temperature": 0.7, **meta})
        about = {"utterance": 1, "family": "speakstream", "frame_samples": 600, "seed": 0}
        writer.write(ev.Ready(voice="lark", speaker="slt", rate_hz=RATE_HZ, options={"m": m, "n": 1}, **about))
        writer.write(ev.TextReceived(char_start=0, text=text[:5]))
        writer.write(ev.TextReceived(char_start=5, text=text[5:]))
        tone = peak * np.sin(np.arange(RATE_HZ) / (3 + len(text) % 7 + m))
        writer.write(ev.Audio(sample=0, pcm=(32767 * tone).astype(np.int16)))
        for event in more or (ev.Ended(samples=RATE_HZ),):
            writer.write(event)
        return writer.close()

    return write


def test_utterance_starts_and_fills_a_draft(world: World, say: Say) -> None:
    """Two texts by two windows are a campaign that opens and runs."""
    outcome = add_utterance(world.listening, "mine", say(), new="speakstream-mos")
    assert outcome == {"campaign": "mine", "system": SYSTEM, "item": "text001"}
    add_utterance(world.listening, "mine", say("Another text."))
    for text in ("Another  text. ", "The kettle is on."):
        add_utterance(world.listening, "mine", say(text, m=5))
    assert [(i.name, i.text) for i in world.all(Item)] == [
        ("text001", "The kettle is on."),
        ("text002", "Another text."),
    ]
    assert [s.name for s in world.all(System)] == [SYSTEM, SYSTEM.replace("m=3", "m=5")]
    assert [s.lufs_before + s.gain_db for s in world.all(Stimulus)] == pytest.approx([-23.0] * 4)
    world.set_state("open", "mine")
    assert len(world.read(load_campaign, "mine").units) == 4


def test_complete_draft_needs_confirmation(world: World, say: Say) -> None:
    """Not asked for an incomplete draft; the addition can be undone."""
    listening = world.listening
    add_utterance(listening, "mine", say(), new="speakstream-mos")
    for text, m in (("Another text.", 3), ("The kettle is on.", 5), ("Another text.", 5)):
        add_utterance(listening, "mine", say(text, m=m))
    with pytest.raises(LeavesHoles, match=r"2 systems say all 2 scripts.* 1 sound would be missing"):
        add_utterance(listening, "mine", say("A third text."))
    with pytest.raises(LeavesHoles, match="1 sound would"):
        add_utterance(listening, "mine", say(m=6))
    assert len(world.all(Stimulus)) == 4
    outcome = add_utterance(listening, "mine", say("A third text."), is_sure=True)
    kept = listening.clips.trace_path(world.all(Stimulus)[-1].trace)
    assert kept.is_file()
    assert remove_sounds(listening, "mine", outcome["item"], outcome["system"]).left == 4
    assert [i.name for i in world.all(Item)] == ["text001", "text002"] and not kept.exists()


@pytest.mark.parametrize("is_early", [True, False])
def test_trace_stays_while_another_draft_loses_it(
    world: World, say: Say, monkeypatch: pytest.MonkeyPatch, is_early: bool
) -> None:
    """Two drafts have one utterance: it is removed from one just before, or after, the other references it."""
    trace, listening = say(), world.listening
    outcome = add_utterance(listening, "one", trace, new="speakstream-mos")
    begin = listening.clips.add_trace if is_early else building.finish_removal
    others = iter([partial(remove_sounds, listening, "one", outcome["item"], outcome["system"])])
    if not is_early:
        others = iter([partial(add_utterance, listening, "two", trace, new="speakstream-mos")])

    def meanwhile(*arguments: Any) -> Any:
        first = begin(*arguments) if is_early else None
        for other in others:  # once
            other()
        return first if is_early else begin(*arguments)

    if is_early:
        monkeypatch.setattr(listening.clips, "add_trace", meanwhile)
        add_utterance(listening, "two", trace, new="speakstream-mos")
    else:
        monkeypatch.setattr(building, "finish_removal", meanwhile)
        remove_sounds(listening, "one", outcome["item"], outcome["system"])
    (row,) = world.all(Stimulus)
    assert listening.clips.trace_path(row.trace).read_bytes() == trace.read_bytes()


def test_clip_and_trace_are_stored(world: World, say: Say) -> None:
    """The clip is the synthesised audio, levelled; the trace is a copy of the file."""
    trace = say()
    add_utterance(world.listening, "mine", trace, new="speakstream-mos")
    (row,) = world.all(Stimulus)
    kept = world.listening.clips.trace_path(row.trace)
    assert kept.read_bytes() == trace.read_bytes()
    pcm, rate_hz = world.listening.clips.read(row.clip_sha)
    made = open_trace(kept)
    assert rate_hz == made.rate_hz and len(pcm) == len(made.pcm)
    assert np.abs(pcm - made.pcm * 10 ** (row.gain_db / 20)).max() <= 1


def test_pair_test_lists_what_is_missing(world: World, say: Say) -> None:
    """It cannot be opened until then; the owner's list shows it."""
    add_utterance(world.listening, "pairs", say(), new="s5-preference")

    def lacking() -> str:
        return world.read(overview, "pairs")["lacking"]

    assert "two systems" in lacking()
    with pytest.raises(BadOption, match="two systems"):
        world.set_state("open", "pairs")
    add_utterance(world.listening, "pairs", say(m=5))
    assert lacking() == ""
    world.set_state("open", "pairs")


def test_system_says_a_text_once(world: World, say: Say) -> None:
    add_utterance(world.listening, "mine", say(), new="speakstream-mos")
    with pytest.raises(BadOption, match="says this text in 'mine' already; say another text"):
        add_utterance(world.listening, "mine", say("  The kettle\nis on."))
    assert len(world.all(Stimulus)) == 1


@pytest.mark.parametrize("state", ["open", "closed"])
def test_only_a_draft_accepts_utterances(world: World, say: Say, state: str) -> None:
    world.campaign(state=state)
    with pytest.raises(BadOption, match=f"'first' is {state}.*add to a draft, or make another campaign"):
        add_utterance(world.listening, "first", say())
    with pytest.raises(BadOption, match="exists already"):
        add_utterance(world.listening, "first", say(), new="speakstream-mos")


@pytest.mark.parametrize(
    ("more", "message"),
    [
        ((ev.Cancelled(sample=9, heard=[]), ev.Ended(samples=9)), "was stopped"),
        ((ev.OptionsChanged(options={"m": 5, "n": 1}), ev.Ended(samples=9)), "settings changed during"),
        ((ev.Failed(code="x", message="y"),), "did not finish"),
    ],
)
def test_utterance_not_spoken_by_one_system_is_refused(world: World, say: Say, more: Any, message: str) -> None:
    with pytest.raises(BadFile, match=message):
        add_utterance(world.listening, "mine", say("A text.", *more), new="speakstream-mos")
    assert all(world.all(table) == [] for table in (Campaign, System, Item, Stimulus, Clip))


@pytest.mark.parametrize(
    ("text", "how", "error"),
    [(" ", {}, BadText), ("=1+1", {}, BadFile), ("A\0 text", {}, BadFile), ("Quiet.", {"peak": 0.0}, BadFile)],
)
def test_unusable_utterance_is_refused(world: World, say: Say, text: str, how: Any, error: Any) -> None:
    with pytest.raises(error):
        add_utterance(world.listening, "mine", say(text, **how), new="speakstream-mos")
    assert world.all(Campaign) == []


def test_draft_of_imported_sounds_keeps_its_level(world: World, say: Say) -> None:
    """Rate and level of the campaign are those of its first sounds."""
    world.campaign(ACR, state="draft")  # 16 kHz, at -23 LUFS
    add_utterance(world.listening, "first", say(), is_sure=True)
    added = next(s for s in world.all(Stimulus) if s.trace)
    assert added.source_rate_hz == RATE_HZ and world.listening.clips.read(added.clip_sha)[1] == 16_000


def test_draft_of_excerpts_refuses_whole_utterances(world: World, say: Say, tmp_path: Path) -> None:
    root = tmp_path / "in"
    put(root, "slt/talk.wav", "rms/talk.wav")
    write_wav(root / "rms" / "talk.wav", to_int16(tone(0.1, 3.0)), RATE_HZ)
    write_wav(root / "slt" / "talk.wav", to_int16(tone(0.1, 3.0, hz=500.0)), RATE_HZ)
    build_campaign(world.listening, "talks", ACR, read_manifest(root), excerpt_s=1.0)
    with pytest.raises(BadOption, match=r"'talks' rates the first and the last 1 s .*choose another draft"):
        add_utterance(world.listening, "talks", say())
    assert len(world.all(Item)) == 2
