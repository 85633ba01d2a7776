"""Write a trace: live, into a folder that stays readable after a crash, then into a zip (format: see ``trace``)."""

import contextlib
import json
import shutil
import threading
import zipfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np

from studio.core import durable
from studio.core import events as ev
from studio.core.clips import WAV_HEADER_BYTES, wav_comment, wav_header
from studio.core.errors import BadFile
from studio.core.locks import is_used, mark_used
from studio.core.speakers import sound_comment
from studio.core.traces.trace import Trace, ready_meta
from studio.core.traces.trace_reader import decode_layers

AUDIO = "audio.wav"
_as_json = json.JSONEncoder(ensure_ascii=False).encode  # faster than dumps, which makes an encoder for each event


def save_trace(trace: Trace, path: Path) -> None:
    """Write a complete trace into ``path``, a ``.trace``. Raises BadFile if a folder of that name is not empty."""
    writer = TraceWriter(path.with_suffix(""), trace.meta)
    try:
        writer.write(*trace.events)
        writer.close(trace.layers)
    except BaseException:
        writer.drop()
        raise


def is_written(folder: Path) -> bool:
    """Whether a running process writes this folder of a trace."""
    return is_used(folder / AUDIO)


def part_of_trace(path: Path) -> Path:
    """The incomplete file next to a ``.trace`` that is being closed; a killed process leaves it behind."""
    return path.with_name(path.name + durable.PART)


class TraceWriter:
    """Writes a trace live into a folder; ``write`` may be called from any thread.

    Args:
        folder: created; must be empty.
        meta: provenance; the fields of the ``ready`` event are added.

    Raises:
        BadFile: the folder is not empty.
    """

    def __init__(self, folder: Path, meta: Mapping[str, Any]) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        if any(folder.iterdir()):
            raise BadFile(f"the folder {folder} is not empty", "a trace needs a folder of its own")
        self.folder = folder
        self.bytes_written = 0  # approximate: includes revised data
        self._meta = dict(meta)
        self._lock = threading.Lock()
        self._closed = False
        self._audio = (folder / AUDIO).open("w+b", buffering=0)
        mark_used(self._audio)
        self._levels = (folder / "frames.u8").open("w+b", buffering=0)
        self._p_eos = (folder / "p_eos.f32").open("w+b", buffering=0)
        self._events = (folder / "events.jsonl").open("w", encoding="utf-8", buffering=1)
        self._pending: dict[BinaryIO, tuple[int, bytearray]] = {}  # (offset, bytes) of the current batch, by file
        self._write_meta()

    def write(self, *events: ev.Event) -> None:
        """Add events; ignored after ``close``, since a ``played`` may come after the end."""
        lines = [_as_json(event.to_dict()) for event in events]
        with self._lock:
            if self._closed:
                return
            for event, line in zip(events, lines, strict=True):
                self._buffer_layers(event)
                self.bytes_written += len(line) + _layer_bytes(event)
            self._write_pending()
            self._events.write("".join(f"{line}\n" for line in lines))
            self._write_wav_header()

    def _buffer_layers(self, event: ev.Event) -> None:
        if isinstance(event, ev.Ready):
            self._meta = ready_meta(event) | self._meta
            self._write_meta()
        elif isinstance(event, ev.Audio):
            self._buffer(
                self._audio, WAV_HEADER_BYTES + 2 * event.sample, event.pcm.astype("<i2", copy=False).tobytes()
            )
        elif isinstance(event, ev.Frames):
            self._set_channels(event.levels.shape[1])
            levels = event.levels.astype(np.uint8, copy=False)
            self._buffer(self._levels, event.first_frame * levels.shape[1], levels.tobytes())
            self._buffer(self._p_eos, 4 * event.first_frame, np.asarray(event.p_eos, "<f4").tobytes())
        elif isinstance(event, ev.Revised):
            self._write_pending()
            self._audio.truncate(WAV_HEADER_BYTES + 2 * event.from_sample)
            frames = event.from_sample // self._meta["frame_samples"]
            self._levels.truncate(frames * self._meta.get("channels", 0))
            self._p_eos.truncate(4 * frames)

    def _buffer(self, file: BinaryIO, at: int, data: bytes) -> None:
        """Buffer bytes for a file; contiguous ones become one write."""
        first, buffer = self._pending.get(file, (at, bytearray()))
        if first + len(buffer) != at:
            _write_at(file, first, buffer)
            first, buffer = at, bytearray()
        buffer += data
        self._pending[file] = first, buffer

    def _write_pending(self) -> None:
        for file, (at, data) in self._pending.items():
            _write_at(file, at, data)
        self._pending.clear()

    def drop(self) -> None:
        """Close and delete the files."""
        with self._lock:
            self._closed = True
            for file in (self._audio, self._levels, self._p_eos, self._events):
                with contextlib.suppress(OSError):  # e.g. unwritten data on a full disk
                    file.close()
        shutil.rmtree(self.folder, ignore_errors=True)

    def close(self, layers: Mapping[str, np.ndarray] | None = None) -> Path:
        """Make ``<folder>.trace`` durable, remove the folder, and return the trace's path.

        Args:
            layers: see ``Trace``.
        """
        target = self.folder.with_name(self.folder.name + ".trace")
        with self._lock:
            if self._closed:
                return target
            self._closed = True
            self._write_wav_header(wav_comment(sound_comment(self._meta)))
            for file in (self._audio, self._levels, self._p_eos, self._events):
                file.close()
        raw = [(self.folder / name).read_bytes() for name in ("frames.u8", "p_eos.f32")]
        frames, p_eos = decode_layers(raw[0], raw[1], self._meta.get("channels", 0))
        arrays: dict[str, Any] = {"frames": frames, "p_eos": p_eos, **(layers or {})}
        np.savez_compressed(self.folder / "layers.npz", **arrays)
        part = part_of_trace(target)
        try:
            with zipfile.ZipFile(part, "w", zipfile.ZIP_DEFLATED, strict_timestamps=False) as archive:
                for name in ("meta.json", "events.jsonl", AUDIO):
                    archive.write(self.folder / name, name)
                archive.write(self.folder / "layers.npz", "layers.npz", zipfile.ZIP_STORED)
            durable.publish(part, target)
        finally:
            part.unlink(missing_ok=True)
        shutil.rmtree(self.folder)
        return target

    def _set_channels(self, channels: int) -> None:
        if self._meta.get("channels") != channels:
            self._meta["channels"] = channels
            self._write_meta()

    def _write_meta(self) -> None:
        text = json.dumps(self._meta, indent=1, ensure_ascii=False)
        (self.folder / "meta.json").write_text(text + "\n", encoding="utf-8")
        self._write_wav_header()

    def _write_wav_header(self, after: bytes = b"") -> None:
        """Update the header after every packet, so that a crash leaves a valid WAV; ``after`` follows the samples.

        Without samples nothing follows: such a file is as long as its header.
        """
        samples = max(0, (self._audio.seek(0, 2) - WAV_HEADER_BYTES) // 2)
        after = after if samples else b""
        self._audio.write(after)
        self._audio.seek(0)
        self._audio.write(wav_header(int(self._meta.get("rate_hz", 24000)), samples, after_bytes=len(after)))


def _layer_bytes(event: ev.Event) -> int:
    """Size of an event's binary data."""
    if isinstance(event, ev.Audio):
        return 2 * len(event.pcm)
    return event.levels.size + 4 * len(event.p_eos) if isinstance(event, ev.Frames) else 0


def _write_at(file: BinaryIO, at: int, data: bytes | bytearray) -> None:
    """Write at an offset and truncate the file there (a revised take begins there)."""
    file.seek(at)
    file.write(data)
    file.truncate()
