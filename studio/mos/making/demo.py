"""The tests that come with the studio: sounds that a visitor can rate at once, and an arena of their voices."""

import logging
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from sqlmodel import Session

from studio.core.errors import StudioError
from studio.mos.campaign.config import CampaignConfig
from studio.mos.campaign.draft import Manifest
from studio.mos.campaign.templates import template, with_settings
from studio.mos.making.building import build
from studio.mos.making.manifest import read_manifest
from studio.mos.rating.campaigns import free_name, set_state
from studio.mos.service import Listening
from studio.mos.store.tables.campaigns import Campaign
from studio.mos.store.tables.secrets import Secret

NAME, ARENA_NAME = "studio-demo", "studio-demo-arena"
MANIFEST, SETTINGS = "manifest.json", "campaign.toml"
_TEMPLATE = "speakstream-mos"
_SEED = 0  # two studios have the same demo, so that merging them joins it
_KNOWN = {NAME: "demo", ARENA_NAME: "demo-arena"}  # rows that say which are ours: anybody may call theirs so

log = logging.getLogger("studio.mos")


def add_demo(listening: Listening, folder: Path) -> bool:
    """Make and open the demo from its folder; False where this database has had it before.

    Raises:
        BadFile: the folder is not whole.
        BadOption: its settings are not known.
    """
    return _add(
        listening, NAME, lambda: (with_settings(_TEMPLATE, folder / SETTINGS), read_manifest(folder / MANIFEST))
    )


def add_arena(listening: Listening, folder: Path) -> bool:
    """Make and open an arena of the demo's voices, to which visitors type; False where this database has had it before.

    It is made when somebody asks for it, never by a server that starts: what visitors type is kept.

    Raises:
        BadFile: the folder is not whole.
    """

    def made() -> tuple[CampaignConfig, Manifest]:
        manifest = read_manifest(folder / MANIFEST)
        voices = [system for system in manifest.systems if system.role == "test"]
        names = {system.name for system in voices}
        files = {key: file for key, file in manifest.files.items() if key[1] in names}
        return template("arena"), replace(manifest, systems=voices, files=files)

    return _add(listening, ARENA_NAME, made)


def _add(listening: Listening, wanted: str, made: Callable[[], tuple[CampaignConfig, Manifest]]) -> bool:
    with listening.store.read() as session:
        if session.get(Secret, _KNOWN[wanted]) is not None:
            return False
        name = free_name(session, wanted)

    def begin(session: Session) -> None:
        session.add(Secret(name=_KNOWN[wanted], value=str(set_state(session, name, "open").id)))

    config, manifest = made()
    build(listening, name, config, manifest, seed=_SEED, then=begin)
    return True


def add_demo_quietly(listening: Listening, folder: Path) -> None:
    """The same for a server that has just started: what is wrong with the demo is logged and stops nothing."""
    try:
        add_demo(listening, folder)
    except (StudioError, OSError) as error:
        log.warning("the demo was left out: %s", error)


def demo_campaign(listening: Listening, which: str = NAME) -> Campaign | None:
    """The demo or its arena, whatever it is called; None where this database has none."""
    with listening.store.read() as session:
        known = session.get(Secret, _KNOWN[which])
        return None if known is None else session.get(Campaign, int(known.value))


def demo_link(listening: Listening, which: str = NAME) -> str | None:
    """The path that any visitor may open to rate the demo; None where there is none, or it is closed."""
    row = demo_campaign(listening, which)
    return None if row is None or row.state != "open" else listening.links(row.name)["rater"]
