"""Weights from disk: safetensors only, checked against the card before a byte of them is used."""

from pathlib import Path

from safetensors import SafetensorError
from safetensors.torch import load_file
from torch import nn

from studio.core.cards import Card, find_file, sha256_of
from studio.core.errors import BadVoice
from studio.engine.eightbit import restored


def load_weights(net: nn.Module, folder: Path, card: Card, name: str) -> None:
    """Load ``folder/name`` into a net, strictly; where it is missing, the same file of a voice beside this one.

    Voices of one folder thus share a vocoder without a copy of it for each.

    Raises:
        BadVoice: the file is missing, is not what the card names, or does not fit the net.
    """
    path = find_file(folder, card, name)
    fetch = "fetch the voice again, or check out assets/voices from the repository"
    if path is None:
        raise BadVoice(f"voice {card.name!r} has no file {name} in {folder}", fetch)
    if card.sha256.get(name) != sha256_of(path):
        raise BadVoice(f"{path} is not the file that its card names: the sha256 differs", fetch)
    try:
        tensors = restored(load_file(path))
        strange = [name for name, tensor in tensors.items() if not tensor.isfinite().all()]
        if strange:
            raise BadVoice(f"{path} holds numbers that are none, in {strange[0]:.80}", fetch)
        net.load_state_dict(tensors, strict=True)
    except (SafetensorError, RuntimeError, ValueError) as error:
        raise BadVoice(f"{path} does not fit the card's configuration: {error}", fetch) from error
