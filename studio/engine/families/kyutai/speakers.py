"""Speakers, from files of ``kyutai/tts-voices`` or as codes of a recording; labels of the distilled guidance."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from studio.core.cards import MAX_WEIGHTS_BYTES
from studio.core.clips import to_float
from studio.core.errors import BadOption, BadVoice
from studio.core.kyutai import PREFIX_FRAMES, TIME_BASE
from studio.core.sound_files import read_mono
from studio.engine.tokenizers.dmel import resample

MAX_SPEAKERS = 5
_LONGEST_FILE_S = 600.0
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


def read_prefix(path: Path, codebooks: int, codes: int) -> np.ndarray:
    """A recording as a voice: int64 [T, codebooks], from a file with ``codes`` [codebooks, T].

    Args:
        codes: size of a codebook.

    Raises:
        BadVoice: the file is missing, or does not hold such codes of ``PREFIX_FRAMES`` frames.
    """
    stored = _tensor(path, "codes", "I32", [codebooks], PREFIX_FRAMES)
    return check_prefix(np.ascontiguousarray(stored.T.numpy(), dtype=np.int64), codebooks, codes, path.name)


def read_recording(path: Path) -> np.ndarray:
    """A sound file at Mimi's rate, float32 [T], of which at most 20 seconds count. Raises BadFile."""
    pcm, rate_hz = read_mono(path, longest_s=_LONGEST_FILE_S)
    sound = resample(torch.from_numpy(to_float(pcm)), rate_hz, TIME_BASE.rate_hz)
    return sound[: PREFIX_FRAMES[1] * TIME_BASE.frame_samples].numpy()


def check_prefix(prefix: np.ndarray, codebooks: int, codes: int, name: str = "the recording") -> np.ndarray:
    """The codes of a recording. Raises BadVoice: they are not int64 [T, codebooks] of ``PREFIX_FRAMES`` frames."""
    least, most = PREFIX_FRAMES
    if prefix.ndim != 2 or prefix.shape[1] != codebooks or not least <= len(prefix) <= most:
        wanted = f"{least} to {most} frames of {codebooks} codes"
        raise BadVoice(f"{name} has frames of shape {prefix.shape}, not {wanted}", _DO)
    if not 0 <= int(prefix.min()) <= int(prefix.max()) < codes:
        raise BadVoice(f"{name} holds codes that are not below {codes}", _DO)
    return prefix


def _read(path: Path, width: int) -> Tensor:
    """[S, width] of a file."""
    vectors = _tensor(path, "speaker_wavs", "F32", [1, width], (1, _MAX_VECTORS))[0].T
    if not vectors.isfinite().all():
        raise BadVoice(f"{path} holds numbers that are not finite", _DO)
    return vectors


def _tensor(path: Path, name: str, dtype: str, leading: list[int], bounds: tuple[int, int]) -> Tensor:
    """A tensor [*leading, S] of a file, S within bounds. Raises BadVoice."""
    from safetensors import SafetensorError, safe_open

    if not path.is_file() or path.stat().st_size > MAX_WEIGHTS_BYTES:
        raise BadVoice(f"there is no file {path}", _DO)
    try:
        with safe_open(path, framework="pt") as file:
            shape, found = file.get_slice(name).get_shape(), file.get_slice(name).get_dtype()
            if shape[:-1] != leading or not bounds[0] <= shape[-1] <= bounds[1] or found != dtype:
                wanted = ", ".join(map(str, leading))
                problem = f"{name} in {path} is {found} of shape {shape}, not {dtype} of [{wanted}, S]"
                raise BadVoice(f"{problem} with S from {bounds[0]} to {bounds[1]}", _DO)
            return file.get_tensor(name)
    except (SafetensorError, OSError) as error:
        raise BadVoice(f"{path} holds no {name}: {error}", _DO) from error


def read_labels(strengths: Sequence[float], guidance: float) -> dict[str, Tensor]:
    """Labels int64 [1, 1] of the other conditions, for one of the strengths of guidance that the model has learnt."""
    return {"control": torch.zeros(1, 1, dtype=torch.int64), "cfg": torch.tensor([[strengths.index(guidance)]])}
