"""Kyutai's repositories: the files of a published model and its speakers, and a voice's card for them."""

import json
import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path, PurePosixPath
from typing import Any

from studio.core import durable
from studio.core.cards import Card, sha256_of, write_card
from studio.core.checks import is_file_name, to_printable
from studio.core.errors import BadVoice
from studio.core.files import MAX_SETTINGS_BYTES, read_bounded
from studio.core.kyutai import CODEC, MODEL, RECORDING, SPEAKER, TEXT, TIME_BASE, KyutaiSettings
from studio.hub.client import HubError
from studio.hub.download import RemoteFile, fetch
from studio.hub.listing import CONFIG, Limits, Listing, check_limits, list_paths, list_repository

SPEAKERS = "kyutai/tts-voices"  # the repository of speakers, with one file per speaker and model
DEFAULT_SPEAKERS = ("expresso/ex03-ex01_happy_001_channel1_334s.wav",)  # as in Kyutai's own scripts
MIMI: dict[str, Any] = {}  # sizes that differ from the published ones
_FILES = {"moshi_name": MODEL, "mimi_name": CODEC, "tokenizer_name": TEXT}
MOST_SPEAKERS, MAX_PATH_CHARS = 32, 300  # in a pull
_TEMPERATURE = 0.6  # as in Kyutai's own scripts
_DO = "give a repository such as kyutai/tts-1.6b-en_fr"


def kyutai_offer(
    listing: Listing, staging: Path, speakers: Sequence[str], limits: Limits, advance: Callable[[int], None]
) -> tuple[Card, Listing, list[str]]:
    """The card of a published model with these speakers, all files of the voice, and paths of all speakers.

    Fetches the configuration.

    Args:
        speakers: paths in ``SPEAKERS``, as Kyutai names its voices; by default ``DEFAULT_SPEAKERS``.

    Raises:
        HubError, HubBusy: see ``hub_errors``; or a repository lacks a file.
        BadVoice: the configuration is of another kind of model.
    """
    repo, config = listing.repo, listing.file(CONFIG)
    if config.size_bytes > MAX_SETTINGS_BYTES:
        raise BadVoice(f"{CONFIG} of {repo} is larger than {MAX_SETTINGS_BYTES:,} bytes", _DO)
    fetch(repo, listing.revision, config, staging, advance)
    values = _read_values(staging / CONFIG, repo)
    is_prefixed = KyutaiSettings.read(values).is_prefixed
    stored_as, suffix = (RECORDING, "") if is_prefixed else (SPEAKER, _suffix(values, repo))
    files = list_paths(repo, listing.revision, {name: _named(values, key, repo) for key, name in _FILES.items()})
    paths = tuple(speakers) or DEFAULT_SPEAKERS
    names = _names(paths)
    others = list_repository(SPEAKERS, "", limits, nested=True)
    wanted = {stored_as.format(number): path + suffix for number, path in enumerate(paths)}
    of_speakers = list_paths(SPEAKERS, others.revision, wanted)
    whole = replace(listing, files=[config, *files, *of_speakers])
    check_limits(whole, limits)
    ending = suffix or ".wav"
    available = [path.removesuffix(suffix) for path in others.nested if path.endswith(ending)]
    return _card(values, whole, names, others), whole, available


def complete_card(card: Card, staging: Path, files: Sequence[RemoteFile]) -> Card:
    """Write the card of fetched files, with hashes and parameter counts. Raises BadVoice: one holds no tensors."""
    names = [one.name for one in files if one.name != CONFIG]
    parameters = {name.partition(".")[0]: _numbers(staging / name) for name in (MODEL, CODEC)}
    card = replace(card, sha256={name: sha256_of(staging / name) for name in names}, parameters=parameters)
    write_card(staging, card)
    durable.sync_folder(staging)
    return card


def _read_values(path: Path, repo: str) -> dict[str, Any]:
    try:
        values = json.loads(read_bounded(path, MAX_SETTINGS_BYTES))
    except (OSError, ValueError, RecursionError) as error:
        raise BadVoice(f"{CONFIG} of {repo} cannot be read: {error!s:.200}", _DO) from error
    if not isinstance(values, dict) or "moshi_name" not in values:
        raise BadVoice(f"{repo} is neither a voice of the studio (it has no card.json) nor a model of Kyutai's", _DO)
    return values


def _named(values: dict[str, Any], key: str, repo: str) -> str:
    """A file named by the configuration."""
    name = values.get(key)
    if not isinstance(name, str) or not is_file_name(name.replace("@", "-")):
        raise BadVoice(f"{key} in {CONFIG} of {repo} is {to_printable(repr(name), 80)}, no name of a file", _DO)
    return name


def _suffix(values: dict[str, Any], repo: str) -> str:
    """Suffix of the model's speaker files."""
    found = values.get("model_id")
    parts = [str(found.get(key, "")) for key in ("sig", "epoch")] if isinstance(found, dict) else ["", ""]
    if not all(map(is_file_name, parts)):
        raise BadVoice(f"model_id in {CONFIG} of {repo} names no speakers' files", _DO)
    return f".{parts[0]}@{parts[1]}.safetensors"


def _names(paths: Sequence[str]) -> list[str]:
    """Names of the speakers, from their files. Raises HubError."""
    if len(paths) > MOST_SPEAKERS or any(len(path) > MAX_PATH_CHARS for path in paths):
        raise HubError(
            "there are too many speakers, or a path is too long", f"give up to {MOST_SPEAKERS} paths in {SPEAKERS}"
        )
    names = [PurePosixPath(path).name.removesuffix(".wav")[:80] for path in paths]
    if len(names) != len(set(names)):
        raise HubError("two of these speakers have the same name", "pull them as two voices")
    return names


def _card(values: dict[str, Any], listing: Listing, names: Sequence[str], others: Listing) -> Card:
    settings = KyutaiSettings.read(values)
    model = listing.licence or "none stated"
    card = Card(
        name=listing.repo.partition("/")[2],
        family="kyutai",
        vocoder="mimi",
        title=f"Kyutai: {listing.repo.partition('/')[2]}",
        about="Published by Kyutai. Speech follows the text by more than a second; live speech needs a GPU.",
        config=values,
        vocoders={"mimi": MIMI},
        alphabet=f"mimi-{values.get('dep_q')}x{values.get('card')}",
        sample_rate_hz=TIME_BASE.rate_hz,
        frame_samples=TIME_BASE.frame_samples,
        phase=TIME_BASE.phase,
        speakers=tuple(names),
        temperature=_TEMPERATURE,
        look_ahead_words=settings.look_ahead_words,
        delay_frames=settings.delay_steps,
        options=settings.options(),
        licence=f"{model}; speakers: {others.licence or 'none stated'}",
        learned_from=f"see {listing.repo}; speakers from {others.repo}@{others.revision[:12]}",
        parameters={},
        sha256={},
    )
    return Card.from_dict(card.to_dict())


def _numbers(path: Path) -> int:
    """Number of parameters in a safetensors file."""
    from safetensors import SafetensorError, safe_open

    try:
        with safe_open(path, framework="np") as file:
            shapes = [file.get_slice(name).get_shape() for name in file.keys()]  # noqa: SIM118 - it is no mapping
    except (SafetensorError, OSError) as error:
        raise BadVoice(f"{path.name} is no safetensors file: {error!s:.200}", _DO) from error
    return sum(map(math.prod, shapes))
