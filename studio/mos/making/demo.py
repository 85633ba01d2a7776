"""The listening test that comes with the studio, so that a visitor can rate at once."""

import logging
from pathlib import Path

from sqlmodel import Session

from studio.core.errors import StudioError
from studio.mos.campaign.templates import with_settings
from studio.mos.making.building import build
from studio.mos.making.manifest import read_manifest
from studio.mos.rating.campaigns import free_name, set_state
from studio.mos.service import Listening
from studio.mos.store.tables.campaigns import Campaign
from studio.mos.store.tables.secrets import Secret

NAME = "studio-demo"
MANIFEST, SETTINGS = "manifest.json", "campaign.toml"
_TEMPLATE = "speakstream-mos"
_SEED = 0  # two studios have the same demo, so that merging them joins it
_KNOWN = "demo"  # the row that says which campaign is ours: anybody may call theirs what they like

log = logging.getLogger("studio.mos")


def add_demo(listening: Listening, folder: Path) -> bool:
    """Make and open the demo from its folder; False where this database has had it before.

    Raises:
        BadFile: the folder is not whole.
        BadOption: its settings are not known.
    """
    with listening.store.read() as session:
        if session.get(Secret, _KNOWN) is not None:
            return False
        name = free_name(session, NAME)

    def begin(session: Session) -> None:
        session.add(Secret(name=_KNOWN, value=str(set_state(session, name, "open").id)))

    config = with_settings(_TEMPLATE, folder / SETTINGS)
    build(listening, name, config, read_manifest(folder / MANIFEST), seed=_SEED, then=begin)
    return True


def add_demo_quietly(listening: Listening, folder: Path) -> None:
    """The same for a server that has just started: what is wrong with the demo is logged and stops nothing."""
    try:
        add_demo(listening, folder)
    except (StudioError, OSError) as error:
        log.warning("the demo was left out: %s", error)


def demo_campaign(listening: Listening) -> Campaign | None:
    """The demo, whatever it is called; None where this database has none."""
    with listening.store.read() as session:
        known = session.get(Secret, _KNOWN)
        return None if known is None else session.get(Campaign, int(known.value))


def demo_link(listening: Listening) -> str | None:
    """The path that any visitor may open to rate the demo; None where there is none, or it is closed."""
    row = demo_campaign(listening)
    return None if row is None or row.state != "open" else listening.links(row.name)["rater"]
