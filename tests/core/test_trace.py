"""Traces: written live, closed into a zip, read back; crashed, revised and hostile ones too."""

import io
import json
import threading
import zipfile

import numpy as np
import pytest
from tones import tone_card

from studio.core import events as ev
from studio.core.clips import wav_bytes
from studio.core.errors import BadFile
from studio.core.sound_files import read_mono
from studio.core.traces.provenance import provenance
from studio.core.traces.trace import Trace, collect_trace, open_trace
from studio.core.traces.trace_writer import TraceWriter

RATE_HZ, FRAME = 24000, 600


def story() -> list[ev.Event]:
    """Two words in two segments of four frames each, with a wait for text of 200 ms between them."""
    rng = np.random.default_rng(1)
    pcm = rng.integers(-3000, 3000, 8 * FRAME).astype(np.int16)
    levels = rng.integers(0, 16, (8, 80)).astype(np.uint8)
    out: list[ev.Event] = [
        ev.Ready(
            utterance=7, voice="v", speaker="a", family="speakstream", rate_hz=RATE_HZ, frame_samples=FRAME, seed=3
        ),
        ev.TextReceived(char_start=0, text="Héllo there ", t_ms=1.0),
        ev.Committed(i=0, word="hello", written=0, char_start=0, char_end=5, t_ms=1.5),
        ev.Committed(i=1, word="there", written=1, char_start=6, char_end=11, t_ms=1.5),
        ev.Committed(i=2, word="now", written=2, char_start=12, char_end=15, t_ms=1.5),
    ]
    for segment in (0, 1):
        first = 4 * segment
        out.append(ev.Segment(index=segment, words=[segment], seen=[0, 1], sample=first * FRAME, frame=first, t_ms=5))
        out.append(ev.WordStart(i=segment, sample=first * FRAME, source="eos", t_ms=5))
        for k in range(first, first + 4):
            t_ms = 10.0 + k + 300.0 * segment
            out.append(ev.Frames(first_frame=k, p_eos=[0.1 * k], levels=levels[k : k + 1], t_ms=t_ms))
            out.append(ev.Audio(sample=k * FRAME, pcm=pcm[k * FRAME : (k + 1) * FRAME], t_ms=t_ms))
        out.append(ev.Eos(segment=segment, frame=first + 4, p=0.9, forced=bool(segment), t_ms=20))
        out.append(ev.WordEnd(i=segment, sample=(first + 4) * FRAME, source="eos", t_ms=20))
        if segment == 0:
            out.append(ev.Wait(reason="text", sample=4 * FRAME, duration_ms=300.0, t_ms=314))
    return [*out, ev.Ended(samples=8 * FRAME, t_ms=330)]


def write(folder, events, meta=None) -> TraceWriter:
    writer = TraceWriter(folder, meta or {"git_sha": "abc"})
    for event in events:
        writer.write(event)
    return writer


def same(one: Trace, other: Trace) -> None:
    assert [e.to_dict() for e in one.events] == [e.to_dict() for e in other.events]
    for left, right in ((one.pcm, other.pcm), (one.frames, other.frames), (one.p_eos, other.p_eos)):
        assert left.dtype == right.dtype
        assert np.array_equal(left, right)


def test_zip_round_trip(tmp_path):
    events = story()
    path = write(tmp_path / "u7", events).close()
    assert path == tmp_path / "u7.trace"
    assert not (tmp_path / "u7").exists()
    trace = open_trace(str(path))
    same(trace, collect_trace({}, events))
    assert trace.rate_hz == RATE_HZ
    assert trace.meta["git_sha"] == "abc"
    assert trace.meta["speaker"] == "a"
    assert trace.frames.shape == (8, 80)
    assert np.allclose(trace.p_eos, 0.1 * np.arange(8))
    audio = [e for e in trace.events if isinstance(e, ev.Audio)]
    assert np.array_equal(np.concatenate([e.pcm for e in audio]), trace.pcm)


def test_words_segments_and_waits(tmp_path):
    trace = open_trace(write(tmp_path / "u", story()).close())
    first, second, third = trace.words()
    assert (first.text, first.char_start, first.char_end, first.start, first.end) == ("hello", 0, 5, 0, 2400)
    assert (second.start, second.end, second.source) == (2400, 4800, "eos")
    assert (third.start, third.end, third.source) == (None, None, "")
    one, two = trace.segments()
    assert (one.words, one.seen, one.start, one.end, one.forced) == ((0,), (0, 1), 0, 2400, False)
    assert (two.frame, two.start, two.end, two.forced) == (4, 2400, 4800, True)
    assert [wait.reason for wait in trace.waits()] == ["text"]


def test_as_heard_inserts_waits_as_silence():
    trace = collect_trace({}, story())
    heard = trace.pcm_with_waits()
    silence = round(0.3 * RATE_HZ)
    assert trace.audible_waits() == [(4 * FRAME, silence)]
    assert len(heard) == len(trace.pcm) + silence
    assert np.array_equal(heard[: 4 * FRAME], trace.pcm[: 4 * FRAME])
    assert not heard[4 * FRAME : 4 * FRAME + silence].any()
    assert np.array_equal(heard[4 * FRAME + silence :], trace.pcm[4 * FRAME :])


@pytest.mark.parametrize("reason, silence_ms", [("credit", 0), ("network", 300), ("compute", 300)])
def test_credit_is_not_audible(reason, silence_ms):
    events = [
        ev.Wait(reason=reason, sample=e.sample, duration_ms=e.duration_ms) if isinstance(e, ev.Wait) else e
        for e in story()
    ]
    trace = collect_trace({}, events)
    assert len(trace.pcm_with_waits()) - len(trace.pcm) == round(silence_ms * RATE_HZ / 1000)


def test_crash_leaves_a_readable_folder(tmp_path):
    events = story()
    folder = tmp_path / "u"
    write(folder, events[:14])
    with (folder / "events.jsonl").open("a") as file:
        file.write('{"type": "audio", "t_ms": 3')
    with (folder / "frames.u8").open("ab") as file:
        file.write(b"\x01\x02\x03")
    trace = open_trace(folder)
    expected = collect_trace({}, events[:14])
    assert [e.to_dict() for e in trace.events] == [e.to_dict() for e in expected.events]
    assert np.array_equal(trace.pcm, expected.pcm)
    assert np.array_equal(read_mono(folder / "audio.wav")[0], expected.pcm)
    assert np.array_equal(trace.frames, expected.frames)
    assert len(trace.pcm) > 0


def test_last_frame_of_a_cut_off_utterance_has_no_p_eos(tmp_path):
    last = ev.Frames(first_frame=1, p_eos=[float("nan")], levels=np.zeros((1, 80), np.uint8), t_ms=2)
    first = ev.Frames(first_frame=0, p_eos=[0.25], levels=np.zeros((1, 80), np.uint8), t_ms=1)
    for path in (write(tmp_path / "u", [first, last]), write(tmp_path / "v", [first, last]).close()):
        trace = open_trace(getattr(path, "folder", path))
        assert [one.to_dict()["p_eos"] for one in trace.events] == [[0.25], [None]]
        assert np.array_equal(trace.p_eos, [0.25, np.nan], equal_nan=True)


def test_revised_speech_replaces_the_revised_samples(tmp_path):
    events = story()[:-1]
    new = np.full(FRAME, 99, np.int16)
    events += [
        ev.Revised(from_sample=4 * FRAME, take=1, words=1, t_ms=400),
        ev.Segment(index=1, words=[1], seen=[1], sample=4 * FRAME, frame=4, t_ms=401),
        ev.Committed(i=1, word="world", written=1, char_start=6, char_end=11, t_ms=401),
        ev.WordStart(i=1, sample=4 * FRAME, source="eos", t_ms=401),
        ev.Frames(first_frame=4, p_eos=[0.7], levels=np.full((1, 80), 5, np.uint8), t_ms=402),
        ev.Audio(sample=4 * FRAME, pcm=new, t_ms=402),
        ev.WordEnd(i=1, sample=5 * FRAME, source="eos", t_ms=402),
        ev.Ended(samples=5 * FRAME, t_ms=403),
    ]
    trace = open_trace(write(tmp_path / "u", events).close())
    made = collect_trace({}, events)
    assert np.array_equal(trace.pcm, made.pcm)
    assert np.array_equal(trace.frames, made.frames)
    assert len(trace.pcm) == 5 * FRAME
    assert np.array_equal(trace.pcm[4 * FRAME :], new)
    assert trace.frames.shape == (5, 80)
    assert [(w.text, w.start, w.end) for w in trace.words()] == [("hello", 0, 2400), ("world", 2400, 3000)]
    assert [s.end for s in trace.segments()] == [2400, 3000]
    broken_off = collect_trace({}, events[: len(story())])
    assert len(broken_off.frames) == len(broken_off.p_eos) == 4 and len(broken_off.pcm) == 4 * FRAME


def test_many_threads_may_write(tmp_path):
    writer = TraceWriter(tmp_path / "u", {"rate_hz": RATE_HZ})
    threads = [
        threading.Thread(target=lambda: [writer.write(ev.Played(sample=k)) for k in range(200)]) for _ in range(4)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(open_trace(writer.close()).events) == 800


def test_events_after_close_are_dropped_and_close_may_be_repeated(tmp_path):
    writer = write(tmp_path / "u", story())
    path = writer.close()
    writer.write(ev.Played(sample=3))
    assert writer.close() == path
    assert len(open_trace(path).events) == len(story())


def test_folder_in_use_is_refused(tmp_path):
    write(tmp_path / "u", story())
    with pytest.raises(BadFile, match="not empty"):
        TraceWriter(tmp_path / "u", {})


def test_trace_with_its_options_can_be_synthesised_again():
    about = provenance(tone_card(), device="cpu", threads=2, temperature=0.4)
    assert about["versions"]["numpy"] == np.__version__ and about["dtype"] == "float32"
    assert json.loads(json.dumps(about)) == about
    request = collect_trace(about, story()).request
    ready = story()[0]
    assert (request.voice, request.seed, request.temperature) == (f"{ready.voice}:{ready.speaker}", ready.seed, 0.4)
    assert request.options == ready.options
    with pytest.raises(BadFile, match="how it was spoken"):
        _ = collect_trace({}, story()).request


GOOD = {
    "meta.json": b'{"rate_hz": 24000}',
    "events.jsonl": b'{"type": "ended", "t_ms": 1, "samples": 3}\n',
    "audio.wav": wav_bytes(np.zeros(3, np.int16), RATE_HZ),
}


def archive(tmp_path, parts) -> object:
    path = tmp_path / "hostile.trace"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as out:
        for name, data in parts:
            out.writestr(name, data)
    return path


def npz(**arrays) -> bytes:
    file = io.BytesIO()
    np.savez(file, **arrays)
    return file.getvalue()


def npz_of(header: bytes, version: bytes = b"\x01\x00") -> bytes:
    """layers.npz whose two arrays have this header and no data."""
    size = len(header).to_bytes(2 if version == b"\x01\x00" else 4, "little")
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w") as out:
        for name in ("frames.npy", "p_eos.npy"):
            out.writestr(name, b"\x93NUMPY" + version + size + header)
    return file.getvalue()


def npy_that_promises(shape: str) -> bytes:
    return npz_of((f"{{'descr': '|u1', 'fortran_order': False, 'shape': {shape}, }}".ljust(117) + "\n").encode())


def test_valid_parts_are_accepted(tmp_path):
    assert len(open_trace(archive(tmp_path, GOOD.items())).pcm) == 3


@pytest.mark.parametrize(
    "change, message",
    [
        ({"../evil": b"x"}, "evil"),
        ({"meta.json": b"{"}, "not JSON"),
        ({"meta.json": b"[" * 100_000}, "not JSON"),
        ({"meta.json": b"[1]"}, "belong together"),
        ({"meta.json": b'{"rate_hz": 1}'}, "belong together"),
        ({"meta.json": bytes((1 << 20) + 1)}, "unpacks to more than"),
        ({"events.jsonl": b'{"type": "system"}'}, "line 1"),
        ({"events.jsonl": b'{"type": "audio", "sample": 0, "samples": -5}'}, "no such samples"),
        ({"events.jsonl": b'{"type": "word_start", "i": "x", "sample": 0, "source": "eos"}'}, "i is 'x'"),
        ({"events.jsonl": b'{"type": "wait", "reason": "sleep", "sample": 0, "duration_ms": 1}'}, "reason"),
        ({"events.jsonl": b'{"type": "wait", "reason": "text", "sample": 0, "duration_ms": Infinity}'}, "duration_ms"),
        ({"events.jsonl": b"7"}, "line 1"),
        ({"events.jsonl": b'{"type": "text", "char_start": 0, "text": "\\ud800"}'}, "line 1"),
        ({"events.jsonl": b'{"type": "text", "char_start": 0, "text": "\xed\xa0\x80"}'}, "line 1"),
        ({"audio.wav": b"RIFF"}, "is no sound file that is read"),
        ({"layers.npz": b"PK"}, "layers"),
        ({"layers.npz": npz(frames=np.array([{}], object), p_eos=np.zeros(1, np.float32))}, "layers"),
        ({"layers.npz": npz(frames=np.zeros((1, 80)), p_eos=np.zeros(1, np.float32))}, "other arrays"),
        ({"layers.npz": npy_that_promises("(99999999999, 80)")}, "does not match its header"),
        ({"layers.npz": npz(frames=np.zeros((1, 2), np.uint8))}, "layers"),
        ({"layers.npz": npz(evil=np.zeros(1))}, "evil"),
    ],
)
def test_hostile_parts_are_refused(tmp_path, change, message):
    with pytest.raises(BadFile, match=message):
        open_trace(archive(tmp_path, (GOOD | change).items()))


@pytest.mark.parametrize("version", [b"\x01\x00", b"\x02\x00", b"\x03\x00", b"\xff\xff"])
@pytest.mark.parametrize(
    "header",
    [
        b"",
        b"{'descr': ((",
        b"{'descr': '''",
        b"(" * 9000,
        b"-" * 9000 + b"1",
        b"  {'a':\n 1}\n   x",
        b"{'descr': [], 'fortran_order': False, 'shape': (0, 0), }",
        b"{'descr': '|V0', 'fortran_order': False, 'shape': (5, 5), }",
        b"{'descr': '|u1', 'fortran_order': False, 'shape': (-1, 0), }",
        b"{'descr': '|u1', 'fortran_order': False, 'shape': (True, 0), }",
        b"{'descr': '|u1', 'fortran_order': False, 'shape': (99999999999999999999, 0), }",
        b"{'descr': '|u1', 'fortran_order': False, 'shape': (0, 0, 0), }",
        b"{'descr': '\xff', 'fortran_order': False, 'shape': (0, 0), }",
        b"{b'descr': 1, 'x': 2, 3: 4}",
        b"{1: 1, 'a': 2, 'b': 3}",
    ],
)
def test_damaged_layer_header_is_refused(tmp_path, header, version):
    layers = {"layers.npz": npz_of(header + b"\n", version)}
    with pytest.raises(BadFile, match=r"layers\.npz cannot be read"):
        open_trace(archive(tmp_path, (GOOD | layers).items()))


def test_addresses_beyond_the_archive_are_refused(tmp_path):
    """The central directory locates each file's own header: near the end, or beyond any file."""
    path = archive(tmp_path, GOOD.items())
    whole = path.read_bytes()
    first = whole.index(b"PK\x01\x02")
    for offset in (len(whole) - 5, len(whole) + 5, 0xFFFFFFFE):
        data = bytearray(whole)
        data[first + 42 : first + 46] = offset.to_bytes(4, "little")
        path.write_bytes(data)
        with pytest.raises(BadFile, match="not a readable trace"):
            open_trace(path)


@pytest.mark.parametrize("packed", [zipfile.ZIP_LZMA, zipfile.ZIP_BZIP2])
def test_other_compression_methods_are_refused(tmp_path, packed):
    """Unpacking LZMA takes as much memory as the file requests."""
    path = tmp_path / "packed.trace"
    with zipfile.ZipFile(path, "w", packed) as out:
        for name, data in GOOD.items():
            out.writestr(name, data)
    with pytest.raises(BadFile, match="unknown compression method"):
        open_trace(path)


def test_huge_declared_sample_count_costs_no_memory(tmp_path):
    lines = b'{"type": "audio", "t_ms": 0, "sample": 1, "samples": 9000000000000}\n'
    (event,) = open_trace(archive(tmp_path, (GOOD | {"events.jsonl": lines}).items())).events
    assert isinstance(event, ev.Audio)
    assert len(event.pcm) == 2


def test_endless_silence_is_refused(tmp_path):
    lines = b'{"type": "audio", "sample": 0, "samples": 3}\n'
    lines += b'{"type": "wait", "reason": "network", "sample": 1, "duration_ms": 1e14}\n'
    trace = open_trace(archive(tmp_path, (GOOD | {"events.jsonl": lines}).items()))
    with pytest.raises(BadFile, match="longer than an hour"):
        trace.pcm_with_waits()


def test_duplicate_missing_and_other_files_are_refused(tmp_path):
    with pytest.warns(UserWarning), pytest.raises(BadFile, match=r"meta\.json"):
        open_trace(archive(tmp_path, [*GOOD.items(), ("meta.json", b"{}")]))
    with pytest.raises(BadFile, match=r"lacks audio\.wav"):
        open_trace(archive(tmp_path, list(GOOD.items())[:2]))
    with pytest.raises(BadFile, match="there is no trace"):
        open_trace(tmp_path / "none.trace")
    (tmp_path / "text.trace").write_text("hello")
    with pytest.raises(BadFile, match="not a readable trace"):
        open_trace(tmp_path / "text.trace")
    with pytest.raises(BadFile, match="lacks"):
        open_trace(tmp_path)


def test_damage_anywhere_raises_bad_file_or_is_harmless(tmp_path):
    """Flipped, cut and repeated bytes in the zip and its contents; never another exception than BadFile."""
    writer = write(tmp_path / "t", story())
    whole = writer.close().read_bytes()
    rng = np.random.default_rng(0)
    path, refused = tmp_path / "damaged.trace", 0
    for _ in range(600):
        data = bytearray(whole)
        for _ in range(rng.integers(1, 4)):
            at = int(rng.integers(0, len(data)))
            match rng.integers(0, 3):
                case 0:
                    data[at] ^= 1 << int(rng.integers(0, 8))
                case 1:
                    del data[at : at + int(rng.integers(1, 50))]
                case _:
                    data[at:at] = data[at : at + int(rng.integers(1, 50))]
        path.write_bytes(data)
        try:
            open_trace(path)
        except BadFile:
            refused += 1
    assert refused > 300


@pytest.mark.parametrize("value", ["1" + "0" * 400, "1" + "0" * 5000, "1e999", "NaN", '"\\ud800"', "true", "[[1]]"])
@pytest.mark.parametrize("field", ["t_ms", "sample", "duration_ms"])
def test_non_finite_numbers_are_refused(tmp_path, field, value):
    folder = tmp_path / "t"
    writer = write(folder, story())
    path = writer.close()
    with zipfile.ZipFile(path) as archive:
        parts = {name: archive.read(name) for name in archive.namelist()}
    line = '{"type": "wait", "t_ms": 1.0, "reason": "text", "sample": 1, "duration_ms": 1.0}'
    data = json.loads(line)
    bad = line.replace(f'"{field}": {json.dumps(data[field])}', f'"{field}": {value}')
    assert bad != line
    parts["events.jsonl"] += bad.encode() + b"\n"
    with zipfile.ZipFile(path, "w") as archive:
        for name, content in parts.items():
            archive.writestr(name, content)
    with pytest.raises(BadFile, match="is not an event"):
        open_trace(path)
