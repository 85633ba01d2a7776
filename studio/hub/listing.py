"""The files of a repository, and those to fetch: none that could run code, and within the limits."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import PurePosixPath
from typing import Any

from studio.core.cards import MAX_WEIGHTS_BYTES
from studio.core.checks import is_file_name, to_printable
from studio.core.pulled import RECORD
from studio.hub.client import HubError, hub_api, hub_errors
from studio.hub.download import RemoteFile

SUFFIXES = (".safetensors", ".json", ".txt", ".wav", ".model")
CARD, CONFIG = "card.json", "config.json"  # of a voice of the studio, of other models
PICKLES = (".bin", ".pt", ".ckpt", ".pth", ".pkl", ".pickle")
_MAX_LISTED = 1_000
_MAX_NESTED = 20_000
_TIMEOUT_S = 20.0
_NO_HUB = "set HF_ENDPOINT to a complete hub"


@dataclass(frozen=True)
class Limits:
    """Limits of a pull: number of files, and their total bytes."""

    files: int = 64
    total_bytes: int = 5_000_000_000


LIMITS = Limits()


@dataclass(frozen=True)
class Listing:
    """A commit of a repository.

    Attributes:
        revision: hex sha of the commit.
        licence: as the repository states it; empty if it states none.
        files: to be fetched.
        refused: names of pickles, which are never fetched.
        others: names of further files, which no voice needs.
        nested: sorted paths of files in folders, if requested.
    """

    repo: str
    revision: str
    endpoint: str
    licence: str
    files: Sequence[RemoteFile]
    refused: Sequence[str]
    others: Sequence[str] = ()
    nested: Sequence[str] = ()

    @property
    def total_bytes(self) -> int:
        return sum(one.size_bytes for one in self.files)

    def file(self, name: str) -> RemoteFile:
        """A file by its name. Raises HubError."""
        for one in self.files:
            if one.name == name:
                return one
        if name in self.refused:
            problem = f"{name} of {self.repo} is a pickle, which can run code when it is loaded; it is never fetched"
            raise HubError(problem, "ask the owner for safetensors")
        if name in self.others:
            raise HubError(
                f"{name} of {self.repo} is of a kind that is not fetched", f"fetched are {', '.join(SUFFIXES)}"
            )
        pickles = f" (it holds {self.refused[0]}, a pickle, which is never fetched)" if self.refused else ""
        raise HubError(
            f"{self.repo} has no {name}{pickles}", "a voice of the studio is a repository of card.json and safetensors"
        )


def list_repository(repo: str, revision: str, limits: Limits, *, nested: bool = False) -> Listing:
    """Resolve a revision (empty for the newest) to a commit, and list its files.

    Of a repository without a card, only the configuration is listed.

    Args:
        nested: files in folders are allowed, in any number, and listed by path only; see ``list_paths``.

    Raises:
        HubError, HubBusy: see ``hub_errors``; the repository has moved, holds more than the limits, or lists a path.
    """
    from huggingface_hub import constants

    if constants.is_offline_mode():
        raise HubError("HF_HUB_OFFLINE is set, so nothing is fetched", "unset it; pulled voices need no hub")
    with hub_errors(repo, revision):
        info = hub_api().model_info(repo, revision=revision or None, files_metadata=not nested, timeout=_TIMEOUT_S)
    if info.id != repo:
        moved = to_printable(info.id, 100)
        raise HubError(f"{repo} has moved to {moved}", f"if you trust its new owner: studio voices pull {moved}")
    siblings = info.siblings or []
    if len(siblings) > _MAX_LISTED and not nested:
        raise HubError(f"{repo} lists {len(siblings):,} files", f"a repository of a voice has up to {_MAX_LISTED:,}")
    paths = sorted(one.rfilename for one in siblings[:_MAX_NESTED] if nested and _is_path(one.rfilename))
    names = [] if nested else [_checked(one.rfilename, repo) for one in siblings]
    wanted = [
        name for name in names if (name.endswith(SUFFIXES) and name != RECORD if CARD in names else name == CONFIG)
    ]
    top = [(name, one) for name, one in zip(names, siblings, strict=not nested) if "/" not in name]
    files = [_remote_file(name, one, repo) for name, one in top if name in wanted]
    refused = [name for name in names if name.lower().endswith(PICKLES)]
    others = sorted({*names} - {*refused} - {one.name for one in files})
    sha = str(info.sha)
    if re.fullmatch("[0-9a-f]{40}|[0-9a-f]{64}", sha) is None:  # it becomes the name of a folder
        raise HubError(f"the hub names {to_printable(sha, 80)!r} as the commit of {repo}", _NO_HUB)
    listing = Listing(repo, sha, constants.ENDPOINT, _licence_of(info), files, refused, others, paths)
    check_limits(listing, limits)
    return listing


def list_paths(repo: str, revision: str, paths: Mapping[str, str]) -> list[RemoteFile]:
    """Files of a commit, from their paths there by their names here. Raises HubError, HubBusy: one is missing."""
    with hub_errors(repo, revision):
        found = {one.path: one for one in hub_api().get_paths_info(repo, [*paths.values()], revision=revision)}
    for path in paths.values():
        if not hasattr(found.get(path), "blob_id"):  # a folder has none
            raise HubError(f"{repo} has no file {to_printable(path, 300)}", "its page at the hub lists what it has")
    files = (_remote_file(name, found[path], repo) for name, path in paths.items())
    return [replace(one, path=paths[one.name], repo=repo, revision=revision) for one in files]


def _is_path(name: str) -> bool:
    return name.isprintable() and len(name) <= 300 and ".." not in PurePosixPath(name).parts


def _checked(name: str, repo: str) -> str:
    parts = PurePosixPath(name).parts
    if not name.isprintable() or "\\" in name or name.startswith("/") or ".." in parts or len(name) > 500:
        problem = f"{repo} lists {to_printable(name, 80)!r}, which leads out of its folder"
        raise HubError(problem, "nothing was fetched; report it to the repository's owner")
    return name


def _remote_file(name: str, sibling: Any, repo: str) -> RemoteFile:
    if not is_file_name(name):
        problem = f"{repo} lists {to_printable(name, 80)!r}"
        raise HubError(problem, "names of a voice's files are letters, digits, _, - and dots, up to 80")
    sha256 = sibling.lfs.sha256 if sibling.lfs else ""
    if type(sibling.size) is not int or sibling.size < 0 or not (sha256 or sibling.blob_id):
        raise HubError(f"the hub lists {name} of {repo} without a size or a hash", _NO_HUB)
    return RemoteFile(name, sibling.size, sha256, sibling.blob_id or "")


def _licence_of(info: Any) -> str:
    stated = (info.card_data or {}).get("license") or ""
    return to_printable(", ".join(map(str, stated)) if isinstance(stated, list) else stated, 200)


def check_limits(listing: Listing, limits: Limits) -> None:
    """Raises HubError if a voice exceeds the limits."""
    if len(listing.files) > limits.files:
        problem = f"{listing.repo} has {len(listing.files)} files for a voice, {limits.files} are the limit"
        raise HubError(problem, f"--max-files {len(listing.files)} takes them")
    if listing.total_bytes > limits.total_bytes:
        of = f"{listing.repo} has {listing.total_bytes / 1e6:,.1f} MB, {limits.total_bytes / 1e6:,.1f} are the limit"
        raise HubError(of, f"--max-mb {-(-listing.total_bytes // 1_000_000)} takes them")
    for one in listing.files:
        if one.size_bytes > MAX_WEIGHTS_BYTES:
            raise HubError(f"{one.name} of {listing.repo} is too large to be loaded", f"{MAX_WEIGHTS_BYTES:,} bytes")
