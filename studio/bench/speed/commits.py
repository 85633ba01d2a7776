"""Earlier commits of this program: their code and their voices, taken out of git into a folder."""

import io
import shutil
import subprocess
import tomllib
import zipfile
from dataclasses import dataclass
from pathlib import Path

from studio.core.errors import BadOption, BadVoice, NeedsPackage

CHECKOUT = Path(__file__).resolve().parents[3]
VOICES = "assets/voices"
_CODE = ("studio", "pyproject.toml")
_DISTRIBUTION = "streaming_tts_studio"


@dataclass(frozen=True)
class Commit:
    """A commit of a checkout, by its whole name."""

    checkout: Path
    sha: str

    def code(self, folder: Path) -> Path:
        """Its packages in a folder. Raises BadOption where it holds none."""
        if not self._extract(folder, *_CODE):
            raise BadOption(f"commit {self.short} holds no {' and no '.join(_CODE)}", "name a later one")
        return folder

    def voices(self, folder: Path) -> Path:
        """The folder of its voices. Raises BadVoice where it holds none."""
        if not self._extract(folder, VOICES) or not [*(folder / VOICES).glob("*/card.json")]:
            raise BadVoice(f"commit {self.short} holds no voice", "--voice-from names a commit that does")
        return folder / VOICES

    @property
    def short(self) -> str:
        """As results name it."""
        return self.sha[:12]

    def _extract(self, folder: Path, *paths: str) -> bool:
        found = _git(self.checkout, "archive", "--format=zip", "-0", self.sha, "--", *paths)
        if found.returncode == 0:
            with zipfile.ZipFile(io.BytesIO(found.stdout)) as archive:
                archive.extractall(folder)
        return found.returncode == 0


def commit_of(name: str, checkout: Path = CHECKOUT) -> Commit:
    """The commit of a name such as HEAD~3.

    Raises:
        NeedsPackage: git is not installed.
        BadOption: this is no checkout, or there is no such commit.
    """
    if shutil.which("git") is None:
        raise NeedsPackage("an earlier commit is taken out of git, which is not installed", "apt-get install git")
    top = _git(checkout, "rev-parse", "--show-toplevel")
    if top.returncode or Path(top.stdout.decode().strip()).resolve() != checkout.resolve():
        raise BadOption(f"{checkout} is no checkout of git, so it has no earlier commits", "clone the repository")
    found = _git(checkout, "rev-parse", "--verify", "--quiet", "--end-of-options", f"{name}^{{commit}}")
    if found.returncode:
        raise BadOption(
            f"there is no commit {name[:80]!r} here", "`git log` lists them; a shallow clone lacks old ones"
        )
    return Commit(checkout, found.stdout.decode().strip())


def write_metadata(code: Path, folder: Path) -> Path:
    """What an installed package says of itself, as the code's own pyproject.toml has it; answers the folder.

    A folder on PYTHONPATH comes before what is installed, so that entry points (the families) are the code's own.
    """
    project = tomllib.loads((code / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    about = folder / f"{_DISTRIBUTION}-{project['version']}.dist-info"
    about.mkdir(parents=True)
    named = f"Metadata-Version: 2.1\nName: {project['name']}\nVersion: {project['version']}\n"
    (about / "METADATA").write_text(named, encoding="utf-8")
    groups = project.get("entry-points", {})
    lines = [f"[{group}]\n" + "".join(f"{k} = {v}\n" for k, v in names.items()) for group, names in groups.items()]
    (about / "entry_points.txt").write_text("\n".join(lines), encoding="utf-8")
    return folder


def _git(checkout: Path, *said: str) -> subprocess.CompletedProcess[bytes]:
    return subprocess.run(["git", "-C", str(checkout), *said], capture_output=True, check=False)
