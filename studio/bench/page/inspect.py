"""A long trace on the Inspect page: time to the first picture, and frame rates of zooming and panning.

The app runs as a process, and headless Chromium opens a trace of ten minutes, by address and by drop. All times are
taken inside the page. Chromium draws without a GPU here.
"""

import math
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from studio.bench.material import read_texts
from studio.bench.page.browser import PageFailed, open_page, running_app
from studio.bench.settings import InspectSetting
from studio.core import events as ev
from studio.core.errors import BadFile
from studio.core.ports import SpeakRequest
from studio.core.speaking import speak, typed
from studio.core.time import MonotonicClock
from studio.core.traces.trace import Trace, open_trace, sent_text
from studio.core.traces.trace_writer import TraceWriter
from studio.engine.engine import open_engine
from studio.inspection.playback import chunk_times, playback
from studio.measure.latency import percentiles
from studio.measure.report import print_table
from studio.text.normalise import best

FIRST_TARGET_MS = 2000.0
RATE_TARGET = 30.0  # frames a second
MOVES = ("zoom", "pan near", "pan far")
_TOKEN = "ten-minutes-of-speech-"  # an id of the trace store: 22 characters
_PATIENCE_MS = 300_000
# window.firstMs: when the whole picture was on the screen, the frame after it was drawn.
_FIRST = """(() => {
  const look = () => {
    const scene = document.querySelector('.inspect')?.viewer?.scene;
    if (scene?.isWhole && scene.drawn) requestAnimationFrame(() => { window.firstMs = performance.now(); });
    else requestAnimationFrame(look);
  };
  window.watchFirst = () => { window.firstMs = 0; look(); };
  window.watchFirst();
})()"""
# Numbers of colours in the waveform and spectrogram lanes, and of words.
_PAINTED = """() => {
  const { scene } = document.querySelector('.inspect').viewer;
  const colours = (name) => {
    const { y, height } = scene.boxes[name];
    const [top, tall] = [y * scale, height * scale].map(Math.round);
    const { data } = scene.paint.getImageData(Math.round(scene.canvas.width / 2), top, 64, tall);
    return new Set(new Uint32Array(data.buffer)).size;
  };
  const scale = scene.scale;
  const words = scene.line.words.length;
  return { wave: colours('wave'), picture: colours('picture'), heard: colours('heard'), words };
}"""
# Turn the wheel in every frame, and record the frame times.
_MOVE = """async ([move, seconds]) => {
  const { scene } = document.querySelector('.inspect').viewer;
  const { axis, canvas } = scene;
  const box = canvas.getBoundingClientRect();
  const wheel = (more) => canvas.dispatchEvent(new WheelEvent('wheel', {
    bubbles: true, cancelable: true, clientX: box.left + box.width / 2, clientY: box.top + 10, ...more }));
  const frames = () => new Promise(requestAnimationFrame);
  const span = { 'zoom': Infinity, 'pan near': 10_000, 'pan far': 120_000 }[move];
  axis.fit();
  if (span < Infinity) axis.show(axis.firstMs, axis.firstMs + span);
  scene.ask();
  for (let k = 0; k < 20; k++) await frames();
  const longTasks = [];
  const observer = new PerformanceObserver((list) => longTasks.push(...list.getEntries().map((one) => one.duration)));
  observer.observe({ type: 'longtask' });
  const drew = [];
  const draw = scene.draw;
  scene.draw = function () {
    const began = performance.now();
    draw.call(scene);
    drew.push(performance.now() - began);
  };
  const began = performance.now();
  const times = [await frames()];
  let [way, before] = [-1, axis.spanMs];
  while (performance.now() - began < 1000 * seconds) {
    if (move === 'zoom') {
      wheel({ ctrlKey: true, deltaY: 8 * way });
      if (way < 0 && axis.spanMs < 1500) way = 1;
      else if (way > 0 && axis.spanMs >= before) way = -1;
    } else {
      wheel({ deltaX: -40 * way });
      if (axis.rightMs >= axis.endMs || axis.leftMs <= axis.startMs) way = -way;
    }
    times.push(await frames());
  }
  scene.draw = draw;
  await new Promise((done) => setTimeout(done, 100));
  observer.disconnect();
  return { frame_ms: times.slice(1).map((t, k) => t - times[k]), draw_ms: drew, long_tasks_ms: longTasks };
}"""
_ONCE = (ev.Queued, ev.Ready, ev.Ended)  # only once per utterance


def bench_inspect(setting: InspectSetting) -> dict[str, Any]:
    """Times to the first picture, and frame rates of each kind of movement.

    Raises:
        NeedsPackage: playwright or chromium is missing.
        BadFile: the trace cannot be repeated.
        PageFailed: the app did not start, or the page shows no picture.
    """
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        spoken = open_trace(setting.trace, str(setting.trace)) if setting.trace else _spoken(setting, folder)
        traces = folder / "traces"
        traces.mkdir()
        path = write_repeated(spoken, 60.0 * setting.minutes, traces / _TOKEN)
        with running_app(setting.command, traces) as url:
            out: dict[str, Any] = _about(spoken, path) | {"opened": setting.opened, "width": setting.width}
            opened_ms, dropped_ms = list[float](), list[float]()
            for _ in range(setting.opened):
                with _inspecting(f"{url}inspect?trace={_TOKEN}", setting.width) as page:
                    opened_ms.append(_first(page))
                with _inspecting(f"{url}inspect", setting.width) as page:
                    dropped_ms.append(_dropped(page, path))
            with _inspecting(f"{url}inspect?trace={_TOKEN}", setting.width) as page:
                _first(page)
                moved = {move: page.evaluate(_MOVE, [move, setting.seconds]) for move in MOVES}
    out["first_picture_ms"] = {"by its address": percentiles(opened_ms), "dropped": percentiles(dropped_ms)}
    out["moves"] = {move: _summed(times) for move, times in moved.items()}
    return out


def _spoken(setting: InspectSetting, folder: Path) -> Trace:
    """Speak the first text, typed."""
    text = read_texts(setting.texts, 1)[0]
    named = [setting.voice.partition(":")[0]] if setting.voice else None
    with closing(open_engine(setting.voices, best(), setting.device, voice_names=named)) as engine:
        request = SpeakRequest(voice=setting.voice or engine.cards()[0].name)
        return speak(engine, request, typed(text, setting.wpm), MonotonicClock(), folder / "spoken").unwrap()


def _about(spoken: Trace, path: Path) -> dict[str, Any]:
    long = open_trace(path)
    return {
        "voice": f"{long.meta.get('voice')}:{long.meta.get('speaker')}",
        "spoken_s": len(spoken.pcm) / spoken.rate_hz,
        "audio_s": len(long.pcm) / long.rate_hz,
        "words": len(long.words()),
        "segments": len(long.segments()),
        "file_mb": path.stat().st_size / 1e6,
    }


@contextmanager
def _inspecting(url: str, width: int) -> Iterator[Any]:
    """The Inspect page in a fresh Chromium."""
    where = {"viewport": {"width": width, "height": 1000}, "ready": ".inspect[data-ready]"}
    with open_page(url, _FIRST, **where) as page:
        yield page


def _first(page: Any) -> float:
    """Milliseconds from the navigation to the first whole picture; returns once level and pitch are there.

    The server computes those for seconds, which would delay the next request.

    Raises:
        PageFailed: a lane is empty.
    """
    refused = ".inspect .status[data-level='error']"
    page.wait_for_function(f'() => window.firstMs > 0 || document.querySelector("{refused}")', timeout=_PATIENCE_MS)
    if page.locator(refused).count():
        raise PageFailed(f"the page shows no trace: {page.locator(refused).text_content()}", "open it manually")
    painted = page.evaluate(_PAINTED)
    if not painted["words"] or min(painted["wave"], painted["picture"], painted["heard"]) < 2:
        raise PageFailed(f"a lane of the picture is empty: {painted}", "open the trace manually")
    measured = "() => document.querySelector('.inspect').viewer.scene.prosody"
    page.wait_for_function(measured, timeout=_PATIENCE_MS)
    return page.evaluate("window.firstMs")


def _dropped(page: Any, path: Path) -> float:
    """The same from the choice of a file."""
    chosen = "() => addEventListener('change', () => { window.chosenMs = performance.now(); }, { capture: true })"
    page.evaluate(chosen)
    page.set_input_files(".inspect input[type=file]", path)
    return _first(page) - page.evaluate("window.chosenMs")


def _summed(times: Mapping[str, Sequence[float]]) -> dict[str, Any]:
    frames, tasks = times["frame_ms"], times["long_tasks_ms"]
    if not frames:
        raise BadFile("nothing moved", "measure for a second or more")
    return {
        "frames_per_s": 1000.0 * len(frames) / sum(frames),
        "frame_ms": percentiles(frames) | {"max": max(frames)},
        "draw_ms": percentiles(times["draw_ms"]) | {"max": max(times["draw_ms"], default=0.0)},
        "long_tasks": len(tasks),
        "longest_task_ms": max(tasks, default=0.0),
    }


def show(out: Mapping[str, Any]) -> None:
    about = f"{out['audio_s'] / 60:.1f} minutes of {out['voice']}, {out['words']:,} words, {out['segments']:,} segments"
    repeated = f"{out['spoken_s']:.0f} s of speech, repeated"
    first = [
        [f"first picture, {how}", figures["p50"], figures["p95"], f"{FIRST_TARGET_MS:g} or less"]
        for how, figures in out["first_picture_ms"].items()
    ]
    print_table(f"The Inspect page: {about} ({repeated})", ("", "p50 ms", "p95 ms", "target"), first)
    rows = [
        [
            move,
            figures["frames_per_s"],
            f"{RATE_TARGET:g} or more",
            figures["frame_ms"]["p95"],
            figures["draw_ms"]["p95"],
            figures["long_tasks"],
            figures["longest_task_ms"],
        ]
        for move, figures in out["moves"].items()
    ]
    columns = ("", "frames/s", "target", "frame p95 ms", "script p95 ms", "long tasks", "longest ms")
    print_table(f"Zoom and pan, {out['width']} pixels wide", columns, rows, "A long task is one of more than 50 ms.")


def write_repeated(trace: Trace, least_s: float, folder: Path) -> Path:
    """Write a trace that repeats another one for at least ``least_s`` seconds of sound; returns its path.

    Each repetition is played right after the previous one; its typing and synthesis precede it as in the original.

    Args:
        folder: the trace is ``<folder>.trace``.

    Raises:
        BadFile: the trace has no sound or clock, or was revised, cancelled or failed.
    """
    refused = (ev.Revised, ev.Edited, ev.Cancelled, ev.Failed)
    if any(isinstance(one, refused) for one in trace.events) or not isinstance(trace.events[-1], ev.Ended):
        raise BadFile(
            "this trace was cancelled, failed or revised", "choose one that was spoken to the end without revisions"
        )
    runs, _, heard_by = playback(trace, chunk_times(trace))
    if not runs or heard_by == "recording":
        raise BadFile("this trace has no sound, or no clock", "choose a trace of a voice")
    last = runs[-1]
    period_ms = last.t_ms + 1000.0 * (last.end - last.start) / trace.rate_hz - runs[0].t_ms
    times = math.ceil(least_s * trace.rate_hz / len(trace.pcm))
    meta = {name: value for name, value in trace.meta.items() if name != "text"}
    writer = TraceWriter(folder, meta)
    for number in range(times):
        writer.write(*_moved(trace, number, period_ms))
    compute_ms = sum(one.compute_ms for one in trace.events if isinstance(one, ev.Ended))
    end_ms = trace.events[-1].t_ms + (times - 1) * period_ms
    writer.write(ev.Ended(samples=times * len(trace.pcm), compute_ms=times * compute_ms, t_ms=end_ms))
    return writer.close()


def _moved(trace: Trace, number: int, period_ms: float) -> Iterator[ev.Event]:
    """The events of repetition ``number``, from 0."""
    text = sent_text(trace.events)
    words, segments = trace.words(), trace.segments()
    samples, frames = number * len(trace.pcm), number * len(trace.frames)
    i, index = number * len(words), number * len(segments)
    written = number * (max((word.written for word in words), default=-1) + 1)
    is_apart = text[-1:].isspace()
    char = number * (len(text) + (not is_apart))
    first_frame = 0
    for event in trace.events:
        if isinstance(event, _ONCE) and (number or isinstance(event, ev.Ended)):
            continue
        at = {"t_ms": event.t_ms + number * period_ms}
        match event:
            case ev.TextReceived(char_start=start):
                yield replace(event, **at, char_start=start + char)
            case ev.TypingTimes(char_start=start):
                yield replace(event, **at, char_start=start + char)
            case ev.Committed():
                span = {"char_start": event.char_start + char, "char_end": event.char_end + char}
                yield replace(event, **at, **span, i=event.i + i, written=event.written + written)
            case ev.WordStart() | ev.WordEnd():
                yield replace(event, **at, i=event.i + i, sample=event.sample + samples)
            case ev.Segment():
                of = {"words": [one + i for one in event.words], "seen": [one + i for one in event.seen]}
                span = {"sample": event.sample + samples, "frame": event.frame + frames}
                yield replace(event, **at, **of, **span, index=event.index + index)
            case ev.Eos():
                yield replace(event, **at, segment=event.segment + index, frame=event.frame + frames)
            case ev.Frames():  # levels of a trace from a file are in its layer
                count = len(event.p_eos)
                levels = trace.frames[first_frame : first_frame + count]
                first_frame += count
                yield replace(event, **at, first_frame=event.first_frame + frames, levels=np.array(levels))
            case ev.Audio() | ev.Wait() | ev.Played():
                yield replace(event, **at, sample=event.sample + samples)
            case ev.Flushed():
                yield replace(event, **at, words=event.words + i)
            case ev.Unsupported():
                yield replace(event, **at, char_start=event.char_start + char, char_end=event.char_end + char)
            case _:
                yield replace(event, **at)
    if not is_apart:  # another word follows
        yield ev.TextReceived(char_start=char + len(text), text=" ", t_ms=trace.events[-1].t_ms + number * period_ms)
