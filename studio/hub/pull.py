"""Pull voices: fetched into a staging folder, verified, then renamed into the folder of voices."""

import json
import secrets
import shutil
import time
from collections.abc import Callable, Collection, Generator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path

from studio.core import durable
from studio.core.cards import Card, read_card, sha256_of
from studio.core.checks import is_file_name
from studio.core.errors import BadVoice, NotStored
from studio.core.files import list_folder, open_unbuffered
from studio.core.pulled import RECORD, Source, check_file, read_source
from studio.hub.client import HubBusy, HubError, parse_address
from studio.hub.download import fetch
from studio.hub.kyutai import complete_card, kyutai_offer
from studio.hub.listing import CARD, CONFIG, LIMITS, Limits, Listing, list_repository

try:
    import fcntl
except ImportError:  # Windows: no lock against simultaneous pulls of one revision
    fcntl = None

_STAGING = ".staging"  # for voices being fetched; cards in it are ignored
_REMOVED = ".removed"
_STALE_S = 30 * 86_400.0
_MAX_CARD_BYTES = 1 << 20
_SPARE_BYTES = 64_000_000  # to leave free on the disk


@dataclass(frozen=True)
class Offer:
    """A voice before its weights are fetched, for the user to accept or decline."""

    card: Card
    listing: Listing
    speakers: Sequence[str] = ()  # possible values of ``pull``'s ``speakers``

    @property
    def licences(self) -> list[str]:
        """The licences of the repository and the card, once if they are equal."""
        stated = [self.listing.licence or "none stated by the repository", self.card.licence]
        return list({one.casefold(): one for one in stated}.values())


def pull(
    address: str,
    root: Path,
    accept: Callable[[Offer], bool],
    *,
    name: str = "",
    reserved: Collection[str] = (),
    speakers: Sequence[str] = (),
    limits: Limits = LIMITS,
    advance: Callable[[int], None] = lambda count: None,
) -> Path:
    """Pull a voice of ``owner/name@revision`` into a folder of voices; returns its folder.

    A commit that is already there and intact is not fetched again, and needs no network if named by its full sha.

    Args:
        root: the folder of voices.
        accept: asked once, with the licence, before the weights are fetched.
        name: a name instead of the card's.
        reserved: names that are not allowed.
        speakers: of a Kyutai model; see ``kyutai_offer``.
        advance: called with numbers of fetched bytes, negative for bytes to fetch again.

    Raises:
        HubError, HubBusy: see ``hub_errors``; or the content is invalid, or the licence was declined.
        BadVoice: the repository holds no valid voice, or the name is taken.
        NotStored: the disk is full.
    """
    repo, revision = parse_address(address)
    if name:
        _check_name(name)
    if not speakers and (there := _intact(root, repo, revision, name)):
        return there
    listing = list_repository(repo, revision, limits)
    if not speakers and (there := _intact(root, repo, listing.revision, name)):
        return there
    durable.make_folder(root)
    _remove_stale(root / _STAGING)
    with _locked(root / _STAGING / _staging_name(listing)) as staging:
        offer = _read_offer(listing, staging, root, name, reserved, advance, speakers, limits)
        if not accept(offer):
            shutil.rmtree(staging)
            raise HubError("the licence was not accepted", "nothing was kept")
        listing, card = offer.listing, offer.card
        _link_unchanged(root / card.name, staging, listing)
        paths = [fetch(repo, listing.revision, one, staging, advance) for one in listing.files if one.name != CARD]
        if CARD not in [one.name for one in listing.files]:
            card = complete_card(card, staging, listing.files)
        _check_weights(card, paths, repo)
        return _install(listing, card, staging, root)


def _link_unchanged(folder: Path, staging: Path, listing: Listing) -> None:
    """Link the files that an older pull of this voice already has."""
    for one in listing.files:
        if one.name != CARD and not (staging / one.name).exists() and one.matches(folder / one.name):
            with suppress(OSError):  # a file system without links: the file is fetched
                (staging / one.name).hardlink_to(folder / one.name)


def _intact(root: Path, repo: str, revision: str, name: str) -> Path | None:
    """The folder of an intact voice of this commit, under this name if one is given."""
    for there in [name] if name else pulled_names(root):
        with suppress(BadVoice):
            source = read_source(root / there)
            if source is not None and (source.repo, source.revision) == (repo, revision):
                verify(root / there)
                return root / there
    return None


def look(address: str, root: Path, *, name: str = "", reserved: Collection[str] = ()) -> Offer:
    """The offer that ``pull`` would make; fetches only the card. Raises as ``pull``."""
    repo, revision = parse_address(address)
    listing = list_repository(repo, revision, LIMITS)
    durable.make_folder(root)
    with _locked(root / _STAGING / _staging_name(listing)) as staging:
        return _read_offer(listing, staging, root, name, reserved, lambda count: None)


def verify(folder: Path) -> int:
    """Hash every file of a pulled voice; returns their number. Raises BadVoice: one was changed, or there are none."""
    source = read_source(folder)
    if source is None:
        raise BadVoice(f"{folder.name} was not pulled from the hub", "studio voices list says which voices were")
    for name in source.files:
        check_file(folder, name, source)
    return len(source.files)


def remove(name: str, root: Path) -> None:
    """Remove a pulled voice. Raises BadVoice: there is none with this name."""
    folder = root / name
    if not is_file_name(name) or not (folder / RECORD).is_file():
        there = ", ".join(pulled_names(root)) or "none"
        raise BadVoice(f"there is no pulled voice {name!r:.80}", f"pulled are {there}")
    with suppress(FileNotFoundError):  # another process has removed it
        _discard(folder, root)


def pulled_names(root: Path) -> list[str]:
    """Names of the pulled voices of a folder."""
    return sorted(path.parent.name for path in root.glob(f"*/{RECORD}"))


def _staging_name(listing: Listing) -> str:
    return f"{listing.repo.replace('/', '--')}@{listing.revision}"


def _read_offer(
    listing: Listing,
    staging: Path,
    root: Path,
    name: str,
    reserved: Collection[str],
    advance: Callable[[int], None],
    speakers: Sequence[str] = (),
    limits: Limits = LIMITS,
) -> Offer:
    """Fetch and check the card, or make a Kyutai model's. Raises HubError, HubBusy, BadVoice, NotStored."""
    there = [one.name for one in listing.files]
    if CARD not in there and CONFIG in there:
        card, listing, available = kyutai_offer(listing, staging, speakers, limits, advance)
        _check_space(listing, staging)
        return Offer(_checked_card(listing, card, name, root, reserved), listing, available)
    if speakers:
        raise HubError(f"the speakers of {listing.repo} are part of it", "leave --speaker out")
    _check_space(listing, staging)
    card_file = listing.file(CARD)
    if card_file.size_bytes > _MAX_CARD_BYTES:
        problem = f"{CARD} of {listing.repo} is larger than {_MAX_CARD_BYTES:,} bytes"
        raise BadVoice(problem, "it is no card of a voice")
    fetch(listing.repo, listing.revision, card_file, staging, advance)
    return Offer(_checked_card(listing, read_card(staging), name, root, reserved), listing)


@contextmanager
def _locked(staging: Path) -> Generator[Path]:
    """A staging folder, locked against another pull of the same commit. Raises HubBusy."""
    durable.make_folder(staging)
    with open_unbuffered(staging.parent / f"{staging.name}.lock", "ab") as file:
        try:
            if fcntl is not None:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            raise HubBusy("this voice is being pulled by another process", "wait until it has ended") from error
        durable.make_folder(staging)  # the other pull may have moved it
        yield staging


def _remove_stale(staging: Path) -> None:
    """Delete abandoned downloads, and remains of removed voices after a crash."""
    for path in list_folder(staging):
        with suppress(OSError):
            age_s = time.time() - max(one.stat().st_mtime for one in (path, *path.glob("*")))
            if age_s > _STALE_S or (path.suffix == _REMOVED and path.is_dir()):
                shutil.rmtree(path) if path.is_dir() else path.unlink()


def _check_space(listing: Listing, staging: Path) -> None:
    there = sum(path.stat().st_size for path in staging.iterdir() if path.is_file())
    needed = listing.total_bytes - there + _SPARE_BYTES
    if (free := shutil.disk_usage(staging).free) < needed:
        problem = f"{listing.repo} needs {needed / 1e6:,.0f} MB of disk, {free / 1e6:,.0f} MB are free"
        raise NotStored(problem, f"free space, or set STUDIO_PULLED_VOICES to another folder than {staging.parents[1]}")


def _checked_card(listing: Listing, card: Card, name: str, root: Path, reserved: Collection[str]) -> Card:
    """The card with the voice's local name. Raises BadVoice, HubError."""
    for needed in card.sha256:
        listing.file(needed)
    card = replace(card, name=name or card.name)
    _check_name(card.name)
    there = read_source(root / card.name)
    if card.name in reserved or ((root / card.name).exists() and (there is None or there.repo != listing.repo)):
        raise BadVoice(
            f"there is a voice {card.name!r} already", f"give this one another name, such as {card.name}-2 (--as)"
        )
    return card


def _check_name(name: str) -> None:
    if not is_file_name(name):
        raise BadVoice(f"{name!r:.80} is no name of a folder", "choose letters, digits, _, - and dots with --as")


def _check_weights(card: Card, paths: Collection[Path], repo: str) -> None:
    there = {path.name: path for path in paths}
    for name, digest in card.sha256.items():
        if sha256_of(there[name]) != digest:
            raise BadVoice(
                f"{name} of {repo} is not the file that its card names", "report it to the repository's owner"
            )


def _install(listing: Listing, card: Card, staging: Path, root: Path) -> Path:
    """Write the record, and move the staging folder into the folder of voices."""
    _rename_card(staging / CARD, card.name)
    files = {name: sha256_of(staging / name) for name in {CARD, *(one.name for one in listing.files)}}
    pulled_at = datetime.now(UTC).isoformat(timespec="seconds")
    source = Source(listing.repo, listing.revision, listing.endpoint, listing.licence, pulled_at, files)
    for path in staging.iterdir():
        if path.name not in files:  # of a pull with other limits, or incomplete
            path.unlink()
    durable.replace(staging / RECORD, source.to_json().encode())
    folder = root / card.name
    if folder.exists():
        _discard(folder, root)
    staging.rename(folder)
    durable.sync_folder(root)
    return folder


def _rename_card(path: Path, name: str) -> None:
    data = json.loads(path.read_bytes())
    if data["name"] != name:
        durable.replace(path, (json.dumps(data | {"name": name}, indent=1, ensure_ascii=False) + "\n").encode())


def _discard(folder: Path, root: Path) -> None:
    """Remove a folder atomically by a rename, then delete its files."""
    durable.make_folder(root / _STAGING)
    away = root / _STAGING / f"{secrets.token_hex(8)}{_REMOVED}"
    folder.rename(away)
    durable.sync_folder(root)
    shutil.rmtree(away)
