"""What ``studio campaign`` prints, and what goes with it: the parts that are no more than the calls behind them."""

import re
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from mos.rated import write_sounds

from studio.cli import main
from studio.mos.service import open_listening
from studio.mos.store.access import Forbidden

Studio = Callable[..., tuple[str, str]]


@pytest.fixture
def studio(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path) -> Studio:
    """Runs a command that ends well on a data folder of its own; what it printed, and what it said beside it."""
    monkeypatch.setenv("STUDIO_DATA_FOLDER", str(tmp_path / "data"))

    def run(*arguments: object) -> tuple[str, str]:
        monkeypatch.setattr(sys, "argv", ["studio", *map(str, arguments)])
        with pytest.raises(SystemExit) as ended:
            main()
        out, err = capsys.readouterr()
        assert ended.value.code == 0, err
        return out, err

    return run


def test_whichever_command_makes_the_database_tells_the_owners_token(studio: Studio, tmp_path: Path) -> None:
    """Once: the next does not, and a lab that makes its test before it starts the app gets in."""
    new = ("campaign", "new", "first", "--template", "incremental-mos", "--from", write_sounds(tmp_path / "sounds"))
    out, err = studio(*new)
    [token] = re.findall(r"The owner's token .* shown this once: (\S+)", err)
    assert token not in out and "/rate?test=" in out
    listening = open_listening("", tmp_path / "data")
    listening.access.check_owner(token)
    assert "token" not in "".join(studio("campaign", "list"))
    out, err = studio("campaign", "token")
    with pytest.raises(Forbidden):
        listening.access.check_owner(token)
    listening.access.check_owner(out.strip())
    listening.close()


def test_a_new_token_is_the_only_one_told(studio: Studio) -> None:
    """Also where the command makes the database: the first one is worth nothing by then."""
    out, err = studio("campaign", "token")
    assert len(out.split()) == 1 and "token" not in err


def test_what_goes_is_asked_for_and_said(studio: Studio, tmp_path: Path) -> None:
    sounds = write_sounds(tmp_path / "sounds")
    studio("campaign", "new", "first", "--template", "incremental-mos", "--from", sounds, "--draft")
    assert studio("campaign", "remove", "first", "--system", "teal")[0] == "first: 3 sounds less, 6 left\n"
    assert "0 raters and 0 answers" in studio("campaign", "delete", "first", "--yes")[0]
    assert "no campaign yet" in studio("campaign", "list")[0]
