"""A draft that is edited step by step: begun from a template, then its settings, systems and texts are changed.

Whoever has only looked at a draft is forgotten when it changes, for they were shown what is no more.
"""

import hashlib
import json
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from sqlmodel import Session, col, delete, select

from studio.core.errors import BadOption, StudioError
from studio.mos.campaign.config import CampaignConfig, to_json
from studio.mos.campaign.draft import MAX_SYSTEMS, SYSTEM_ROLES, Draft
from studio.mos.campaign.names import check_name
from studio.mos.campaign.speaking_systems import TEACHER, SystemVoice, read_spec, read_voice
from studio.mos.campaign.templates import template
from studio.mos.campaign.texts import Line, lines_of
from studio.mos.kinds.registry import kind_of
from studio.mos.making.building import draft_of, extend
from studio.mos.making.removing import Removed, forget_raters, swept, unnamed
from studio.mos.making.speaking import Saying
from studio.mos.rating.campaigns import create
from studio.mos.service import Listening
from studio.mos.store.json_columns import write_json
from studio.mos.store.tables.campaigns import Campaign
from studio.mos.store.tables.stimuli import Item, Stimulus, System

FIELD = "the texts"
_NUMBERED = re.compile(r"text\d{3,}")


class ChangedMeanwhile(StudioError):
    """The draft is another one than was edited: a second page, or a command, was quicker."""

    code = "changed_meanwhile"


class LosesSounds(StudioError):
    """Sounds would go with what is taken out; whoever is sure may do it yet."""

    code = "loses_sounds"


def new_draft(listening: Listening, name: str, template_name: str) -> None:
    """Begin a draft with a template's settings and nothing to hear yet. Raises BadOption."""
    config = template(template_name)
    listening.store.write_now(lambda session: create(session, name, config, [], [], {}, whole=False))


def mark_of(campaign: Campaign) -> str:
    """Names a campaign's settings as they are: others have another mark."""
    return hashlib.sha256(campaign.config.encode()).hexdigest()[:16]


def change_settings(listening: Listening, name: str, config: CampaignConfig, seen: str | None = None) -> str:
    """Give a draft other settings; answers their mark.

    What the kind asks for need not be there yet: it is looked at when the draft is opened.

    Args:
        seen: the mark of the settings that were changed.

    Raises:
        BadOption: it is no draft, or of another kind.
        ChangedMeanwhile: its settings have another mark by now.
    """

    def work(session: Session) -> tuple[str, list[str]]:
        campaign = draft_of(session, name)
        if config.kind != campaign.kind:
            raise BadOption(
                f"{name!r} is of the kind {campaign.kind!r}, and the settings are for {config.kind!r}",
                "keep the kind, or begin another draft",
            )
        if seen is not None and seen != mark_of(campaign):
            raise ChangedMeanwhile(f"{name!r} was changed by somebody else meanwhile", "reload it and change it again")
        written = json.dumps(to_json(config), allow_nan=False)
        if written == campaign.config:
            return mark_of(campaign), []
        campaign.config = written
        session.add(campaign)
        return mark_of(campaign), _forgotten(session, campaign)

    mark, dropped = listening.store.write_now(work)
    swept(listening, Removed(0, 0), dropped)
    return mark


def put_system(listening: Listening, name: str, system: str, role: str = "test") -> None:
    """Let a draft have a system that speaks, named as ``campaign new --systems`` takes it, or give one another role.

    Raises:
        BadOption: it is no draft; the name is that of no voice; the role is none, or follows from what was made of it.
    """
    if role not in SYSTEM_ROLES[:2]:
        raise BadOption(f"the role {role!r:.40} is not known", f"it may be {', '.join(SYSTEM_ROLES[:2])}")
    check_name(system)

    def work(session: Session) -> list[str]:
        campaign = draft_of(session, name)
        there = {s.name: s for s in session.exec(select(System).where(System.campaign_id == campaign.id))}
        row = there.get(system)
        if row is None:
            row = _new_system(campaign, system, role, there)
        elif row.role != role:
            _check_role_is_free(session, campaign, row)
            row.role = role
        session.add(row)
        return _forgotten(session, campaign)

    swept(listening, Removed(0, 0), listening.store.write_now(work))


def _new_system(campaign: Campaign, system: str, role: str, there: Mapping[str, System]) -> System:
    voice = read_spec(system)
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
    assert campaign.id is not None, "rows from the database have ids"
    return System(campaign_id=campaign.id, name=system, role=role, voice=write_json(voice.described()))


def _check_role_is_free(session: Session, campaign: Campaign, system: System) -> None:
    """Raises BadOption where anchors are made of the reference: who it is shows in the sounds."""
    is_heard = session.exec(select(Stimulus.id).where(Stimulus.system_id == system.id)).first() is not None
    if system.role == "anchor" or (is_heard and kind_of(campaign.kind).anchored):
        raise BadOption(
            f"the role of {system.name!r} cannot be changed, for it has sounds and the anchors are made of one",
            "take it out, and add it again in its role (a folder called reference has that role)",
        )


def drop_system(listening: Listening, name: str, system: str) -> int:
    """Take a system out of a draft, with its sounds and the anchors made of it; texts stay.

    Answers how many sounds went.

    Raises:
        BadOption: it is no draft, or has no such system.
    """

    def work(session: Session) -> tuple[int, list[str]]:
        campaign = draft_of(session, name)
        systems = session.exec(select(System).where(System.campaign_id == campaign.id)).all()
        ids = [s.id for s in systems if s.name == system or json.loads(s.voice).get("of") == system]
        if system not in {s.name for s in systems}:
            raise BadOption(f"{name!r} has no system {system!r:.80}", f"there are {', '.join(s.name for s in systems)}")
        return _drop(session, campaign, System, ids)

    count, dropped = listening.store.write_now(work)
    swept(listening, Removed(count, 0), dropped)
    return count


def set_texts(listening: Listening, name: str, written: str, is_sure: bool = False) -> int:
    """Let a draft's test scripts be those of a text, one a line; answers how many there are.

    A line that says what a script says already is that script, wherever it stands. A script that is not there any more
    goes with its sounds; of one whose text is another those go that a voice of the studio spoke.

    Args:
        written: ``name|text`` or the text alone, as ``campaign new --texts`` reads a file.
        is_sure: also where sounds go.

    Raises:
        BadFile: a line cannot be taken.
        BadOption: it is no draft.
        LosesSounds: sounds would go; nothing was changed.
    """
    lines = lines_of(written, FIELD)

    def work(session: Session) -> tuple[int, list[str]]:
        campaign = draft_of(session, name)
        assert campaign.id is not None, "rows from the database have ids"
        items = session.exec(select(Item).where(Item.campaign_id == campaign.id).order_by(col(Item.id))).all()
        tests = {i.name: i for i in items if i.role == "test"}
        wanted = _named(lines, tests, {i.name for i in items if i.role != "test"})
        gone = [i.id for i in tests.values() if i.name not in wanted]
        other = [i.id for n, i in tests.items() if n in wanted and i.text and i.text != wanted[n]]
        stale = _spoken_of(session, campaign, other)
        lost = len(session.exec(select(Stimulus.id).where(col(Stimulus.item_id).in_(gone))).all()) + len(stale)
        if lost and not is_sure:
            raise LosesSounds(
                f"{lost} {'sound goes' if lost == 1 else 'sounds go'} with texts that are no more, or are others now",
                "save them all the same, or put the texts back",
            )
        traces = [row.trace for row in stale if row.trace]
        for row in stale:
            session.delete(row)
        dropped = _drop(session, campaign, Item, gone)[1]
        for item, text in wanted.items():
            row = tests.get(item) or Item(campaign_id=campaign.id, name=item)
            row.text = text
            session.add(row)
        return len(wanted), dropped + unnamed(session, traces)

    count, dropped = listening.store.write_now(work)
    swept(listening, Removed(0, 0), dropped)
    return count


def written_texts(items: Sequence[Item]) -> str:
    """The test scripts as ``set_texts`` takes them; a name that only numbers its text is left out."""
    tests = [i for i in items if i.role == "test"]
    return "\n".join(
        i.text if _NUMBERED.fullmatch(i.name) and "|" not in i.text else f"{i.name}|{i.text}" for i in tests
    )


def _named(lines: Sequence[Line], tests: Mapping[str, Item], taken: set[str]) -> dict[str, str]:
    """The texts by the names of their items, old ones where the text is the same."""
    found: dict[str, str] = {}
    own = {line.name for line in lines if line.is_named}
    by_text: dict[str, list[str]] = {}
    for item in tests.values():
        if item.name not in own:
            by_text.setdefault(item.text, []).append(item.name)
    same = [line for line in lines if not line.is_named and line.text in by_text]
    kept = {line.name: by_text[line.text].pop(0) for line in same if by_text[line.text]}
    used = own | set(kept.values()) | taken
    draft = Draft(Path())
    for line in lines:
        name = line.name if line.is_named else kept.get(line.name)
        if name is None:
            name = line.name if line.name not in used and line.name not in tests else _free(used | set(tests))
            used.add(name)
        if name in taken:
            raise BadOption(f"{name!r} is a trap, a gold or a practice clip of this test", "choose another name")
        draft.add_item(f"{line.name} of {FIELD}", name, line.text, new=True)
        found[name] = line.text
    return found


def _free(used: set[str]) -> str:
    return next(name for n in range(1, len(used) + 2) if (name := f"text{n:03}") not in used)


def unspoken(session: Session, campaign: Campaign) -> list[Saying]:
    """What the voices of a draft are still to say: of each system the test scripts that have a text and no sound."""
    systems = session.exec(select(System).where(System.campaign_id == campaign.id).order_by(col(System.id))).all()
    items = session.exec(select(Item).where(Item.campaign_id == campaign.id).order_by(col(Item.id))).all()
    pairs = select(Stimulus.item_id, Stimulus.system_id).where(Stimulus.campaign_id == campaign.id)
    there = set(session.exec(pairs).all())
    found: list[Saying] = []
    for system in systems:
        voice = _voice_of(system)
        texts = {i.name: i.text for i in items if i.role == "test" and i.text and (i.id, system.id) not in there}
        if voice is not None and texts:
            found.append(Saying(system.name, voice, texts, system.role))
    return found


def take_spoken(listening: Listening, name: str, manifest: Path) -> list[str]:
    """Take what was spoken for a draft; answers what the experimenter should know. Raises BadFile, BadOption."""
    return extend(listening, name, manifest)[1]


def _voice_of(system: System) -> SystemVoice | None:
    """Of a voice of the studio what speaks it; None of a folder of sounds, or a teacher."""
    try:
        return read_voice(system)
    except BadOption:
        return None


def _spoken_of(session: Session, campaign: Campaign, items: Sequence[int | None]) -> list[Stimulus]:
    """The sounds of these scripts that voices of the studio spoke."""
    systems = session.exec(select(System).where(System.campaign_id == campaign.id)).all()
    voices = [s.id for s in systems if _voice_of(s) is not None or "low_pass_hz" in json.loads(s.voice)]
    wanted = select(Stimulus).where(col(Stimulus.item_id).in_(items), col(Stimulus.system_id).in_(voices))
    return list(session.exec(wanted).all())


def _drop(
    session: Session, campaign: Campaign, table: type[Item] | type[System], ids: Sequence[int | None]
) -> tuple[int, list[str]]:
    """Delete scripts or systems with their sounds; how many sounds went, and the traces that nothing names any more."""
    column: Any = Stimulus.item_id if table is Item else Stimulus.system_id
    dropped = forget_raters(session, campaign)[1]
    rows = session.exec(select(Stimulus).where(column.in_(ids))).all()
    for row in rows:
        session.delete(row)
    session.flush()
    session.exec(delete(table).where(col(table.id).in_(ids)))
    return len(rows), unnamed(session, dropped + [row.trace for row in rows if row.trace])


def _forgotten(session: Session, campaign: Campaign) -> list[str]:
    return unnamed(session, forget_raters(session, campaign)[1])
