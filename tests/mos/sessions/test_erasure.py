"""The right to be forgotten reaches the file: neither it nor its log holds what was said."""

from pathlib import Path

import pytest
from mos.rated import MOS, a_world, campaign, rate
from mos.world import World

from studio.core.errors import BadOption
from studio.mos.sessions.erasure import ErasureReport, erase_rater
from studio.mos.store.access import new_resume_code
from studio.mos.store.tables.raters import Rater, Removal

SAID = "a sentence that only this rater ever wrote"


def on_disk(folder: Path) -> bytes:
    """The database, its log and its index."""
    return b"".join(path.read_bytes() for path in folder.glob("studio.sqlite*"))


def forget(world: World, who: str) -> ErasureReport:
    """As the command does."""
    return erase_rater(world.store, world.listening.clips, world.listening.access, "first", who)


def test_nothing_of_a_forgotten_rater_is_in_the_files(tmp_path: Path) -> None:
    world = a_world(tmp_path)
    campaign(world, tmp_path, MOS)
    rate(world, "somebody-5f3a", comment=SAID)
    rate(world, "another")
    assert SAID.encode() in on_disk(tmp_path) and b"somebody-5f3a" in on_disk(tmp_path)
    name = world.all(Rater)[0].pseudonym
    assert forget(world, name) == ErasureReport([name], 6, is_gone_from_files=True)
    assert SAID.encode() not in on_disk(tmp_path) and b"somebody-5f3a" not in on_disk(tmp_path)
    assert b"another" in on_disk(tmp_path)
    assert len(world.all(Removal)) == len(world.all(Rater)) == 1
    world.listening.close()


def test_a_rater_is_forgotten_in_either_database(world: World, tmp_path: Path) -> None:
    campaign(world, tmp_path, MOS)
    rate(world, "one")
    assert forget(world, world.all(Rater)[0].pseudonym).answers == 6
    assert not world.all(Rater)
    with pytest.raises(BadOption, match="has no rater"):
        forget(world, "r0")


def test_a_rater_is_forgotten_by_what_the_consent_names(world: World, tmp_path: Path) -> None:
    """A panel's id, wherever it stands twice; or the code, however it was typed; and nobody else."""
    campaign(world, tmp_path, MOS)
    code = new_resume_code()
    for who, panel in (
        ("panel|s1|P1", {"PROLIFIC_PID": "P1", "STUDY_ID": "s1"}),
        ("panel|s2|P1", {"PROLIFIC_PID": "P1", "STUDY_ID": "s2"}),
        ("panel||P2", {"PROLIFIC_PID": "P2"}),
        (f"code|{code}", {}),
    ):
        world.sit(who, panel).agree()
    names = [r.pseudonym for r in world.all(Rater)]
    assert forget(world, " P1 ").pseudonyms == names[:2]
    assert forget(world, code.lower().replace("-", " ")).pseudonyms == names[3:]
    assert [r.pseudonym for r in world.all(Rater)] == [names[2]] and len(world.all(Removal)) == 3
    for nobody in ("P1", code, new_resume_code(), "", "P", "%"):
        with pytest.raises(BadOption, match="'first' has no rater with"):
            forget(world, nobody)
