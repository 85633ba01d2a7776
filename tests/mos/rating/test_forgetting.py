"""The right to be forgotten reaches the file: neither it nor its log holds what was said."""

from pathlib import Path

import pytest
from mos.rated import MOS, a_world, campaign, rate
from mos.world import World

from studio.core.errors import BadOption
from studio.mos.rating.forgetting import forget_rater
from studio.mos.store.tables.raters import Rater, Removal

SAID = "a sentence that only this rater ever wrote"


def on_disk(folder: Path) -> bytes:
    """The database, its log and its index."""
    return b"".join(path.read_bytes() for path in folder.glob("studio.sqlite*"))


def test_nothing_of_a_forgotten_rater_is_in_the_files(tmp_path: Path) -> None:
    world = a_world(tmp_path)
    campaign(world, tmp_path, MOS)
    rate(world, "somebody-5f3a", comment=SAID)
    rate(world, "another")
    assert SAID.encode() in on_disk(tmp_path) and b"somebody-5f3a" in on_disk(tmp_path)
    gone, is_empty = forget_rater(world.store, world.listening.clips, "first", world.all(Rater)[0].pseudonym)
    assert (gone, is_empty) == (6, True)
    assert SAID.encode() not in on_disk(tmp_path) and b"somebody-5f3a" not in on_disk(tmp_path)
    assert b"another" in on_disk(tmp_path)
    assert len(world.all(Removal)) == len(world.all(Rater)) == 1
    world.listening.close()


def test_a_rater_is_forgotten_in_either_database(world: World, tmp_path: Path) -> None:
    campaign(world, tmp_path, MOS)
    rate(world, "one")
    assert forget_rater(world.store, world.listening.clips, "first", world.all(Rater)[0].pseudonym) == (6, True)
    assert not world.all(Rater)
    with pytest.raises(BadOption, match="nobody"):
        forget_rater(world.store, world.listening.clips, "first", "r0")
