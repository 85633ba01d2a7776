"""Each way to install the studio, outside the checkout: it speaks a sentence, also on its page in a browser."""

import os
import re
import runpy
import shutil
import sys
import tomllib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from subprocess import Popen
from types import ModuleType
from typing import Any

import pytest
import soundfile
import yaml
from installed.dockerfile import Image
from installed.environments import (
    ROOT,
    THIRD_PARTY,
    add_compiled,
    add_packages,
    clean_variables,
    link_needed,
    run,
    site_of,
)
from needs import needs
from packaging.requirements import Requirement
from ui.conftest import _free_port
from ui.live_page import RATE_HZ, LivePage
from ui.waits import until

from studio.client import Client, ServerGone
from studio.core.events import Audio, Ended
from studio.serve.settings import load_settings

pytestmark = pytest.mark.slow

BIN = Path(sys.executable).parent
SPACE = ROOT / "deploy" / "space"
KEY = "a-key-that-nobody-guesses"
TEXT = "Good morning. The kettle is on."
MAX_BYTES, BASE_BYTES = 1_500_000_000, 150_000_000  # of the image for CPUs; of Debian and Python in it
ONLY_CUDA = r"/(nvidia|triton|cuda)[^/]*/|/libtorch_cuda|/libtorch_nvshmem|/libc10_cuda|/torch/bin/ptxas|/_triton"


def is_in_image(file: Path) -> bool:
    """Whether the image for CPUs has a file: not what only PyTorch for CUDA has, which is installed here."""
    return file.is_file() and not file.is_symlink() and not re.search(ONLY_CUDA, str(file))


def check_says(program: Path, environment: Path, cwd: Path) -> None:
    """The installed program speaks with the voices of its wheel."""
    add_compiled(site_of(environment) / "studio")
    where = "import studio, studio.core.folders as s; print(studio.__file__, s.ASSETS)"
    assert run(environment / "bin" / "python", "-c", where, cwd=cwd).count(str(environment)) == 2
    run(program, "say", TEXT, "-o", "said.wav", cwd=cwd)
    pcm, rate = soundfile.read(cwd / "said.wav")
    assert rate == 24_000 and len(pcm) > rate and abs(pcm).max() > 0.05


def check_speaks(url: str, key: str = "") -> None:
    """A running server speaks to a socket."""
    with Client(url, key).utterance() as utterance:
        utterance.send(TEXT)
        utterance.end()
        events = list(utterance)
    assert isinstance(events[-1], Ended)
    assert sum(len(event.pcm) for event in events if isinstance(event, Audio)) > 24_000


def check_page(chromium: Any, url: str, key: str = "") -> None:
    """The page of a running server: a person types a sentence and hears it."""
    context = chromium.new_context(viewport={"width": 1280, "height": 800})
    live = LivePage(context.new_page(), f"{url}/")
    if key:
        live.page.goto(f"{live.url}?key={key}")
    live.open()
    live.type(TEXT)
    live.finish(spoken=1)
    heard = live.rendered()
    assert len(heard) > RATE_HZ and abs(heard.astype(int)).max() > 1600
    assert len(live.lit) == len(TEXT.split()), "each word lights up when it is heard"
    assert (live.errors, live.foreign) == ([], [])
    context.close()


def check_app(program: Path, folder: Path, chromium: Any) -> None:
    """The installed program serves the page."""
    port = _free_port()
    command = [str(program), "app", "--port", str(port), "--data", str(folder / "data")]
    with running(command, folder, clean_variables(folder), url := f"http://127.0.0.1:{port}"):
        check_page(chromium, url)


@contextmanager
def running(command: list[str], cwd: Path, env: dict[str, str], url: str, key: str = "") -> Iterator[None]:
    """A server, from the time that it answers."""
    log = cwd / "server.log"
    with log.open("wb") as out, Popen(command, cwd=cwd, env=env, stdout=out, stderr=out) as process:

        def answers() -> None:
            if process.poll() is not None:
                raise RuntimeError(f"the server ended: {log.read_text()}")
            try:
                voices = Client(url, key).voices()
            except ServerGone:
                voices = []
            assert voices, log.read_text()

        try:
            until(answers)
            yield
        finally:
            process.terminate()
            process.wait(30.0)


def test_pip(wheel: Path, packages: Path, tmp_path: Path, chromium: Any) -> None:
    environment = tmp_path / "environment"
    run(BIN / "python", "-m", "venv", "--without-pip", environment, cwd=tmp_path)
    add_packages(environment, packages)
    pip = (environment / "bin" / "python", "-m", "pip")  # pip is among the packages
    run(*pip, "install", "--quiet", "--no-index", f"{wheel}[app,postgres]", cwd=tmp_path)
    check_says(environment / "bin" / "studio", environment, tmp_path)
    check_app(environment / "bin" / "studio", tmp_path, chromium)
    assets = site_of(environment) / "studio" / "assets"
    assert (assets / "texts" / "examples.json").is_file() and (assets / "demo" / "manifest.json").is_file()


def test_pipx(wheel: Path, packages: Path, metadata: Path, tmp_path: Path, chromium: Any) -> None:
    folders = {"PIPX_HOME": str(tmp_path / "pipx"), "PIPX_BIN_DIR": str(tmp_path / "bin")}
    found = f"--pip-args=--no-index --find-links={metadata}"
    run(BIN / "pipx", "install", "--backend=uv", found, f"{wheel}[app]", cwd=tmp_path, **folders)
    environment = tmp_path / "pipx" / "venvs" / "streaming-tts-studio"
    add_packages(environment, packages)
    check_says(tmp_path / "bin" / "studio", environment, tmp_path)
    check_app(tmp_path / "bin" / "studio", tmp_path, chromium)


def test_uv(wheel: Path, packages: Path, metadata: Path, tmp_path: Path, chromium: Any) -> None:
    folders = {"UV_TOOL_DIR": str(tmp_path / "tools"), "UV_TOOL_BIN_DIR": str(tmp_path / "bin")}
    install = ("tool", "install", "--quiet", "--python", sys.executable, "--no-index", "--find-links", metadata)
    run(BIN / "uv", *install, f"{wheel}[app]", cwd=tmp_path, **folders)
    environment = tmp_path / "tools" / "streaming-tts-studio"
    add_packages(environment, packages)
    check_says(tmp_path / "bin" / "studio", environment, tmp_path)
    check_app(tmp_path / "bin" / "studio", tmp_path, chromium)


def test_container(packages: Path, tmp_path: Path, chromium: Any) -> None:
    """The steps of the image for CPUs, and its command, in a virtual environment."""
    port = _free_port()
    env = clean_variables(tmp_path) | {"STUDIO_SERVE_PORT": str(port), "STUDIO_SERVE_KEY": KEY}
    image = Image(ROOT / "Dockerfile", tmp_path / "image", env | {"PATH": f"{BIN}:{env['PATH']}"})
    environment = Path(image.placed("/opt/studio"))
    needs(shutil.which("strip"), "the system package binutils")
    for step in image.build("cpu"):
        if "torch==" in step:
            add_packages(environment, packages)
        elif "strip" in step:  # what is installed becomes what the image has, and nothing else
            (site_of(environment) / THIRD_PARTY).unlink()
            link_needed(environment, image.env["EXTRAS"].split(","))
        elif "synthesize" in step:  # compiles; here the code is there, beside the sources
            add_compiled(site_of(environment) / "studio")
            assert image.env.pop("NUMBA_CACHE_DIR").startswith(image.placed("/home/studio/"))
    studio = site_of(environment) / "studio"
    assert (studio / "assets" / "voices" / "wren").is_dir()
    size = sum(file.stat().st_size for file in environment.rglob("*") if is_in_image(file))
    assert BASE_BYTES + size <= MAX_BYTES, f"{size / 1e6:.0f} MB"
    url = f"http://127.0.0.1:{port}"
    with running(image.command, tmp_path, image.env, url, KEY):
        check_speaks(url, KEY)
        check_page(chromium, url, KEY)
        health = [one.replace("7860", str(port)) for one in image.health]
        image.run(health)
        assert [*Path(image.placed("/data/traces")).glob("*.trace")]
        del image.env["STUDIO_SERVE_KEY"]  # as where the key was generated
        image.run(health)
    with pytest.raises(AssertionError, match="refused"):
        image.run(health)


def test_space(wheel: Path, packages: Path, tmp_path: Path, chromium: Any) -> None:
    """As docs/deploy.md says: its files and the wheel's content in one folder, which a Space runs."""
    environment, folder, port = tmp_path / "environment", tmp_path / "space", _free_port()
    run(BIN / "python", "-m", "venv", "--without-pip", environment, cwd=tmp_path)
    add_packages(environment, packages)
    python = environment / "bin" / "python"
    shutil.copytree(SPACE, folder)
    run(python, "-m", "pip", "install", "--quiet", "--no-deps", "--target", folder, wheel, cwd=tmp_path)
    add_compiled(folder / "studio")
    env = clean_variables(tmp_path) | {"GRADIO_SERVER_PORT": str(port)}
    url = f"http://127.0.0.1:{port}"
    with running([str(python), "app.py"], folder, env, url):
        check_speaks(url)
        check_page(chromium, url)


def test_space_on_zero_gpu_speaks_on_the_cpu(monkeypatch: pytest.MonkeyPatch) -> None:
    """It registers a function for the GPU and reports its start, as ``spaces`` does where Gradio is launched."""
    calls: list[Any] = []
    spaces, zero = ModuleType("spaces"), ModuleType("spaces.zero")
    vars(spaces)["GPU"] = lambda function: calls.append(function.__name__)
    vars(zero)["startup"] = lambda: calls.append("startup")
    monkeypatch.setitem(sys.modules, "spaces", spaces)
    monkeypatch.setitem(sys.modules, "spaces.zero", zero)
    monkeypatch.setattr("studio.cli.main", lambda: calls.append(sys.argv[1:]))
    monkeypatch.setattr(sys, "argv", ["app.py"])
    monkeypatch.setattr(os, "environ", {"SPACES_ZERO_GPU": "true", "SPACE_HOST": "a-b.hf.space"})
    runpy.run_path(str(SPACE / "app.py"), run_name="__main__")
    *before, command = calls
    assert before == ["name_of_gpu", "startup"]
    assert command[:2] == ["app", "--host"] and command[-2:] == ["--device", "cpu"]
    settings = load_settings(None, os.environ)
    assert settings.traces_folder == Path(command[command.index("--data") + 1], "traces")
    assert settings.allowed_hosts == ("a-b.hf.space",) and settings.allowed_origins == ("https://huggingface.co",)


def expanded(lines: list[str], extras: dict[str, list[str]], own: str) -> Iterator[str]:
    """Requirements with those of the project's own extras in the place of these."""
    for line in lines:
        requirement = Requirement(line)
        if requirement.name != own:
            yield line
            continue
        for extra in requirement.extras:
            yield from expanded(extras[extra], extras, own)


def test_space_has_what_the_app_needs() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    extras, own = project["optional-dependencies"], project["name"]
    needed = {*project["dependencies"], *expanded(extras["app"], extras, own)}
    lines = (SPACE / "requirements.txt").read_text(encoding="utf-8").splitlines()
    assert {line for line in lines if not line.startswith("#")} == needed
    front: dict[str, Any] = yaml.safe_load((SPACE / "README.md").read_text(encoding="utf-8").split("---")[1])
    (gradio,) = re.findall(r"^gradio==(.+)$", (ROOT / "constraints.txt").read_text(encoding="utf-8"), re.M)
    assert (front["sdk"], front["sdk_version"]) == ("gradio", gradio)
    assert (SPACE / front["app_file"]).is_file() and len(front["short_description"]) <= 60
    assert project["requires-python"].endswith(front["python_version"])
