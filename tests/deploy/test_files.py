"""The files of deploy/ by their own tools: Docker's linter, Compose's schema, Caddy's and systemd's parsers."""

import json
import os
import re
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any

import pytest
import yaml
from needs import needs

from studio.serve.settings import load_settings

pytestmark = pytest.mark.slow

ROOT = Path(__file__).resolve().parents[2]
DEPLOY = ROOT / "deploy"
BIN = Path(sys.executable).parent
SERVICE = DEPLOY / "streaming-tts-studio.service"


def run(*command: str | Path, **variables: str) -> str:
    done = subprocess.run(command, capture_output=True, text=True, timeout=100, env={**os.environ, **variables})
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout + done.stderr


def test_dockerfile_has_no_finding() -> None:
    assert run(BIN / "hadolint", ROOT / "Dockerfile") == ""


def test_dockerfile_and_project_agree() -> None:
    text = (ROOT / "Dockerfile").read_text(encoding="utf-8")
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    wanted = re.findall(r'"(torch(?:audio)?==[^"]+)"', text)
    assert wanted == [one for one in project["dependencies"] if one.startswith("torch")]
    (extras,) = re.findall(r"ARG EXTRAS=(\S+)", text)
    assert set(extras.split(",")) <= project["optional-dependencies"].keys()


def compose() -> dict[str, Any]:
    return yaml.safe_load((DEPLOY / "compose.yaml").read_text(encoding="utf-8"))


def test_compose_files_are_valid() -> None:
    files = (DEPLOY / "compose.yaml", DEPLOY / "compose.cuda.yaml")
    run(BIN / "check-jsonschema", "--builtin-schema", "vendor.compose-spec", *files)
    targets = re.findall(r"^FROM \S+ AS (\w+)$", (ROOT / "Dockerfile").read_text(encoding="utf-8"), re.M)
    built = [yaml.safe_load(file.read_text())["services"]["studio"]["build"]["target"] for file in files]
    assert built == ["cpu", "cuda"] and {*built} < {*targets} and targets[-1] == "cpu"


def test_compose_gives_the_studio_settings_that_it_has() -> None:
    services = compose()["services"]
    given = services["studio"]["environment"] | {
        "STUDIO_SERVE_ALLOWED_HOSTS": "tts.example.org",
        "STUDIO_SERVE_ROOT_PATH": "/studio",
        "STUDIO_SERVE_KEY": "a-key-that-nobody-guesses",
    }
    settings = load_settings(None, given)
    assert (settings.allowed_hosts, settings.root_path) == (("tts.example.org",), "/studio")
    # Only the addresses of the services may say who a client is.
    assert settings.proxies == (compose()["networks"]["default"]["ipam"]["config"][0]["subnet"],)
    assert "ports" not in services["studio"] and "ports" not in services["database"]


@pytest.mark.parametrize("path", ["", "/studio"])
def test_caddyfile_is_valid(path: str, tmp_path: Path) -> None:
    caddy = shutil.which("caddy")
    needs(caddy, "the system package caddy")
    assert caddy is not None
    file = DEPLOY / "Caddyfile"
    assert run(caddy, "fmt", file) == file.read_text(encoding="utf-8")
    variables = {"STUDIO_SERVE_ROOT_PATH": path, "STUDIO_SITE": "tts.example.org", "XDG_DATA_HOME": str(tmp_path)}
    told = run(caddy, "adapt", "--validate", "--config", file, "--adapter", "caddyfile", **variables)
    config = json.loads(told.partition("\n")[0])
    assert f'"path": ["{path}/*"]' in json.dumps(config) and '"host": ["tts.example.org"]' in json.dumps(config)


def test_systemd_unit_is_valid_and_confined(tmp_path: Path) -> None:
    analyze = shutil.which("systemd-analyze")
    needs(analyze, "the system package systemd")
    assert analyze is not None
    unit = tmp_path / SERVICE.name
    text = SERVICE.read_text(encoding="utf-8")
    program = re.search(r"^ExecStart=(\S+)", text, re.M)
    assert program is not None
    unit.write_text(text.replace(program[1], str(BIN / "studio")), encoding="utf-8")
    assert run(analyze, "verify", unit) == ""
    level = re.search(r"exposure level for \S+: ([\d.]+)", run(analyze, "security", "--offline=true", unit))
    assert level is not None and float(level[1]) <= 2.5  # of 10; systemd calls it OK
