"""From a manifest to a draft campaign: every sound at one rate and level, kept by content, then named in the store."""

import json
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path

from sqlmodel import Session, col, select

from studio.core.errors import BadFile, BadOption
from studio.mos.campaign.config import CampaignConfig, from_json
from studio.mos.campaign.draft import ItemSpec, Manifest, SystemSpec
from studio.mos.campaign.names import read_tags
from studio.mos.kinds.registry import kind_of
from studio.mos.making.anchors import MID_HZ, anchor, with_anchors
from studio.mos.making.excerpts import Excerpt, excerpt_length_s, of_whole_scripts, read_excerpt, with_excerpts
from studio.mos.making.manifest import read_manifest
from studio.mos.making.same_sounds import same_sound_warnings
from studio.mos.rating.campaigns import add_stimuli, create, find, running
from studio.mos.service import Listening
from studio.mos.store.clips import ClipFolder, Level, StoredClip, store_stimuli
from studio.mos.store.sounds import LOWEST_RATE_HZ, TELEPHONE_RATE_HZ, Sound, read_clip
from studio.mos.store.tables.campaigns import Campaign
from studio.mos.store.tables.stimuli import Clip, Item, Stimulus, System

_ABOVE_HZ = 10_000  # what an anchor takes away should be wider than a third of an octave


def build(
    listening: Listening,
    name: str,
    config: CampaignConfig,
    manifest: Manifest,
    *,
    seed: int | None = None,
    excerpt_s: float | None = None,
    then: Callable[[Session], object] = lambda _: None,
    heard: Callable[[], None] = lambda: None,
) -> list[str]:
    """Make a draft campaign of a manifest; answers what the experimenter should know.

    Args:
        excerpt_s: rate the first and the last so many seconds of each script, as separate stimuli.
        then: done in the same transaction, so that a campaign is never left without it.
        heard: called each time a sound was read, three times for each.

    Raises:
        BadFile: a sound cannot be taken, or something that the kind needs is missing; nothing was made.
        BadOption: the name is taken, or the settings do not fit the kind.
    """
    manifest, excerpts = (manifest, {}) if excerpt_s is None else with_excerpts(manifest, excerpt_s)
    manifest, cuts = with_anchors(manifest) if kind_of(config.kind).anchored else (manifest, {})
    clips, told = _store(listening, config, manifest, manifest.files, None, heard, cuts, excerpts)
    told += same_sound_warnings({key: clip.sha for key, clip in clips.items()})
    narrow = sorted({c.source_rate_hz for k, c in clips.items() if k in cuts and c.source_rate_hz < 2 * _ABOVE_HZ})
    if narrow:
        rates = ", ".join(f"{rate} Hz" for rate in narrow)
        told.append(f"an anchor of {MID_HZ} Hz takes hardly anything from a reference of {rates}")

    def make(session: Session) -> None:
        create(session, name, config, manifest.systems, manifest.items, clips, seed)
        then(session)

    listening.store.write_now(make)
    return [*manifest.warnings, *told]


def extend(
    listening: Listening,
    name: str,
    source: Path,
    *,
    heard: Callable[[], None] = lambda: None,
) -> tuple[int, list[str]]:
    """Add the sounds of a folder or manifest to a draft; answers how many, and what the experimenter should know.

    What is there and what comes are checked as one manifest: a draft that is whole stays so, while one whose systems
    have texts still to be spoken takes any part. The new sounds are brought to the level of the others, and cut as
    those were where the campaign rates excerpts of its scripts.

    Raises:
        BadFile: a sound cannot be taken, or the two do not make a whole; nothing was added.
        BadOption: there is no such campaign, or it is no draft.
    """
    with listening.store.read() as session:
        row = draft_of(session, name)
        config = from_json(json.loads(row.config))
        there, level = contents(session, row, listening.clips)
    given, excerpt_s = _without_made_anchors(there), excerpt_length_s(there)
    is_whole = _is_heard(there)
    manifest = read_manifest(source, given if excerpt_s is None else of_whole_scripts(given), is_whole)
    cuts, excerpts = {}, {}
    if excerpt_s is not None:
        manifest, excerpts = with_excerpts(manifest, excerpt_s)
    if kind_of(config.kind).anchored:
        manifest, cuts = with_anchors(manifest)
    files = {key: file for key, file in manifest.files.items() if key not in there.files}
    if not files:
        raise BadFile(f"{source.name} holds no sound", "put sounds into it as SYSTEM/ITEM.wav, or list them")
    clips, told = _store(listening, config, manifest, files, level, heard, cuts, excerpts)
    shas = {key: clip.sha for key, clip in clips.items()}
    told += same_sound_warnings({**{key: file.stem for key, file in there.files.items()}, **shas}, among=shas)

    def add(session: Session) -> None:
        campaign = draft_of(session, name)
        assert campaign.id is not None, "rows from the database have ids"
        if contents(session, campaign, listening.clips)[0] != there:
            raise BadOption(f"{name!r} was changed by somebody else meanwhile", "import again")
        add_stimuli(session, campaign.id, manifest.systems, manifest.items, clips)
        if is_whole:
            running(session, campaign)

    listening.store.write_now(add)
    return len(clips), [*manifest.warnings, *told]


def _is_heard(there: Manifest) -> bool:
    """Whether every system and every script has a sound: nothing waits to be spoken, or brought."""
    items, systems = {item for item, _ in there.files}, {system for _, system in there.files}
    return bool(there.files) and {i.name for i in there.items} == items and {s.name for s in there.systems} == systems


def draft_of(session: Session, name: str) -> Campaign:
    """A campaign that may still be changed. Raises BadOption, also for one that was opened."""
    campaign = find(session, name)
    if campaign.state != "draft":
        raise BadOption(
            f"{name!r} is {campaign.state}, and what raters were given never changes",
            "add to a draft, or make another campaign: `studio campaign new --draft`",
        )
    return campaign


def contents(session: Session, campaign: Campaign, clips: ClipFolder) -> tuple[Manifest, Level | None]:
    """What a campaign holds, and the rate and level of its sounds; no level where there is no sound yet."""
    systems = session.exec(select(System).where(System.campaign_id == campaign.id).order_by(col(System.id))).all()
    items = session.exec(select(Item).where(Item.campaign_id == campaign.id).order_by(col(Item.id))).all()
    rows = session.exec(
        select(Item.name, System.name, Stimulus, Clip.rate_hz)
        .join(Stimulus, col(Stimulus.item_id) == col(Item.id))
        .join(System, col(System.id) == col(Stimulus.system_id))
        .join(Clip, col(Clip.sha) == col(Stimulus.clip_sha))
        .where(Item.campaign_id == campaign.id)
        .order_by(col(Stimulus.id))
    ).all()
    found = Manifest(
        [SystemSpec(s.name, s.role, json.loads(s.voice)) for s in systems],
        [ItemSpec(i.name, i.text, i.role, i.expected, read_tags(i.tags)) for i in items],
        {(item, system): clips.path(stimulus.clip_sha) for item, system, stimulus, _ in rows},
        [],
    )
    if not rows:
        return found, None
    _, _, first, rate_hz = rows[0]
    sources_hz = {(item, system): stimulus.source_rate_hz for item, system, stimulus, _ in rows}
    return found, Level(rate_hz, first.lufs_before + first.gain_db, sources_hz)


def _without_made_anchors(there: Manifest) -> Manifest:
    """What of a campaign was given: anchors that were made of its reference are made for new scripts too."""
    made = {s.name for s in there.systems if s.role == "anchor" and "low_pass_hz" in (s.voice or {})}
    systems = [s for s in there.systems if s.name not in made]
    return replace(there, systems=systems, files={k: f for k, f in there.files.items() if k[1] not in made})


def _store(
    listening: Listening,
    config: CampaignConfig,
    manifest: Manifest,
    files: Mapping[tuple[str, str], Path],
    level: Level | None,
    heard: Callable[[], None],
    cuts: Mapping[tuple[str, str], int] | None = None,
    excerpts: Mapping[str, Excerpt] | None = None,
) -> tuple[dict[tuple[str, str], StoredClip], list[str]]:
    lowest_hz = TELEPHONE_RATE_HZ if config.narrowband else LOWEST_RATE_HZ

    def loader(system: str, path: Path, cutoff_hz: int | None, excerpt: Excerpt | None) -> Callable[[], Sound]:
        def load() -> Sound:
            heard()
            try:
                sound = (
                    read_clip(path, lowest_rate_hz=lowest_hz)
                    if excerpt is None
                    else read_excerpt(path, excerpt, lowest_hz)
                )
            except BadFile as error:  # every system has a file of that name
                raise BadFile(f"{system}: {error.what}", error.do) from error
            return sound if cutoff_hz is None else anchor(sound, cutoff_hz)

        return load

    loaders = {
        key: loader(key[1], path, (cuts or {}).get(key), (excerpts or {}).get(key[0])) for key, path in files.items()
    }
    clips, told = store_stimuli(loaders, listening.clips, level)
    for key in clips.keys() & manifest.traces.keys():
        trace = listening.clips.add_trace(manifest.traces[key].read_bytes())
        clips[key] = replace(clips[key], trace=trace)
    return clips, told
