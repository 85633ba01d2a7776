"""The bundled demo campaigns: a rating test and an arena of its voices."""

import logging
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from sqlmodel import Session

from studio.core.errors import StudioError
from studio.mos.campaign.config import CampaignConfig, load_template, with_settings
from studio.mos.campaign.manifest import StimulusManifest
from studio.mos.service import ListeningTests
from studio.mos.sessions.campaigns import free_name, set_state
from studio.mos.stimuli.building import build_campaign
from studio.mos.stimuli.manifest_files import read_manifest
from studio.mos.store.tables import Campaign, Secret

NAME, ARENA_NAME = "studio-demo", "studio-demo-arena"
MANIFEST, SETTINGS = "manifest.json", "campaign.toml"
_TEMPLATE = "speakstream-mos"
_SEED = 0  # equal in all installations, so that merging joins the demos
# Names of Secret rows that store the ids of these campaigns, since campaign names are not reserved.
_SECRET_NAMES = {NAME: "demo", ARENA_NAME: "demo-arena"}

log = logging.getLogger("studio.mos")


def add_demo(listening: ListeningTests, folder: Path) -> bool:
    """Create and open the demo from its folder; False if this database has had it before.

    Raises BadFile: the folder is incomplete; BadOption: its settings are invalid.
    """
    return _add(
        listening, NAME, lambda: (with_settings(_TEMPLATE, folder / SETTINGS), read_manifest(folder / MANIFEST))
    )


def add_arena(listening: ListeningTests, folder: Path) -> bool:
    """Create and open an arena of the demo's voices; False if this database has had it before.

    Call it on request, or at the start of a server that only this machine reaches, because typed texts are stored.
    Raises BadFile: the folder is incomplete.
    """

    def load() -> tuple[CampaignConfig, StimulusManifest]:
        manifest = read_manifest(folder / MANIFEST)
        voices = [system for system in manifest.systems if system.role == "test"]
        names = {system.name for system in voices}
        files = {key: file for key, file in manifest.files.items() if key[1] in names}
        return load_template("arena"), replace(manifest, systems=voices, files=files)

    return _add(listening, ARENA_NAME, load)


def _add(listening: ListeningTests, wanted: str, load: Callable[[], tuple[CampaignConfig, StimulusManifest]]) -> bool:
    with listening.store.read() as session:
        if session.get(Secret, _SECRET_NAMES[wanted]) is not None:
            return False
        name = free_name(session, wanted)

    def begin(session: Session) -> None:
        session.add(Secret(name=_SECRET_NAMES[wanted], value=str(set_state(session, name, "open").id)))

    config, manifest = load()
    build_campaign(listening, name, config, manifest, seed=_SEED, then=begin)
    return True


def add_demo_quietly(listening: ListeningTests, folder: Path, *, with_arena: bool = False) -> None:
    """``add_demo``, and ``add_arena`` if wanted, at server start: errors are logged and ignored."""
    try:
        add_demo(listening, folder)
        if with_arena:
            add_arena(listening, folder)
    except (StudioError, OSError) as error:
        log.warning("the demo was left out: %s", error)


def demo_campaign(listening: ListeningTests, which: str = NAME) -> Campaign | None:
    """The demo campaign or its arena under any name; None if this database has none."""
    with listening.store.read() as session:
        known = session.get(Secret, _SECRET_NAMES[which])
        return None if known is None else session.get(Campaign, int(known.value))


def demo_link(listening: ListeningTests, which: str = NAME) -> str | None:
    """The public path of the demo; None if it is missing or closed."""
    row = demo_campaign(listening, which)
    return None if row is None or row.state != "open" else listening.links(row.name)["rater"]
