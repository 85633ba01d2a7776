"""Clean environments with the third-party packages of the running one: PyTorch alone has 4.7 GB."""

import os
import re
import shutil
import subprocess
import sys
import sysconfig
from collections.abc import Iterable
from contextlib import suppress
from importlib.metadata import Distribution, PackageNotFoundError, distribution, distributions
from pathlib import Path
from typing import Any
from zipfile import ZipFile

from packaging.requirements import Requirement

ROOT = Path(__file__).resolve().parents[2]
THIRD_PARTY = "third_party.pth"
_OWN = ("streaming_tts_studio", "__editable__", "__pycache__")
_WHEEL = "Wheel-Version: 1.0\nGenerator: tests\nRoot-Is-Purelib: true\nTag: py3-none-any\n"
_BUILT_FROM = ("pyproject.toml", "setup.py", "MANIFEST.in", "README.md", "LICENSE", "studio", "assets")


def clean_variables(home: Path) -> dict[str, str]:
    """Environment variables of this process without those that lead to the checkout."""
    left_out = ("PYTHON", "STUDIO_", "VIRTUAL_ENV", "XDG_", "NUMBA_")
    kept = {name: value for name, value in os.environ.items() if not name.startswith(left_out)}
    return kept | {"HOME": str(home), "PIP_DISABLE_PIP_VERSION_CHECK": "1"}


def run(*command: str | Path, cwd: Path, **variables: str) -> str:
    """Run a command in a clean environment; returns what it printed. Raises AssertionError where it fails."""
    env = clean_variables(cwd) | variables
    done = subprocess.run(command, cwd=cwd, env=env, capture_output=True, text=True, timeout=500)
    assert done.returncode == 0, f"{command}\n{done.stdout}{done.stderr}"
    return done.stdout


def link_packages(folder: Path) -> None:
    """Fill a folder with a link to each package of the running environment but the studio.

    An environment sees it by ``add_packages``. No installer may own it: one that removes a package would remove ours.
    """
    packages = Path(sysconfig.get_path("purelib"))
    assert packages == Path(sysconfig.get_path("platlib"))
    for one in packages.iterdir():
        if one.suffix != ".pth" and not one.name.startswith(_OWN):
            (folder / one.name).symlink_to(one)


def write_metadata(folder: Path) -> None:
    """Write a wheel for each package of the running environment but the studio, with its metadata alone.

    For installers that want to install what they resolve; ``add_packages`` gives the environment the modules.
    """
    for one in distributions(path=[sysconfig.get_path("purelib")]):
        metadata = one.read_text("METADATA")
        name = re.sub(r"[-_.]+", "_", one.name)
        if metadata is None or name.startswith(_OWN):
            continue
        info = f"{name}-{one.version}.dist-info"
        files = {f"{info}/METADATA": metadata, f"{info}/WHEEL": _WHEEL}
        with ZipFile(folder / f"{name}-{one.version}-py3-none-any.whl", "w") as wheel:
            for path, text in files.items():
                wheel.writestr(path, text)
            wheel.writestr(f"{info}/RECORD", "".join(f"{path},,\n" for path in (*files, f"{info}/RECORD")))


def site_of(environment: Path) -> Path:
    """The site-packages of a virtual environment."""
    (site,) = environment.glob("lib/python3*/site-packages")
    return site


def add_packages(environment: Path, packages: Path) -> None:
    """Let a virtual environment see a folder of packages."""
    (site_of(environment) / THIRD_PARTY).write_text(f"{packages}\n", encoding="utf-8")


def link_needed(environment: Path, extras: Iterable[str]) -> None:
    """Link each file of the packages that the studio with these extras needs into a virtual environment.

    Hard links: a program may remove them, but must not write to them.
    """
    packages, to = Path(sysconfig.get_path("purelib")), site_of(environment)
    for one in _needed(_OWN[0], frozenset(extras), {}).values():
        for file in one.files or ():
            source, target = packages / file, to / file
            if ".." in file.parts or file.suffix == ".pyc" or one.name.startswith(_OWN) or not source.is_file():
                continue
            target.parent.mkdir(parents=True, exist_ok=True)
            try:
                os.link(source, target)
            except FileExistsError:  # of several packages
                continue
            except OSError:  # another file system
                shutil.copy(source, target)


def _needed(name: str, extras: frozenset[str], found: dict[Any, Distribution]) -> dict[Any, Distribution]:
    """The installed packages that one with these extras needs, and itself."""
    if (name, extras) in found:
        return found
    with suppress(PackageNotFoundError):  # of another platform
        found[name, extras] = one = distribution(name)
        for requirement in map(Requirement, one.requires or ()):
            if any(requirement.marker is None or requirement.marker.evaluate({"extra": e}) for e in extras or ("",)):
                _needed(requirement.name, frozenset(requirement.extras), found)
    return found


def build_wheel(folder: Path) -> Path:
    """The wheel, built from a copy of the sources, which is removed."""
    source = folder / "source"
    source.mkdir()
    for name in _BUILT_FROM:
        if (ROOT / name).is_dir():
            shutil.copytree(ROOT / name, source / name, ignore=shutil.ignore_patterns("__pycache__"))
        else:
            shutil.copy(ROOT / name, source / name)
    pip = (sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "--no-build-isolation")
    run(*pip, "--wheel-dir", folder, source, cwd=folder)
    shutil.rmtree(source)
    (wheel,) = folder.glob("*.whl")
    return wheel


def add_compiled(studio: Path) -> None:
    """Copy the checkout's compiled kernels to an installed package, so that they are not compiled again for 10 s.

    The cache holds them for the time stamps of their sources, whose content is the same (tests of the cache:
    tests/engine/nets/test_jit_cache.py).
    """
    for file in (ROOT / "studio" / "engine").rglob("*.py"):
        stamp = file.stat()
        os.utime(studio / file.relative_to(ROOT / "studio"), ns=(stamp.st_atime_ns, stamp.st_mtime_ns))
    for file in (ROOT / "studio" / "engine").rglob("__pycache__/*.code"):
        to = studio / file.relative_to(ROOT / "studio")
        to.parent.mkdir(exist_ok=True)
        shutil.copy(file, to)
