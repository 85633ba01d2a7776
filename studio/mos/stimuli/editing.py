"""Step-by-step editing of a draft: settings, systems and texts. A change erases the draft's preview raters."""

import hashlib
import json
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from sqlmodel import Session, col, delete, select

from studio.core.errors import BadOption, StudioError
from studio.mos.campaign.config import CampaignConfig, campaign_config, load_template, to_json
from studio.mos.campaign.manifest import MAX_SYSTEMS, SYSTEM_ROLES, ManifestBuilder
from studio.mos.campaign.names import TextLine, check_name, parse_texts
from studio.mos.campaign.voices import TEACHER, SystemVoice, parse_voice_spec, system_voice
from studio.mos.kinds.registry import kind_of
from studio.mos.service import ListeningTests
from studio.mos.sessions.campaigns import create_campaign
from studio.mos.stimuli.building import (
    DraftConflict,
    RemovalReport,
    delete_raters,
    finish_removal,
    require_draft,
    unreferenced,
)
from studio.mos.stimuli.speech import SpeechTask
from studio.mos.store.json_columns import write_json
from studio.mos.store.tables import Campaign, Item, Stimulus, System, row_id

FIELD = "the texts"
_NUMBERED = re.compile(r"text\d{3,}")


class LosesSounds(StudioError):
    """The change would delete sounds and needs a confirmation."""

    code = "loses_sounds"


def new_draft(listening: ListeningTests, name: str, template_name: str) -> None:
    """Create a draft from a template, without stimuli. Raises BadOption."""
    config = load_template(template_name)
    listening.store.write_now(lambda session: create_campaign(session, name, config, [], [], {}, whole=False))


def settings_digest(campaign: Campaign) -> str:
    """Digest of a campaign's settings, to detect concurrent changes."""
    return hashlib.sha256(campaign.config.encode()).hexdigest()[:16]


def change_settings(listening: ListeningTests, name: str, config: CampaignConfig, seen: str | None = None) -> str:
    """Replace a draft's settings; returns their digest. Requirements of the kind are checked on opening only.

    ``seen``: digest of the settings that were edited. Raises BadOption: it is not a draft, or of another kind;
    DraftConflict: the settings have changed since ``seen``.
    """

    def work(session: Session) -> tuple[str, list[str]]:
        campaign = require_draft(session, name)
        if config.kind != campaign.kind:
            raise BadOption(
                f"{name!r} is of the kind {campaign.kind!r}, and the settings are for {config.kind!r}",
                "keep the kind, or begin another draft",
            )
        if seen is not None and seen != settings_digest(campaign):
            raise DraftConflict(f"{name!r} was changed elsewhere meanwhile", "reload it and change it again")
        written = json.dumps(to_json(config), allow_nan=False)
        if written == campaign.config:
            return settings_digest(campaign), []
        has_sounds = session.exec(select(Stimulus.id).where(Stimulus.campaign_id == campaign.id)).first() is not None
        if has_sounds and config.levels != campaign_config(campaign).levels:
            raise BadOption(
                f"the sounds of {name!r} have been brought to their level ({campaign_config(campaign).levels})",
                "make the campaign anew with another levels setting",
            )
        campaign.config = written
        session.add(campaign)
        return settings_digest(campaign), _erase_previews(session, campaign)

    mark, dropped = listening.store.write_now(work)
    finish_removal(listening, RemovalReport(0, 0), dropped)
    return mark


def put_system(listening: ListeningTests, name: str, system: str, role: str = "test") -> None:
    """Add a voice to a draft as a system (a spec as for ``campaign new --systems``), or change a system's role.

    Raises BadOption: it is not a draft, or the spec or role is invalid or fixed by existing sounds.
    """
    if role not in SYSTEM_ROLES[:2]:
        raise BadOption(f"the role {role!r:.40} is not known", f"it may be {', '.join(SYSTEM_ROLES[:2])}")
    check_name(system)

    def work(session: Session) -> list[str]:
        campaign = require_draft(session, name)
        there = {s.name: s for s in session.exec(select(System).where(System.campaign_id == campaign.id))}
        row = there.get(system)
        if row is None:
            row = _new_system(campaign, system, role, there)
        elif row.role != role:
            _check_role_is_free(session, campaign, row)
            row.role = role
        session.add(row)
        return _erase_previews(session, campaign)

    finish_removal(listening, RemovalReport(0, 0), listening.store.write_now(work))


def _new_system(campaign: Campaign, system: str, role: str, there: Mapping[str, System]) -> System:
    voice = parse_voice_spec(system)
    if voice.voice == TEACHER:
        raise BadOption(
            "a teacher is spoken by the command line alone",
            "`studio campaign new NAME --draft --systems teacher:NAME` makes its sounds",
        )
    if system.casefold() in {known.casefold() for known in there} or len(there) >= MAX_SYSTEMS:
        raise BadOption(
            f"{system!r} differs only in capitals from another system, or there are {MAX_SYSTEMS} of them",
            "use one spelling; divide more systems into several campaigns",
        )
    return System(campaign_id=row_id(campaign), name=system, role=role, voice=write_json(voice.to_dict()))


def _check_role_is_free(session: Session, campaign: Campaign, system: System) -> None:
    """Raises BadOption if anchors were derived from the reference, which fixes its role."""
    is_heard = session.exec(select(Stimulus.id).where(Stimulus.system_id == system.id)).first() is not None
    if system.role == "anchor" or (is_heard and kind_of(campaign.kind).needs_anchors):
        raise BadOption(
            f"the role of {system.name!r} cannot be changed, for it has sounds and the anchors are made of one",
            "take it out, and add it again in its role (a folder called reference has that role)",
        )


def drop_system(listening: ListeningTests, name: str, system: str) -> int:
    """Delete a system of a draft with its sounds and derived anchors; returns the number of deleted sounds.

    Raises BadOption: it is not a draft, or has no such system.
    """

    def work(session: Session) -> tuple[int, list[str]]:
        campaign = require_draft(session, name)
        systems = session.exec(select(System).where(System.campaign_id == campaign.id)).all()
        ids = [s.id for s in systems if s.name == system or json.loads(s.voice).get("of") == system]
        if system not in {s.name for s in systems}:
            raise BadOption(f"{name!r} has no system {system!r:.80}", f"there are {', '.join(s.name for s in systems)}")
        return _drop(session, campaign, System, ids)

    count, dropped = listening.store.write_now(work)
    finish_removal(listening, RemovalReport(count, 0), dropped)
    return count


def set_texts(listening: ListeningTests, name: str, written: str, is_sure: bool = False) -> int:
    """Replace a draft's test scripts, one per line; returns their number.

    A line with the text of an existing script keeps that script. Missing scripts are deleted with their sounds; a
    changed text deletes the sounds by voices of the studio. ``written``: ``name|text`` or the text alone, as in
    ``campaign new --texts``; ``is_sure``: allow deletion of sounds.

    Raises:
        BadFile: a line is invalid.
        BadOption: it is not a draft.
        LosesSounds: sounds would be deleted; nothing was changed.
    """
    lines = parse_texts(written, FIELD)

    def work(session: Session) -> tuple[int, list[str]]:
        campaign = require_draft(session, name)
        items = session.exec(select(Item).where(Item.campaign_id == campaign.id).order_by(col(Item.id))).all()
        tests = {i.name: i for i in items if i.role == "test"}
        wanted = _named(lines, tests, {i.name for i in items if i.role != "test"})
        gone = [i.id for i in tests.values() if i.name not in wanted]
        other = [i.id for n, i in tests.items() if n in wanted and i.text and i.text != wanted[n]]
        stale = _spoken_of(session, campaign, other)
        lost = len(session.exec(select(Stimulus.id).where(col(Stimulus.item_id).in_(gone))).all()) + len(stale)
        if lost and not is_sure:
            raise LosesSounds(
                f"{lost} {'sound' if lost == 1 else 'sounds'} of removed or changed texts would be deleted",
                "save them all the same, or put the texts back",
            )
        traces = [row.trace for row in stale if row.trace]
        for row in stale:
            session.delete(row)
        dropped = _drop(session, campaign, Item, gone)[1]
        for item, text in wanted.items():
            row = tests.get(item) or Item(campaign_id=row_id(campaign), name=item)
            row.text = text
            session.add(row)
        return len(wanted), dropped + unreferenced(session, traces)

    count, dropped = listening.store.write_now(work)
    finish_removal(listening, RemovalReport(0, 0), dropped)
    return count


def written_texts(items: Sequence[Item]) -> str:
    """The test scripts in the format of ``set_texts``; generated names are omitted."""
    tests = [i for i in items if i.role == "test"]
    return "\n".join(
        i.text if _NUMBERED.fullmatch(i.name) and "|" not in i.text else f"{i.name}|{i.text}" for i in tests
    )


def _named(lines: Sequence[TextLine], tests: Mapping[str, Item], reserved: set[str]) -> dict[str, str]:
    """Texts by item name; lines with an existing text keep that item's name."""
    texts: dict[str, str] = {}
    own = {line.name for line in lines if line.is_named}
    by_text: dict[str, list[str]] = {}
    for item in tests.values():
        if item.name not in own:
            by_text.setdefault(item.text, []).append(item.name)
    same = [line for line in lines if not line.is_named and line.text in by_text]
    reused_names = {line.name: by_text[line.text].pop(0) for line in same if by_text[line.text]}
    used = own | set(reused_names.values()) | reserved
    draft = ManifestBuilder(Path())
    for line in lines:
        name = line.name if line.is_named else reused_names.get(line.name)
        if name is None:
            name = line.name if line.name not in used and line.name not in tests else _free(used | set(tests))
            used.add(name)
        if name in reserved:
            raise BadOption(f"{name!r} is a trap, a gold or a practice clip of this test", "choose another name")
        draft.add_item(f"{line.name} of {FIELD}", name, line.text, new=True)
        texts[name] = line.text
    return texts


def _free(used: set[str]) -> str:
    return next(name for n in range(1, len(used) + 2) if (name := f"text{n:03}") not in used)


def missing_speech(session: Session, campaign: Campaign) -> list[SpeechTask]:
    """Test scripts with a text but no sound, per voice of a draft."""
    systems = session.exec(select(System).where(System.campaign_id == campaign.id).order_by(col(System.id))).all()
    items = session.exec(select(Item).where(Item.campaign_id == campaign.id).order_by(col(Item.id))).all()
    pairs = select(Stimulus.item_id, Stimulus.system_id).where(Stimulus.campaign_id == campaign.id)
    there = set(session.exec(pairs).all())
    tasks: list[SpeechTask] = []
    for system in systems:
        voice = _voice_of(system)
        texts = {i.name: i.text for i in items if i.role == "test" and i.text and (i.id, system.id) not in there}
        if voice is not None and texts:
            tasks.append(SpeechTask(system.name, voice, texts, system.role))
    return tasks


def _voice_of(system: System) -> SystemVoice | None:
    """The voice of a system; None for a folder of sounds or a teacher."""
    try:
        return system_voice(system)
    except BadOption:
        return None


def _spoken_of(session: Session, campaign: Campaign, items: Sequence[int | None]) -> list[Stimulus]:
    """The sounds of these scripts by voices of the studio."""
    systems = session.exec(select(System).where(System.campaign_id == campaign.id)).all()
    voices = [s.id for s in systems if _voice_of(s) is not None or "low_pass_hz" in json.loads(s.voice)]
    wanted = select(Stimulus).where(col(Stimulus.item_id).in_(items), col(Stimulus.system_id).in_(voices))
    return list(session.exec(wanted).all())


def _drop(
    session: Session, campaign: Campaign, table: type[Item] | type[System], ids: Sequence[int | None]
) -> tuple[int, list[str]]:
    """Delete scripts or systems with their sounds; returns the number of sounds, and unreferenced traces."""
    column: Any = Stimulus.item_id if table is Item else Stimulus.system_id
    dropped = delete_raters(session, campaign)[1]
    rows = session.exec(select(Stimulus).where(column.in_(ids))).all()
    for row in rows:
        session.delete(row)
    session.flush()
    session.exec(delete(table).where(col(table.id).in_(ids)))
    return len(rows), unreferenced(session, dropped + [row.trace for row in rows if row.trace])


def _erase_previews(session: Session, campaign: Campaign) -> list[str]:
    """Erase a draft's raters; returns the unreferenced traces of their takes."""
    return unreferenced(session, delete_raters(session, campaign)[1])
