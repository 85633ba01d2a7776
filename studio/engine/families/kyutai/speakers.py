"""Conditions of an utterance: the speakers, from files of ``kyutai/tts-voices``, and the distilled guidance."""

from collections.abc import Sequence
from pathlib import Path

import torch
from torch import Tensor

from studio.core.cards import MAX_WEIGHTS_BYTES
from studio.core.errors import BadOption, BadVoice

MAX_SPEAKERS = 5
_NAME = "speaker_wavs"
_MAX_VECTORS = 1_000  # of a speaker; the published ones have 125, ten seconds
_DO = "fetch the voice that belongs to the model"


def read_speakers(paths: Sequence[Path], width: int) -> tuple[Tensor, Tensor]:
    """Vectors of the speakers of an utterance, in the order of their turns.

    Args:
        paths: of 1 to ``MAX_SPEAKERS`` files, each with ``speaker_wavs`` [1, width, S].
        width: of the model's speaker vectors.

    Returns:
        float32 [1, MAX_SPEAKERS * S, width], and where there is a speaker, bool [1, MAX_SPEAKERS * S].

    Raises:
        BadOption: too many speakers, or none.
        BadVoice: a file is missing, or does not hold such vectors, or as many as the first.
    """
    if not 1 <= len(paths) <= MAX_SPEAKERS:
        raise BadOption(f"{len(paths)} speakers were given", f"give 1 to {MAX_SPEAKERS}")
    found = [_read(path, width) for path in paths]
    count = found[0].shape[0]
    if other := next((path for path, one in zip(paths, found, strict=True) if len(one) != count), None):
        raise BadVoice(f"{other} has another number of vectors than {paths[0]}, {count}", _DO)
    vectors = torch.zeros(1, MAX_SPEAKERS * count, width)
    vectors[0, : len(found) * count] = torch.cat(found)
    present = torch.arange(MAX_SPEAKERS * count) < len(found) * count
    return vectors, present[None]


def _read(path: Path, width: int) -> Tensor:
    """[S, width] of a file."""
    from safetensors import SafetensorError, safe_open

    if not path.is_file() or path.stat().st_size > MAX_WEIGHTS_BYTES:
        raise BadVoice(f"there is no file {path}", _DO)
    try:
        with safe_open(path, framework="pt") as file:
            shape, dtype = file.get_slice(_NAME).get_shape(), file.get_slice(_NAME).get_dtype()
            if len(shape) != 3 or shape[:2] != [1, width] or not 1 <= shape[2] <= _MAX_VECTORS or dtype != "F32":
                raise BadVoice(f"{_NAME} in {path} is {dtype} of shape {shape}, not F32 of [1, {width}, S]", _DO)
            vectors = file.get_tensor(_NAME)[0].T
    except (SafetensorError, OSError) as error:
        raise BadVoice(f"{path} holds no {_NAME}: {error}", _DO) from error
    if not vectors.isfinite().all():
        raise BadVoice(f"{path} holds numbers that are not finite", _DO)
    return vectors


def read_labels(strengths: Sequence[float], guidance: float) -> dict[str, Tensor]:
    """Labels int64 [1, 1] of the other conditions, for one of the strengths of guidance that the model has learnt."""
    return {"control": torch.zeros(1, 1, dtype=torch.int64), "cfg": torch.tensor([[strengths.index(guidance)]])}
