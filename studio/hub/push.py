"""Publish a voice, or the answers of a listening test, on the hub: one commit, uploaded by its client."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal

from studio.core.cards import Card, find_file, read_card, sha256_of
from studio.core.checks import is_file_name
from studio.core.errors import BadVoice
from studio.core.pulled import RECORD
from studio.hub.client import HubError, has_token, hub_api, hub_errors, parse_address
from studio.hub.listing import SUFFIXES
from studio.hub.model_card import model_card

Kind = Literal["model", "dataset"]
_TIMEOUT_S = 60.0  # without an answer, and without progress of an upload


def push_voice(folder: Path, repo: str, *, private: bool = False) -> str:
    """Upload a voice's files and a README.md made from its card; returns the address of the commit.

    Weights that another voice's folder shares with this one are uploaded with it.

    Raises:
        BadVoice: the folder holds no voice, or its files do not match the card.
        HubError, HubBusy: see ``push_files``.
    """
    card = read_card(folder)
    files: dict[str, Path | bytes] = {**_voice_files(card, folder)}
    samples = sorted(name for name in files if name.endswith(".wav") and name not in card.sha256)  # not its speakers
    files["README.md"] = model_card(card, repo, samples).encode()
    return push_files(repo, "model", files, f"Voice {card.name}", private=private)


def _voice_files(card: Card, folder: Path) -> dict[str, Path]:
    names = [path.name for path in sorted(folder.iterdir()) if path.suffix in SUFFIXES and is_file_name(path.name)]
    files = {name: folder / name for name in names if name != RECORD}
    for name, digest in card.sha256.items():
        path = find_file(folder, card, name)
        if path is None or sha256_of(path) != digest:
            problem = "is missing" if path is None else "is not the file that the card names: the sha256 differs"
            raise BadVoice(f"{folder / name} {problem}", "pack the voice again: studio train pack")
        files[name] = path
    return files


def push_files(repo: str, kind: Kind, files: Mapping[str, Path | bytes], message: str, *, private: bool) -> str:
    """Make a commit of these files; older files of the same kinds are deleted. Returns the commit's address.

    The repository is created if it does not exist.

    Raises:
        HubError, HubBusy: see ``hub_errors``; or there is no token, or a repository is public despite ``private``.
    """
    from huggingface_hub import CommitOperationAdd, CommitOperationDelete, constants
    from huggingface_hub.utils import get_session

    repo, revision = parse_address(repo)
    if revision:
        raise HubError("a push goes to the main branch", f"name the repository alone: {repo}")
    if not constants.is_offline_mode() and not has_token():
        raise HubError("a push needs a token", "set HF_TOKEN to one that may write, or run: hf auth login")
    api = hub_api()
    with hub_errors(repo):
        get_session().timeout = _TIMEOUT_S
        api.create_repo(repo, repo_type=kind, private=private, exist_ok=True)
        info: Any = api.repo_info(repo, repo_type=kind, timeout=_TIMEOUT_S)
        if private and not info.private:
            raise HubError(f"{repo} is public", "choose another repository, or do not ask for a private one")
        suffixes = tuple({Path(name).suffix for name in files} | ({*SUFFIXES} if kind == "model" else set()))
        there = {one.rfilename for one in info.siblings or []}
        gone = sorted(name for name in there - files.keys() if "/" not in name and name.endswith(suffixes))
        operations: list[Any] = [CommitOperationDelete(name) for name in gone]
        operations += [CommitOperationAdd(name, one) for name, one in files.items()]
        return str(api.create_commit(repo, operations, commit_message=message, repo_type=kind).commit_url)
