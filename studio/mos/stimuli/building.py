"""Drafts: built and extended from manifests (sounds converted to one rate and level), and deletion of their parts."""

import json
import logging
from collections.abc import Callable, Container, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

from sqlalchemy.exc import SQLAlchemyError
from sqlmodel import Session, col, delete, select

from studio.core.clips import to_float
from studio.core.errors import BadFile, BadOption, StudioError
from studio.core.worker import call_here
from studio.mos.campaign.config import CampaignConfig, campaign_config
from studio.mos.campaign.manifest import ItemSpec, StimulusManifest, SystemSpec
from studio.mos.campaign.names import read_tags
from studio.mos.kinds.registry import kind_of
from studio.mos.service import ListeningTests
from studio.mos.sessions.campaigns import add_stimuli, create_campaign, find_campaign, load_campaign
from studio.mos.sessions.erasure import delete_rater, sweep_takes
from studio.mos.stimuli.derived import (
    MID_HZ,
    Excerpt,
    excerpt_length_s,
    of_whole_scripts,
    read_source,
    with_anchors,
    with_excerpts,
)
from studio.mos.stimuli.manifest_files import read_manifest
from studio.mos.store.clips import CampaignLevel, ClipFolder, StoredClip, store_stimuli
from studio.mos.store.sounds import LEVEL_RULES, LOWEST_RATE_HZ, TELEPHONE_RATE_HZ, LevelRule, SourceSound
from studio.mos.store.tables import AssignmentMark, Campaign, Clip, Item, Look, Rater, Removal, Stimulus, System, row_id

_MIN_BANDWIDTH_HZ = 10_000  # of a reference, so that an anchor removes more than a third of an octave
log = logging.getLogger("studio.mos")
T = TypeVar("T")


class DraftConflict(StudioError, code="changed_meanwhile"):
    """Another page or command has changed the draft concurrently."""


def build_campaign(
    listening: ListeningTests,
    name: str,
    config: CampaignConfig,
    manifest: StimulusManifest,
    *,
    seed: int | None = None,
    excerpt_s: float | None = None,
    then: Callable[[Session], object] = lambda _: None,
    on_sound: Callable[[], None] = lambda: None,
) -> list[str]:
    """Create a draft campaign from a manifest; returns warnings.

    Args:
        excerpt_s: rate the first and last ``excerpt_s`` seconds of each script as separate stimuli.
        then: runs in the same transaction.
        on_sound: progress callback, called three times per sound.

    Raises:
        BadFile: a sound is unusable, or required stimuli are missing; nothing was created.
        BadOption: the name is taken, or the settings do not fit the kind.
    """
    manifest, excerpts = (manifest, {}) if excerpt_s is None else with_excerpts(manifest, excerpt_s)
    manifest, cuts = with_anchors(manifest) if kind_of(config.kind).needs_anchors else (manifest, {})
    clips, notes = _store(listening, config, manifest, manifest.files, None, on_sound, cuts, excerpts)
    notes += same_sound_warnings({key: clip.sha for key, clip in clips.items()})
    narrow = sorted(
        {c.source_rate_hz for k, c in clips.items() if k in cuts and c.source_rate_hz < 2 * _MIN_BANDWIDTH_HZ}
    )
    if narrow:
        rates = ", ".join(f"{rate} Hz" for rate in narrow)
        notes.append(f"an anchor of {MID_HZ} Hz removes hardly anything from a reference of {rates}")

    def make(session: Session) -> None:
        create_campaign(session, name, config, manifest.systems, manifest.items, clips, seed)
        then(session)

    listening.store.write_now(make)
    store_traces(listening.clips, manifest, clips)
    return [*manifest.warnings, *notes]


def extend_campaign(
    listening: ListeningTests,
    name: str,
    source: Path,
    *,
    on_sound: Callable[[], None] = lambda: None,
    run: Callable[..., Any] = call_here,
) -> tuple[int, list[str]]:
    """Add the sounds of a folder or manifest to a draft; returns their number and warnings.

    Existing and new content is validated as one manifest: a complete draft must stay complete, a draft with missing
    sounds accepts any part. New sounds get the existing level, and are cut if the campaign rates excerpts.

    Args:
        run: calls a function that reads the manifest or a sound; on a server, in another process.

    Raises:
        BadFile: a sound is unusable, or the result is incomplete; nothing was added.
        BadOption: the campaign does not exist or is not a draft.
        DraftConflict: the draft was changed concurrently; the import may be repeated.
    """
    with listening.store.read() as session:
        row = require_draft(session, name)
        config = campaign_config(row)
        there, level = campaign_contents(session, row, listening.clips)
    existing, excerpt_s = _without_derived_anchors(there), excerpt_length_s(there)
    is_whole = _all_have_sounds(there)
    existing = existing if excerpt_s is None else of_whole_scripts(existing)
    manifest = run(read_manifest, source, existing, is_whole, config.incomplete)
    cuts, excerpts = {}, {}
    if excerpt_s is not None:
        manifest, excerpts = with_excerpts(manifest, excerpt_s)
    if kind_of(config.kind).needs_anchors:
        manifest, cuts = with_anchors(manifest)
    files = {key: file for key, file in manifest.files.items() if key not in there.files}
    if not files:
        raise BadFile(f"{source.name} holds no sound", "put sounds into it as SYSTEM/ITEM.wav, or list them")
    clips, notes = _store(listening, config, manifest, files, level, on_sound, cuts, excerpts, run)
    shas = {key: clip.sha for key, clip in clips.items()}
    notes += same_sound_warnings({**{key: file.stem for key, file in there.files.items()}, **shas}, among=shas)

    def add(session: Session) -> None:
        campaign = require_draft(session, name)
        if campaign_contents(session, campaign, listening.clips)[0] != there:
            raise DraftConflict(f"{name!r} was changed elsewhere meanwhile", "import again")
        add_stimuli(session, row_id(campaign), manifest.systems, manifest.items, clips)
        if is_whole:
            load_campaign(session, campaign)

    listening.store.write_now(add)
    store_traces(listening.clips, manifest, clips)
    return len(clips), [*manifest.warnings, *notes]


def _all_have_sounds(there: StimulusManifest) -> bool:
    """Whether every system and every script has a sound."""
    items, systems = {item for item, _ in there.files}, {system for _, system in there.files}
    return bool(there.files) and {i.name for i in there.items} == items and {s.name for s in there.systems} == systems


def require_draft(session: Session, name: str) -> Campaign:
    """A draft by name. Raises BadOption if it does not exist or is not a draft."""
    campaign = find_campaign(session, name)
    if campaign.state != "draft":
        raise BadOption(
            f"{name!r} is {campaign.state}, and only drafts can be changed",
            "add to a draft, or make another campaign: `studio campaign new --draft`",
        )
    return campaign


def campaign_contents(
    session: Session, campaign: Campaign, clips: ClipFolder
) -> tuple[StimulusManifest, CampaignLevel | None]:
    """A campaign's content as a manifest, and the rate and level of its sounds (None without sounds)."""
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
    contents = StimulusManifest(
        [SystemSpec(s.name, s.role, json.loads(s.voice)) for s in systems],
        [ItemSpec(i.name, i.text, i.role, i.expected, read_tags(i.tags)) for i in items],
        {(item, system): clips.path(stimulus.clip_sha) for item, system, stimulus, _ in rows},
        [],
    )
    if not rows:
        return contents, None
    _, _, first, rate_hz = rows[0]
    sources_hz = {(item, system): stimulus.source_rate_hz for item, system, stimulus, _ in rows}
    name, rule = level_rule(campaign_config(campaign))
    if name == "active":
        pcm, _ = clips.read(first.clip_sha)
        level = min(rule.target, rule.measure(SourceSound(to_float(pcm), rate_hz)))
    else:
        level = first.gain_db if name == "keep" else first.lufs_before + first.gain_db
    return contents, CampaignLevel(rate_hz, level, sources_hz, clips.channels(first.clip_sha), rule)


def level_rule(config: CampaignConfig) -> tuple[str, LevelRule]:
    """Name and rule of the level of a campaign's sounds."""
    return config.levels, LEVEL_RULES[config.levels]


def _without_derived_anchors(there: StimulusManifest) -> StimulusManifest:
    """The content without generated anchors, which are regenerated for new scripts too."""
    generated = {s.name for s in there.systems if s.role == "anchor" and "low_pass_hz" in (s.voice or {})}
    systems = [s for s in there.systems if s.name not in generated]
    return replace(there, systems=systems, files={k: f for k, f in there.files.items() if k[1] not in generated})


def _store(
    listening: ListeningTests,
    config: CampaignConfig,
    manifest: StimulusManifest,
    files: Mapping[tuple[str, str], Path],
    level: CampaignLevel | None,
    on_sound: Callable[[], None],
    cuts: Mapping[tuple[str, str], int] | None = None,
    excerpts: Mapping[str, Excerpt] | None = None,
    run: Callable[..., Any] = call_here,
) -> tuple[dict[tuple[str, str], StoredClip], list[str]]:
    lowest_hz = TELEPHONE_RATE_HZ if config.narrowband else LOWEST_RATE_HZ

    def counted(function: Callable[..., T], *arguments: Any) -> T:
        on_sound()
        return run(function, *arguments)

    loaders = {
        key: partial(read_source, key[1], path, lowest_hz, (excerpts or {}).get(key[0]), (cuts or {}).get(key))
        for key, path in files.items()
    }
    clips, notes = store_stimuli(loaders, listening.clips, level, level_rule(config)[1], counted)
    for key, trace in store_traces(listening.clips, manifest, clips).items():
        clips[key] = replace(clips[key], trace=trace)
    return clips, notes


def store_traces(
    folder: ClipFolder, manifest: StimulusManifest, keys: Iterable[tuple[str, str]]
) -> dict[tuple[str, str], str]:
    """Store the traces of these sounds and return their addresses.

    Call it before the commit that references them, and again after it: until the commit, a removal of the same
    utterance from another draft may delete the files.
    """
    traces = {key: manifest.traces[key] for key in keys if key in manifest.traces}
    return {key: folder.add_trace(trace.read_bytes()) for key, trace in traces.items()}


_MAX_LISTED = 10


def same_sound_warnings(
    shas: Mapping[tuple[str, str], str], among: Container[tuple[str, str]] | None = None
) -> list[str]:
    """Warnings about systems with identical samples for a script, possibly copied by mistake.

    ``shas``: address of every normalised clip by (item, system); ``among``: report only pairs with at least one of
    these keys.
    """
    systems: dict[tuple[str, str], list[str]] = {}
    for (item, system), sha in shas.items():
        systems.setdefault((item, sha), []).append(system)
    duplicates = sorted(
        f"{item} by {' and '.join(names)}"
        for (item, _), names in systems.items()
        if len(names) > 1 and (among is None or any((item, name) in among for name in names))
    )
    if not duplicates:
        return []
    more = f", and {len(duplicates) - _MAX_LISTED} more" if len(duplicates) > _MAX_LISTED else ""
    return [
        f"sounds that are the same under two systems, sample for sample: {', '.join(duplicates[:_MAX_LISTED])}{more}"
    ]


@dataclass(frozen=True)
class RemovalReport:
    """Number of deleted sounds and answers, and of remaining sounds.

    A campaign without sounds is deleted, unless it has systems or texts to synthesise.
    """

    sounds: int
    left: int
    answers: int = 0


def remove_sounds(
    listening: ListeningTests, name: str, item: str | None = None, system: str | None = None
) -> RemovalReport:
    """Delete the sounds of a script, of a system, or their one common sound from a draft.

    A script or system without sounds is deleted, too. Preview raters are erased, since they saw the deleted sounds.
    Raises BadOption: it is not a draft, or has no such sound.
    """
    if item is None and system is None:
        raise BadOption("nothing was named", "name a script, a system, or both for their one sound")

    def work(session: Session) -> tuple[RemovalReport, list[str]]:
        campaign = require_draft(session, name)
        wanted = select(Stimulus).where(Stimulus.campaign_id == campaign.id)
        if item is not None:
            wanted = wanted.where(Stimulus.item_id == _named(session, campaign, Item, item))
        if system is not None:
            wanted = wanted.where(Stimulus.system_id == _named(session, campaign, System, system))
        gone = session.exec(wanted).all()
        if not gone:
            raise BadOption(f"{system!r} does not say {item!r} in {name!r}", "name a sound that is there")
        dropped = delete_raters(session, campaign)[1]
        for row in gone:
            session.delete(row)
        session.flush()
        for table, column, ids in (
            (Item, Stimulus.item_id, {row.item_id for row in gone}),
            (System, Stimulus.system_id, {row.system_id for row in gone}),
        ):
            silent = ~col(table.id).in_(select(column).where(Stimulus.campaign_id == campaign.id))
            session.exec(delete(table).where(col(table.id).in_(ids), silent))
        left = len(session.exec(select(Stimulus.id).where(Stimulus.campaign_id == campaign.id)).all())
        planned = [session.exec(select(t.id).where(t.campaign_id == campaign.id)).first() for t in (Item, System)]
        if not left and planned == [None, None]:
            _delete_rows(session, campaign)
        dropped += [row.trace for row in gone if row.trace]
        return RemovalReport(len(gone), left), unreferenced(session, dropped)

    return finish_removal(listening, *listening.store.write_now(work))


def delete_campaign(listening: ListeningTests, name: str, *, only_draft: bool = False) -> RemovalReport:
    """Delete a campaign that is not open, with all raters and answers.

    Raises BadOption: it does not exist, is open, or with ``only_draft`` is not a draft.
    """

    def work(session: Session) -> tuple[RemovalReport, list[str]]:
        campaign = require_draft(session, name) if only_draft else find_campaign(session, name)
        if campaign.state == "open":
            raise BadOption(f"{name!r} is open, and raters are at it", "`studio campaign close` it first")
        answers, dropped = delete_raters(session, campaign)
        rows = session.exec(select(Stimulus).where(Stimulus.campaign_id == campaign.id)).all()
        _delete_rows(session, campaign)
        dropped += [row.trace for row in rows if row.trace]
        return RemovalReport(len(rows), 0, answers), unreferenced(session, dropped)

    return finish_removal(listening, *listening.store.write_now(work))


def finish_removal(listening: ListeningTests, removed: RemovalReport, traces: list[str]) -> RemovalReport:
    """Delete unreferenced files after a commit; errors are logged, since the change is already stored."""
    listening.clear_campaign_cache()
    for trace in traces:
        try:
            listening.store.write_now(partial(_drop_trace, listening.clips, trace))
        except (OSError, SQLAlchemyError, StudioError) as error:
            log.error("the trace %s is not needed any more and cannot be deleted: %s", trace, error)
    with suppress(OSError):
        sweep_takes(listening.clips)
    listening.store.truncate_log()
    return removed


def _drop_trace(clips: ClipFolder, trace: str, session: Session) -> None:
    """Delete a trace within the writer's lock, unless another draft references it by now (see ``store_traces``)."""
    if unreferenced(session, [trace]):
        clips.drop_trace(trace)


def _named(session: Session, campaign: Campaign, table: type[Item] | type[System], name: str) -> int | None:
    known = dict(session.exec(select(table.name, table.id).where(table.campaign_id == campaign.id)).all())
    if name not in known:
        what = "script" if table is Item else "system"
        raise BadOption(f"{campaign.name!r} has no {what} {name!r:.80}", f"there are {', '.join(sorted(known)[:20])}")
    return known[name]


def delete_raters(session: Session, campaign: Campaign) -> tuple[int, list[str]]:
    """Delete all raters of a campaign; returns the number of counted answers, and the traces of their takes."""
    answers, dropped = 0, list[str]()
    for pseudonym in session.exec(select(Rater.pseudonym).where(Rater.campaign_id == campaign.id)).all():
        gone, typed = delete_rater(session, campaign, pseudonym)
        answers, dropped = answers + gone, dropped + typed
    session.flush()
    return answers, dropped


def _delete_rows(session: Session, campaign: Campaign) -> None:
    for table in (Stimulus, Item, System, Look, Removal, AssignmentMark):
        session.exec(delete(table).where(col(table.campaign_id) == campaign.id))
    session.exec(delete(Campaign).where(col(Campaign.id) == campaign.id))


def unreferenced(session: Session, traces: list[str]) -> list[str]:
    """The traces that no stimulus references."""
    session.flush()
    named = set(session.exec(select(Stimulus.trace).where(col(Stimulus.trace).in_(traces))))
    return [trace for trace in traces if trace not in named]
