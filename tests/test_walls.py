"""Import contracts hold, and each one fails when a violation is planted."""

import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parents[1]
ABSENT = "gradio fastapi pydantic sqlmodel uvicorn websockets num2words plotly pocketsphinx".split()
PLANTED = [
    ("studio/core/text/words.py", "import torch", "core imports the standard library, numpy and soundfile"),
    (
        "studio/serve/middleware/auth.py",
        "import studio.engine.engine",
        "serve and ui use engines only through ports",
    ),
    (
        "studio/serve/middleware/bodies.py",
        "import studio.systems.engine",
        "serve and ui use engines only through ports",
    ),
    ("studio/serve/middleware/auth.py", "import gradio", "serve does not import gradio"),
    ("studio/serve/live/backpressure.py", "import studio.serve.app", "serve: each folder imports only from lower ones"),
    ("studio/engine/nets/sampling.py", "import fastapi", "the engine does not import packages that bare machines lack"),
    ("studio/measure/wer.py", "import torch", "measure does not import torch"),
    ("studio/predict/distillmos.py", "import torch", "callers of a predictor do not import torch"),
    ("studio/train/recipes/recipe.py", "import gradio", "train imports neither pages nor the server"),
    ("studio/core/text/words.py", "import studio.text.normalise", "layers: packages import only from lower layers"),
    (
        "studio/mos/store/sounds.py",
        "import studio.mos.campaign.names",
        "listening tests: each folder imports only from lower ones",
    ),
    (
        "studio/inspection/facts.py",
        "import torch",
        "inspection, annotation and library import neither the engine nor web packages",
    ),
    ("studio/bench/mos/site.py", "import torch", "benches of listening tests do not import the engine"),
    (
        "studio/train/corpus/synthesis.py",
        "import studio.train.pack",
        "training: each folder imports only from lower ones",
    ),
    (
        "studio/train/families/common.py",
        "import studio.train.families.s5_fit",
        "shared training code does not import a family",
    ),
]


def lint(folder: Path) -> subprocess.CompletedProcess[str]:
    """import-linter over a checkout."""
    command = [sys.executable, "-c", "from importlinter.cli import lint_imports_command as main; main()", "--no-cache"]
    return subprocess.run(command, cwd=folder, env={"PYTHONPATH": str(folder)}, capture_output=True, text=True)


def test_every_contract_holds():
    done = lint(ROOT)
    assert done.returncode == 0, done.stdout


@pytest.fixture(scope="module")
def violations(tmp_path_factory: pytest.TempPathFactory) -> str:
    """Output of import-linter on a copy of the tree with every violation in it."""
    copy = tmp_path_factory.mktemp("planted")
    shutil.copytree(ROOT / "studio", copy / "studio", ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copy(ROOT / "pyproject.toml", copy)
    for file, line, _ in PLANTED:
        assert (copy / file).is_file(), file
        with (copy / file).open("a", encoding="utf-8") as planted:
            planted.write(f"\n{line}\n")
    done = lint(copy)
    assert done.returncode != 0
    return done.stdout


@pytest.mark.parametrize(("file", "line", "wall"), PLANTED)
def test_planted_violation_is_found(file: str, line: str, wall: str, violations: str) -> None:
    assert f"{wall} BROKEN" in violations
    of_wall = violations.rpartition(f"\n{wall}\n---")[2]
    section = re.split(r"\n[^\n]+\n-{5,}\n", of_wall)[0]  # up to the next contract's title
    importer = file.removesuffix(".py").replace("/", ".")
    assert f"{importer} -> {line.removeprefix('import ')} (l." in section


def test_scripts_import_only_lower_layers():
    """The pages' scripts: options, audio and wire import no page, pages not each other, Workers no drawing.

    All may import what is in ``page``: the translation and the plurals of texts.
    """
    widgets = ROOT / "studio" / "ui" / "widgets"
    of_live = {"live", "live/chat", "live/field", "live/history", "live/race", "live/talk", "live/voices"}
    below = {
        "live": of_live | {"glossary", "inspect", "options", "owner", "share", "sound", "timeline", "wire"},
        "live/chat": {"live/chat"},
        "live/field": {"live/field", "sound", "wire"},
        "live/history": {"live/history", "options", "rate", "sound"},
        "live/race": {"live/race", "live/worker", "options", "share", "sound", "wire"},
        "live/talk": {"live/talk", "sound", "wire"},
        "live/voices": {"live/voices", "options"},
        "share": {"options", "rate", "share", "sound", "timeline"},
        "design": {"glossary", "options"},
        "annotate": {"annotate", "inspect", "inspect/annotate", "page", "rate", "timeline"},
        "compare": {"compare", "glossary", "options", "owner", "rate", "sound", "timeline", "wire"},
        "edit": {"edit", "glossary", "owner", "page", "rate"},  # its preview is drawn by the raters' own scripts
        "inspect": {"inspect", "inspect/annotate", "inspect/ratings", "options", "owner", "page", "rate"}
        | {"sound", "timeline"},
        "inspect/ratings": {"inspect/ratings", "page", "rate"},
        "inspect/annotate": {"inspect/annotate", "owner", "page", "rate", "timeline"},
        # its rows play with Inspect's player
        "library": {"inspect", "library", "owner", "page", "rate", "sound", "timeline"},
        "lexicon": {"owner", "page", "rate"},
        "live/worker": {"live/worker", "sound", "wire"},
        "glossary": {"glossary"},
        "page": {"page"},
        "options": {"options"},
        "owner": {"owner"},
        "rate": {"rate", "sound", "wire"},
        "signin": {"owner"},
        "sound": {"sound"},
        "timeline": {"sound", "timeline"},
        "wire": {"wire"},
    }
    found = {
        ((script := path.parent).relative_to(widgets).as_posix(), (script / other).resolve())
        for path in widgets.rglob("*.js")
        for other in re.findall(r'^import [^"]* from "(.+)";$', path.read_text(encoding="utf-8"), re.M)
    }
    assert len({folder for folder, _ in found} & below.keys()) == 25  # owner and page: none
    for folder, other in found:
        assert other.is_file() and other.parent.relative_to(widgets).as_posix() in below[folder] | {"page"}, (
            folder,
            other,
        )


@pytest.mark.parametrize(
    "command",
    [
        ["say"],
        ["talk"],
        ["type"],
        ["inspect"],
        ["timing"],
        ["force"],
        ["replay"],
        ["train", "fit"],
        ["bench", "latency"],
        ["eval", "wer"],
    ],
)
def test_help_needs_no_server_packages(command):
    """A bare GPU machine has torch, torchaudio, numpy, safetensors, typer and rich."""
    assert "Usage" in on_a_bare_machine(*command, "--help")


def on_a_bare_machine(*arguments):
    code = (
        f"import sys\nfor name in {ABSENT!r}: sys.modules[name] = None\n"
        f"sys.argv[1:] = {arguments!r}\nfrom studio.cli import main\nmain()\n"
    )
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_bare_machine_can_speak(tmp_path):
    on_a_bare_machine("say", "Good morning.", "-o", str(tmp_path / "a.wav"), "--device", "cpu")
    assert (tmp_path / "a.wav").stat().st_size > 1000


@pytest.mark.parametrize(
    ("module", "absent"),
    [
        ("studio.serve.app", "torch"),
        ("studio.serve.app", "gradio"),
        ("studio.engine.engine", "gradio"),
        ("studio", "numpy"),
    ],
)
def test_imports_that_must_not_load_others(module, absent):
    code = f"import sys, {module}; sys.exit({absent!r} in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], cwd=ROOT).returncode == 0
