"""Writing a trace: live, as a folder that a crash leaves readable, then closed into one zip (its parts: ``trace``)."""

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
from studio.core.clips import WAV_HEADER_BYTES, wav_header
from studio.core.errors import BadFile
from studio.core.traces.trace import Trace, meta_of
from studio.core.traces.trace_reader import layers_of

_as_json = json.JSONEncoder(ensure_ascii=False).encode  # one encoder: dumps would make one for each event


def save_trace(trace: Trace, path: Path) -> None:
    """Write a trace that is whole into ``path``, a ``.trace``. Raises BadFile where its folder is in the way."""
    writer = TraceWriter(path.with_suffix(""), trace.meta)
    try:
        writer.write(*trace.events)
        writer.close(trace.layers)
    except BaseException:
        writer.drop()
        raise


class TraceWriter:
    """Writes a trace live into a folder; ``write`` may be called from any thread.

    Args:
        folder: made here; must not hold a trace yet.
        meta: provenance; the voice, rate and frame length of the ``ready`` event are added to it.

    Raises:
        BadFile: the folder already holds something.
    """

    def __init__(self, folder: Path, meta: Mapping[str, Any]) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        if any(folder.iterdir()):
            raise BadFile(f"the folder {folder} is not empty", "a trace needs a folder of its own")
        self.folder = folder
        self.bytes_written = 0  # about: what was revised away counts, too
        self._meta = dict(meta)
        self._lock = threading.Lock()
        self._closed = False
        self._audio = (folder / "audio.wav").open("w+b", buffering=0)
        self._levels = (folder / "frames.u8").open("w+b", buffering=0)
        self._p_eos = (folder / "p_eos.f32").open("w+b", buffering=0)
        self._events = (folder / "events.jsonl").open("w", encoding="utf-8", buffering=1)
        self._gathered: dict[BinaryIO, tuple[int, bytearray]] = {}  # bytes of a batch, and where they begin
        self._write_meta()

    def write(self, *events: ev.Event) -> None:
        """Add events; what was closed takes no more, silently, as a late ``played`` may come after the end."""
        lines = [_as_json(event.to_dict()) for event in events]
        with self._lock:
            if self._closed:
                return
            for event, line in zip(events, lines, strict=True):
                self._put_layers(event)
                self.bytes_written += len(line) + _layer_bytes(event)
            self._put_gathered()
            self._events.write("".join(f"{line}\n" for line in lines))
            self._write_wav_header()

    def _put_layers(self, event: ev.Event) -> None:
        if isinstance(event, ev.Ready):
            self._meta = meta_of(event) | self._meta
            self._write_meta()
        elif isinstance(event, ev.Audio):
            self._gather(
                self._audio, WAV_HEADER_BYTES + 2 * event.sample, event.pcm.astype("<i2", copy=False).tobytes()
            )
        elif isinstance(event, ev.Frames):
            self._set_channels(event.levels.shape[1])
            levels = event.levels.astype(np.uint8, copy=False)
            self._gather(self._levels, event.first_frame * levels.shape[1], levels.tobytes())
            self._gather(self._p_eos, 4 * event.first_frame, np.asarray(event.p_eos, "<f4").tobytes())
        elif isinstance(event, ev.Revised):
            self._put_gathered()
            self._audio.truncate(WAV_HEADER_BYTES + 2 * event.from_sample)
            frames = event.from_sample // self._meta["frame_samples"]
            self._levels.truncate(frames * self._meta.get("channels", 0))
            self._p_eos.truncate(4 * frames)

    def _gather(self, file: BinaryIO, at: int, data: bytes) -> None:
        """Keep what goes into a file, in one piece where it follows what is kept already."""
        first, kept = self._gathered.get(file, (at, bytearray()))
        if first + len(kept) != at:
            _put(file, first, kept)
            first, kept = at, bytearray()
        kept += data
        self._gathered[file] = first, kept

    def _put_gathered(self) -> None:
        for file, (at, data) in self._gathered.items():
            _put(file, at, data)
        self._gathered.clear()

    def drop(self) -> None:
        """Close the files and remove them: nothing of this trace is kept."""
        with self._lock:
            self._closed = True
            for file in (self._audio, self._levels, self._p_eos, self._events):
                with contextlib.suppress(OSError):  # what could not be written before cannot be now
                    file.close()
        shutil.rmtree(self.folder, ignore_errors=True)

    def close(self, layers: Mapping[str, np.ndarray] | None = None) -> Path:
        """Make ``<folder>.trace``, remove the folder, and return the path of the trace, which is on disk then.

        Args:
            layers: further ones, see ``Trace``.
        """
        target = self.folder.with_name(self.folder.name + ".trace")
        with self._lock:
            if self._closed:
                return target
            self._closed = True
            for file in (self._audio, self._levels, self._p_eos, self._events):
                file.close()
        raw = [(self.folder / name).read_bytes() for name in ("frames.u8", "p_eos.f32")]
        frames, p_eos = layers_of(raw[0], raw[1], self._meta.get("channels", 0))
        arrays: dict[str, Any] = {"frames": frames, "p_eos": p_eos, **(layers or {})}
        np.savez_compressed(self.folder / "layers.npz", **arrays)
        part = target.with_name(target.name + ".part")
        try:
            with zipfile.ZipFile(part, "w", zipfile.ZIP_DEFLATED, strict_timestamps=False) as archive:
                for name in ("meta.json", "events.jsonl", "audio.wav"):
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

    def _write_wav_header(self) -> None:
        """Keep the header true after every packet, so that a crash leaves a WAV that any player opens."""
        samples = max(0, (self._audio.seek(0, 2) - WAV_HEADER_BYTES) // 2)
        self._audio.seek(0)
        self._audio.write(wav_header(int(self._meta.get("rate_hz", 24000)), samples))


def _layer_bytes(event: ev.Event) -> int:
    """What an event takes beside its line."""
    if isinstance(event, ev.Audio):
        return 2 * len(event.pcm)
    return event.levels.size + 4 * len(event.p_eos) if isinstance(event, ev.Frames) else 0


def _put(file: BinaryIO, at: int, data: bytes | bytearray) -> None:
    """Write at a place and forget what stood after it (a revised take begins there)."""
    file.seek(at)
    file.write(data)
    file.truncate()
