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
# In a process of its own: where Ray is imported, it keeps the authentication of that moment.
RAYS = """
import json, sys
from ray._private.ray_constants import DEFAULT_DASHBOARD_AGENT_LISTEN_PORT as port
from ray.dashboard.http_server_agent import PUBLIC_EXACT_PATHS as paths
from studio.commands.cluster import Arguments
print(json.dumps([port, sorted(paths), [Arguments(**one).device for one in json.loads(sys.argv[1])]]))
"""


def run(*command: str | Path, **variables: str) -> str:
    done = subprocess.run(command, capture_output=True, text=True, timeout=100, env={**os.environ, **variables})
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout + done.stderr


def read(name: str) -> str:
    return (ROOT / name).read_text(encoding="utf-8")


def test_dockerfile_has_no_finding() -> None:
    assert run(BIN / "hadolint", ROOT / "Dockerfile") == ""


def test_dockerfile_and_project_agree() -> None:
    text = read("Dockerfile")
    project = tomllib.loads(read("pyproject.toml"))["project"]
    wanted = re.findall(r'"(torch(?:audio)?==[^"]+)"', text)
    assert wanted == [one for one in project["dependencies"] if one.startswith("torch")]
    (extras,) = re.findall(r"ARG EXTRAS=(\S+)", text)
    assert set(extras.split(",")) <= project["optional-dependencies"].keys()


def compose() -> dict[str, Any]:
    return yaml.safe_load((DEPLOY / "compose.yaml").read_text(encoding="utf-8"))


def test_compose_files_are_valid() -> None:
    files = (DEPLOY / "compose.yaml", DEPLOY / "compose.cuda.yaml")
    run(BIN / "check-jsonschema", "--builtin-schema", "vendor.compose-spec", *files)
    targets = re.findall(r"^FROM \S+ AS (\w+)$", read("Dockerfile"), re.M)
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
    assert ".env" in read(".gitignore").splitlines()  # keys are written there
    assert "ports" not in services["studio"] and "ports" not in services["database"]


def test_systemds_settings_are_those_of_the_studio() -> None:
    """As docs/deploy.md writes them: Caddy's name for the site is allowed, and its address is a proxy's."""
    (lines,) = re.findall(r"install -m 600 /dev/stdin /etc/\S+ <<END\n(.*?)END\n", read("docs/deploy.md"), re.S)
    settings = load_settings(None, dict(line.split("=") for line in lines.splitlines()))
    assert (settings.allowed_hosts, settings.proxies) == (("tts.example.org",), ("127.0.0.1",)) and settings.key


def test_kuberay_gets_what_ray_and_the_application_have() -> None:
    (service, _) = yaml.safe_load_all(read("deploy/kuberay.yaml"))
    cluster = service["spec"]["rayClusterConfig"]
    assert f"ray[serve]=={cluster['rayVersion']}" in read("pyproject.toml")
    configs = (service["spec"]["serveConfigV2"], read("deploy/serve.yaml"))
    arguments = json.dumps([yaml.safe_load(config)["applications"][0]["args"] for config in configs])
    port, open_paths, devices = json.loads(run(sys.executable, "-c", RAYS, arguments).splitlines()[-1])
    assert devices == ["cuda", "cuda"]
    assert cluster["enableInTreeAutoscaling"]  # without it nothing starts more pods
    groups = [cluster["headGroupSpec"], *cluster["workerGroupSpecs"]]
    for container in [one for group in groups for one in group["template"]["spec"]["containers"]]:
        for probe in ("readinessProbe", "livenessProbe"):  # Ray answers there without a token
            asked = container[probe]["httpGet"]
            assert asked["path"] in open_paths and asked["port"] == port
        keys = {one["valueFrom"]["secretKeyRef"]["key"] for one in container["env"] if "valueFrom" in one}
        assert keys == {*re.findall(r"--from-literal=([\w-]+)=", read("docs/scaling.md"))}
    assert re.search(r"docker build --target cuda .*-t studio:scale", read("docs/scaling.md"))


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
