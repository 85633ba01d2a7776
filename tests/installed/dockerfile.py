"""The steps of a Dockerfile without Docker: in folders below ``root``, with the programs of this machine."""

import json
import re
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

# Folders of the image. Packages of the system and users are left out: both would change this machine.
_FOLDERS = re.compile(r"(?<![\w.:/])/(?=(?:app|data|home|opt|tmp)\b)")
_LEFT_OUT = ("apt-get", "useradd", "chown")
# Files of an image may be links to those of this machine.
_STRIP = """#!/bin/sh
for file; do
    case "$file" in -*) ;; *) cp "$file" "$file.own" && mv "$file.own" "$file" || exit ;; esac
done
exec {} "$@"
"""


class Image:
    """A target of a Dockerfile, step by step.

    Attributes:
        env: of its processes.
        command: ENTRYPOINT and CMD; ``health``: HEALTHCHECK.
    """

    def __init__(self, file: Path, root: Path, env: dict[str, str]) -> None:
        self._context, self._root = file.parent, root
        self.env, self._folder = dict(env), root
        self._entry, self._arguments, self.health = list[str](), list[str](), list[str]()
        self._steps = [*_steps(file.read_text(encoding="utf-8"))]
        self._programs = root / "left-out"
        self._programs.mkdir(parents=True)
        for name in _LEFT_OUT:
            self._add_program(name, "#!/bin/sh\n")
        self._add_program("strip", _STRIP.format(shutil.which("strip")))
        self.env["PATH"] = f"{self._programs}:{self.env['PATH']}"
        for name in ("home", "tmp"):
            (root / name).mkdir()
        self._clean = dict(self.env)

    def _add_program(self, name: str, text: str) -> None:
        (self._programs / name).write_text(text, encoding="utf-8")
        (self._programs / name).chmod(0o755)

    @property
    def command(self) -> list[str]:
        return [*self._entry, *self._arguments]

    def build(self, target: str) -> Iterator[str]:
        """Run the steps of a target and of the stages that it needs; yields each RUN before it runs."""
        stages: dict[str, list[tuple[str, str]]] = {}
        for kind, rest in self._steps:
            if kind == "FROM":
                stages[rest.split()[2]] = []
            stages[[*stages][-1]].append((kind, rest))
        for name in self._needed(stages, target):
            for kind, rest in stages[name]:
                if kind == "RUN":
                    yield rest
                self._step(kind, rest)

    def _needed(self, stages: dict[str, list[tuple[str, str]]], target: str) -> list[str]:
        """The stages of a target, each after those that it needs."""
        names = [rest.split()[0] for kind, rest in stages[target] if kind == "FROM"]
        copies = (re.match(r"--from=(\w+)", rest) for kind, rest in stages[target] if kind == "COPY")
        names += [copy[1] for copy in copies if copy]
        before = [one for name in names if name in stages for one in self._needed(stages, name)]
        return [*dict.fromkeys([*before, target])]

    def _step(self, kind: str, rest: str) -> None:
        if kind == "FROM":
            if ":" in rest:  # an image, not a stage
                self.env, self._folder = dict(self._clean), self._root
        elif kind == "RUN":
            self.run(["sh", "-c", rest])
        elif kind == "ARG":
            name, _, value = rest.partition("=")
            self.env.setdefault(name, value)
        elif kind == "ENV":
            for name, _, value in (one.partition("=") for one in rest.split()):
                self.env[name] = self.placed(value.replace("$PATH", self.env["PATH"]))
        elif kind == "WORKDIR":
            self._folder = Path(self.placed(rest))
            self._folder.mkdir(parents=True, exist_ok=True)
        elif kind == "COPY":
            self._copy(rest.split())
        elif kind == "ENTRYPOINT":
            self._entry = json.loads(rest)
        elif kind == "CMD":
            self._arguments = [self.placed(one) for one in json.loads(rest)]
        elif kind == "HEALTHCHECK":
            self.health = json.loads(rest.partition("CMD ")[2])
        else:
            assert kind in ("USER", "EXPOSE", "VOLUME"), kind

    def _copy(self, names: list[str]) -> None:
        if names[0].startswith("--from="):  # all stages are in one folder
            assert names[1] == names[2] and Path(self.placed(names[1])).is_dir(), names
            return
        *sources, to = names
        for name in sources:
            source, target = self._context / name, self._folder / to
            if source.is_dir():
                shutil.copytree(source, target, ignore=shutil.ignore_patterns("__pycache__"))
            else:
                shutil.copy(source, target)

    def placed(self, text: str) -> str:
        """A text with the image's folders below ``root``."""
        return _FOLDERS.sub(f"{self._root}/", text)

    def run(self, command: list[str]) -> None:
        """Run a command of the image. Raises AssertionError where it fails."""
        placed = [self.placed(one) for one in command]
        done = subprocess.run(placed, cwd=self._folder, env=self.env, capture_output=True, text=True, timeout=500)
        assert done.returncode == 0, f"{command}\n{done.stdout}{done.stderr}"


def _steps(text: str) -> Iterator[tuple[str, str]]:
    lines = "\n".join(line for line in text.splitlines() if not line.startswith("#"))
    for line in lines.replace("\\\n", " ").splitlines():
        if line.strip():
            kind, _, rest = line.partition(" ")
            yield kind, rest.strip()
