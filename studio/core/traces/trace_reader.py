"""Read untrusted traces: every size is bounded, nothing is unpacked to disk, no pickle."""

import io
import json
import math
import re
import struct
import zipfile
import zlib
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any, BinaryIO, cast

import numpy as np

from studio.core import events as ev
from studio.core.checks import rules_of
from studio.core.errors import BadFile, unreadable
from studio.core.sound_files import read_mono

# Enough for two hours of 24 kHz speech.
MAX_BYTES = {"meta.json": 1 << 20, "events.jsonl": 1 << 27, "audio.wav": 1 << 29, "layers.npz": 1 << 27}
MAX_LAYER_BYTES = 1 << 28
# Exceptions of zipfile for invalid data.
_DAMAGED = (
    zipfile.BadZipFile, zlib.error, struct.error, EOFError, ValueError, KeyError, OverflowError,
    NotImplementedError, RuntimeError,
)  # fmt: skip
_COMPRESSION = (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED)
# dtype and number of dimensions.
_LAYERS = {"frames.npy": ("|u1", 2), "p_eos.npy": ("<f4", 1)}
_OPTIONAL_LAYERS = {"log_likelihood.npy": ("<f4", 1), "attention.npy": ("<f2", 2), "attention_word.npy": ("<i4", 1)}
# The header of numpy.save. numpy's own reader evaluates it as Python and has many failure modes.
_NPY = re.compile(
    rb"\x93NUMPY\x01\0(..)(\{'descr': '([^']{1,9})', 'fortran_order': False, "
    rb"'shape': \(((?:[0-9]{1,12}(?:, |,?(?=\))))*)\), \} *\n)",
    re.DOTALL,
)
_WHOLE = (1 - 2**53, 2**53 - 1)  # whole numbers that JavaScript holds exactly
_BATCH_LINES = 1000  # events parsed by one json.loads call
REQUIRED = ("meta.json", "events.jsonl", "audio.wav")


TraceLayers = tuple[np.ndarray, np.ndarray, dict[str, np.ndarray]]  # frames, p_eos, optional ones
TraceParts = tuple[dict[str, Any], list[ev.Event], np.ndarray, np.ndarray, np.ndarray, dict[str, np.ndarray]]


def read_trace(
    source: Path | BinaryIO,
    limits: Mapping[str, int] = MAX_BYTES,
    max_layer_bytes: int = MAX_LAYER_BYTES,
    max_events: int | None = None,
    name: str = "",
) -> TraceParts:
    """Meta, events, pcm, frames, p_eos and optional layers of a ``.trace`` zip or folder, or of an open file.

    Args:
        limits: maximal unpacked size of each part, in bytes.
        max_layer_bytes: maximal unpacked size of each layer in layers.npz.
        max_events: None for no limit but that of the bytes.
        name: name in messages; by default the file's name, without its folder.

    Raises:
        BadFile: it is absent, damaged, not a trace, or exceeds a limit.
    """
    name = name or (source.name if isinstance(source, Path) else "the upload")
    if isinstance(source, Path):
        if source.is_dir():
            return _read_folder(source)
        if source.exists() and not source.is_file():
            raise BadFile(f"{source} is a device or a pipe, not a trace", "give a file")
    try:
        with zipfile.ZipFile(source) as archive:
            parts = _read_parts(archive, limits, f"the trace {name}")
    except FileNotFoundError as error:
        raise BadFile(f"there is no trace {source}", "check the path") from error
    except OSError as error:
        raise unreadable(error, f"{name} is not a readable trace", "try again, or give another file") from error
    except _DAMAGED as error:
        raise BadFile(f"{name} is not a readable trace: {error}", "a trace is a zip made by this studio") from error
    missing = [part for part in REQUIRED if part not in parts]
    if missing:
        raise BadFile(f"{name} lacks {', '.join(missing)}", "a trace is a zip made by this studio")
    lines = parts["events.jsonl"].splitlines()
    if max_events is not None and len(lines) > max_events:
        raise BadFile(f"{name} holds {len(lines):,} events", f"at most {max_events:,} are opened here")
    layers = parts.get("layers.npz")
    frames, p_eos, more = (*decode_layers(b"", b"", 0), {}) if layers is None else _read_layers(layers, max_layer_bytes)
    return (*_build(parts["meta.json"], lines, parts["audio.wav"]), frames, p_eos, more)


def read_trace_wav(source: Path | BinaryIO, max_bytes: int = MAX_BYTES["audio.wav"]) -> bytes:
    """The WAV file in a ``.trace`` zip; other parts are not read. Raises BadFile."""
    name = source.name if isinstance(source, Path) else "the upload"
    try:
        with zipfile.ZipFile(source) as archive:
            return _read_part(archive, archive.getinfo("audio.wav"), max_bytes, f"the trace {name}")
    except OSError as error:
        raise unreadable(error, f"{name} is not a readable trace", "try again, or give another file") from error
    except _DAMAGED as error:
        raise BadFile(f"{name} is not a readable trace: {error}", "a trace is a zip made by this studio") from error


def _read_folder(folder: Path) -> TraceParts:
    """An unfinished trace, whose last line and frame may be incomplete."""
    parts: dict[str, bytes] = {}
    for name in (*REQUIRED, "frames.u8", "p_eos.f32"):
        file, limit = folder / name, MAX_BYTES.get(name, MAX_LAYER_BYTES)
        if not file.is_file():
            raise BadFile(f"the folder {folder} lacks {name}", "give a trace, or the folder of an unfinished one")
        if file.stat().st_size > limit:
            raise BadFile(f"{file} is larger than {limit} bytes", "it is not a trace of one utterance")
        parts[name] = file.read_bytes()
    whole_lines = parts["events.jsonl"].rpartition(b"\n")[0].splitlines()
    about, events, pcm = _build(parts["meta.json"], whole_lines, parts["audio.wav"])
    channels = about.get("channels", 0)
    if not _is_whole(channels) or channels < 0:
        raise BadFile(f"meta.json says {channels!r} channels", "the trace is damaged")
    frames, p_eos = decode_layers(parts["frames.u8"], parts["p_eos.f32"], channels)
    return about, events, pcm, frames, p_eos, {}


def decode_layers(levels: bytes, p_eos: bytes, channels: int) -> tuple[np.ndarray, np.ndarray]:
    """Frames uint8 [T, C] and p_eos float32 [T] of the raw layers; an incomplete last frame is dropped."""
    count = min(len(levels) // channels, len(p_eos) // 4) if channels else len(p_eos) // 4
    frames = np.frombuffer(levels[: count * channels], np.uint8).reshape(count, channels)
    return frames, np.frombuffer(p_eos[: 4 * count], "<f4").astype(np.float32)


def _read_parts(archive: zipfile.ZipFile, limits: Mapping[str, int], what: str) -> dict[str, bytes]:
    """The known members, each read up to its limit, since the sizes in a zip may be wrong."""
    parts: dict[str, bytes] = {}
    for info in archive.infolist():
        limit = limits.get(info.filename)
        if limit is None and info.filename in _LAYERS:  # a truncated trace looks like its inner zip of layers
            raise BadFile(f"{what} is cut short", "the end of the file is missing: copy it again")
        if limit is None or info.filename in parts:
            raise BadFile(f"{what} holds {info.filename[:80]!r}", f"only one each of {', '.join(limits)} belongs there")
        parts[info.filename] = _read_part(archive, info, limit, what)
    return parts


def _read_part(archive: zipfile.ZipFile, info: zipfile.ZipInfo, limit: int, what: str) -> bytes:
    if info.compress_type not in _COMPRESSION:  # the memory use of other methods depends on the file
        raise BadFile(f"{info.filename} in {what} has an unknown compression method", "the trace is damaged")
    with archive.open(info) as member:
        data = member.read(limit + 1)
    if len(data) > limit:
        raise BadFile(f"{info.filename} in {what} unpacks to more than {limit} bytes", "it is not one utterance")
    return data


def _read_layers(data: bytes, max_bytes: int) -> TraceLayers:
    try:
        with zipfile.ZipFile(io.BytesIO(data)) as archive:
            parts = _read_parts(archive, dict.fromkeys(_LAYERS | _OPTIONAL_LAYERS, max_bytes), "layers.npz")
        frames, p_eos = (_read_array(parts[name], name) for name in _LAYERS)
        more = {name.removesuffix(".npy"): _read_array(parts[name], name) for name in _OPTIONAL_LAYERS if name in parts}
        if odd := [name for name, layer in more.items() if len(layer) != len(frames)]:
            raise ValueError(f"{odd[0]} is of {len(more[odd[0]])} frames, not of {len(frames)}")
        if ("attention" in more) != ("attention_word" in more):
            raise ValueError("attention and the words that it is of belong together")
    except _DAMAGED as error:
        raise BadFile(f"layers.npz cannot be read: {error}", "the trace is damaged") from error
    return frames, p_eos.astype(np.float32), more


def _read_array(data: bytes, name: str) -> np.ndarray:
    """The array of an npy file. Raises ValueError where its header is invalid or does not match the data."""
    match = _NPY.match(data)
    if match is None:
        raise ValueError(f"{name} is not an npy file")
    length, header, kind, sizes = match.groups()
    shape = [int(size) for size in sizes.split(b",") if size.strip()]
    if (kind.decode("latin-1"), len(shape)) != (_LAYERS | _OPTIONAL_LAYERS)[name]:
        raise ValueError("it holds other arrays than frames uint8 [T, C] and p_eos float32 [T]")
    dtype = np.dtype(kind.decode("latin-1"))
    expected = math.prod(shape) * dtype.itemsize
    if int.from_bytes(length, "little") != len(header) or expected != len(data) - match.end():
        raise ValueError(f"the data of {name} does not match its header")
    return np.frombuffer(data, dtype, offset=match.end()).reshape(shape)


def _build(meta: bytes, lines: Sequence[bytes], wav: bytes) -> tuple[dict[str, Any], list[ev.Event], np.ndarray]:
    try:
        loaded: Any = json.loads(meta)
        _check_encodable(loaded)
    except (ValueError, RecursionError) as error:
        raise BadFile(f"meta.json is not JSON: {error}", "the trace is damaged") from error
    pcm, rate_hz = read_mono(wav)
    about = cast(dict[str, Any], loaded if isinstance(loaded, dict) else {"rate_hz": None})
    if about.setdefault("rate_hz", rate_hz) != rate_hz:
        raise BadFile("meta.json and audio.wav do not belong together", "the trace is damaged")
    return about, _events(lines, pcm), pcm


def _events(lines: Sequence[bytes], pcm: np.ndarray) -> list[ev.Event]:
    """All lines of events.jsonl, parsed in batches, which is twice as fast as one by one."""
    out: list[ev.Event] = []
    for first in range(0, len(lines), _BATCH_LINES):
        some = lines[first : first + _BATCH_LINES]
        try:
            parsed: Any = json.loads(f"[{b','.join(some).decode('utf-8')}]")
        except (ValueError, RecursionError):
            parsed = ()
        values = parsed if len(parsed) == len(some) else [None] * len(some)
        out += [_event(*one, pcm) for one in zip(some, values, range(first + 1, first + 1 + len(some)), strict=True)]
    return out


def _event(line: bytes, data: Any, number: int, pcm: np.ndarray) -> ev.Event:
    """One line of events.jsonl; audio events get the final samples.

    Args:
        data: the parsed line, None where it was not parsed yet.
    """
    try:
        if data is None:
            data = json.loads(line.decode("utf-8"))  # json.loads of bytes accepts encoded surrogates
        if b"\\u" in line:
            _check_encodable(data, allow_nan=True)  # p_eos may be NaN
        samples = data.pop("samples", 0) if data["type"] == "audio" else 0
        event = ev.from_dict(data)
        for name, fits in _checks(type(event)):
            value = getattr(event, name)
            if name == "p_eos" and isinstance(value, list):  # NaN for a frame that was never fed back
                value = [p for p in cast(list[Any], value) if p == p]
            if not fits(value):
                raise ValueError(f"{name} is {str(value)[:40]!r}")
        if isinstance(event, ev.Audio):
            if not _is_whole(samples) or event.sample < 0 or samples < 0:
                raise ValueError("no such samples")
            object.__setattr__(event, "pcm", pcm[event.sample : event.sample + samples])  # frozen, and not shared yet
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError) as error:
        raise BadFile(f"line {number} of events.jsonl is not an event: {error}", "the trace is damaged") from error
    return event


def _check_encodable(value: Any, allow_nan: bool = False) -> None:
    """Raises ValueError for parsed JSON that is not encodable: NaN, infinities, lone surrogates."""
    json.dumps(value, ensure_ascii=False, allow_nan=allow_nan).encode("utf-8")


@cache
def _checks(kind: type[ev.Event]) -> tuple[tuple[str, Callable[[Any], bool]], ...]:
    """Each field of an event with a check of its declared type; cached, since a long trace has 70,000 events."""
    rules = rules_of(kind, lambda _, hint: _WHOLE if hint in (int, list[int]) else None)
    return tuple((name, rule.fits) for name, rule in rules.items())


def _is_whole(value: Any) -> bool:
    return type(value) is int and _WHOLE[0] <= value <= _WHOLE[1]
