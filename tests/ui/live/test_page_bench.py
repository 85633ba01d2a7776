"""The page benchmark on the real page with tones: figures exist, their values are not asserted."""

import json
import os
import shutil
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from forking import Forks
from inspection.spoken import story
from ui.browser import BROWSERS

from studio.bench.page import key_to_ear
from studio.core.traces.trace_writer import TraceWriter

ROOT = Path(__file__).resolve().parents[3]
Figures = Callable[[str], dict[str, Any]]
APP = [sys.executable, str(ROOT / "tests" / "fakes.py")]


@pytest.fixture(scope="module")
def figures(tmp_path_factory: pytest.TempPathFactory) -> Figures:
    """Runs code in its own process, since two browser drivers cannot share one, and parses its JSON output."""
    folder = tmp_path_factory.mktemp("path")
    (folder / "chromium").symlink_to(next(path for name in BROWSERS if (path := shutil.which(name))))
    forks = Forks("import studio.bench.page.inspect, studio.bench.page.key_to_ear, studio.bench.page.live\n")
    environ = os.environ | {"PATH": f"{folder}{os.pathsep}{os.environ['PATH']}"}

    def run(code: str) -> dict[str, Any]:
        whole = f"import json\nfrom pathlib import Path\n{code}"
        status, out, said = forks.start(whole, folder=ROOT, environ=environ).finish()
        assert status == 0, said
        return json.loads(out)

    return run


def test_bench_decomposes_the_latency(chromium: Any, figures: Figures) -> None:
    out = figures(
        "from studio.bench.page.key_to_ear import PageSetting, bench_page\n"
        f"setting = PageSetting(command={APP!r}, n=1, wpm=240.0, clicks=1, long_words=4, quiet=True)\n"
        "print(json.dumps(bench_page(setting)))"
    )
    assert (out["n"], out["m"]) == (1, 3)
    parts = ("t2_t0_ms", "lead_in_ms", "page_ms")
    assert abs(out["t6_key_ms"]["p50"] - sum(out[part]["p50"] for part in parts)) < 1e-6
    assert all(out[part]["p50"] >= 0.0 for part in parts)
    assert 1_000.0 < out["one_click_ms"]["p50"] < 60_000.0, "three words at 150 per minute come first"
    assert out["typing_task_ms"] >= 0.0 and out["paste_task_ms"] >= 0.0, "0 where none was longer than 50 ms"
    assert 0.0 < out["tabs_ms"] < 60_000.0
    assert out["stalls"]["audio_s"] > 0.5
    assert 500.0 < out["race_click_ms"]["p50"] < 60_000.0, "the race types at the same rate"


def test_take_timed_from_a_later_key_is_repeated(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its sound would precede its synthesis. A remainder below 0 after a flush is legitimate."""
    takes = [({"page_ms": 9.0}, 2, "key"), ({"page_ms": -3.0}, 3, "key"), ({"page_ms": 8.0}, 3, "key")]
    monkeypatch.setattr(key_to_ear, "_typed_once", lambda *_: takes.pop(0))
    assert key_to_ear._first_audio(None, "", ["one", "two", "three"], 60.0, 3) == {"page_ms": 8.0}
    takes[:] = [({"page_ms": -500.0}, 1, "pause")]
    assert key_to_ear._first_audio(None, "", ["one"], 60.0, 1) == {"page_ms": -500.0}
    takes[:] = [({"page_ms": -3.0}, 3, "key")] * 9
    with pytest.raises(key_to_ear.PageFailed, match="too late"):
        key_to_ear._first_audio(None, "", ["one", "two", "three"], 60.0, 3)


def test_first_visit_clicks_are_measured_separately(chromium: Any, figures: Figures) -> None:
    out = figures(
        "from studio.bench.page.key_to_ear import PageSetting, bench_page\n"
        f"setting = PageSetting(command={APP!r}, clicks=1, clicks_only=True, quiet=True)\n"
        "print(json.dumps(bench_page(setting)))"
    )
    assert {"one_click_ms", "race_click_ms"} <= out.keys() and out["n"] == 0
    assert not {"t6_key_ms", "stalls", "stalls_blocked"} & out.keys()


def test_output_is_captured_completely(chromium: Any, figures: Figures, tmp_path: Path) -> None:
    texts = tmp_path / "texts.txt"
    texts.write_text("one two three four\nfive six\n")
    out = figures(
        "from studio.bench.page.live import HeardSetting, eval_heard\n"
        f"setting = HeardSetting(texts=Path({str(texts)!r}), command={APP!r}, wpm=400.0, keep=Path({str(tmp_path)!r}),"
        " recogniser='pocketsphinx', quiet=True)\n"
        "print(json.dumps(eval_heard(setting)))"
    )
    # The fake engine's tones: 60 ms per letter, in frames of 25 ms.
    assert [row["text"] for row in out["rows"]] == ["one two three four", "five six"]
    assert out["rows"][0]["audio_s"] > out["rows"][1]["audio_s"] > 0.3
    assert (tmp_path / "heard-01.wav").stat().st_size == 44 + 2 * round(out["rows"][0]["audio_s"] * 24_000)
    assert out["wer"] >= 0.0 and all(row["stalls"] >= 0 for row in out["rows"])


def test_highlight_reports_the_lag_of_every_word(chromium: Any, figures: Figures) -> None:
    out = figures(
        "from studio.bench.page.live import HighlightSetting, bench_highlight\n"
        f"setting = HighlightSetting(text='one two three four', command={APP!r}, wpm=300.0, quiet=True)\n"
        "print(json.dumps(bench_highlight(setting)))"
    )
    assert [out["shifts"][shift]["words"] for shift in ("0", "300")] == [4, 4]
    assert out["shifts"]["300"]["min_ms"] > 200.0 > out["shifts"]["0"]["min_ms"]


def test_trace_is_opened_zoomed_and_moved(chromium: Any, figures: Figures, tmp_path: Path) -> None:
    writer = TraceWriter(tmp_path / "spoken", {})
    writer.write(*story())
    out = figures(
        "from studio.bench.page.inspect import InspectSetting, bench_inspect\n"
        f"setting = InspectSetting(voices=Path(), trace=Path({str(writer.close())!r}), minutes=0.1, opened=1,"
        f" seconds=0.5, command={APP!r}, quiet=True)\n"
        "print(json.dumps(bench_inspect(setting)))"
    )
    assert (out["audio_s"], out["words"], out["segments"]) == (6.0, 72, 48)
    assert {how: found["n"] for how, found in out["first_picture_ms"].items()} == {"by its address": 1, "dropped": 1}
    assert all(0.0 < found["p50"] < 60_000.0 for found in out["first_picture_ms"].values())
    assert set(out["moves"]) == {"zoom", "pan near", "pan far"}
    for found in out["moves"].values():
        assert 0.0 < found["frames_per_s"] <= 70.0
        assert 0.0 < found["draw_ms"]["p95"] <= found["draw_ms"]["max"]


def test_start_and_memory_are_measured(figures: Figures) -> None:
    out = figures(
        "from studio.bench.page.live import StartSetting, bench_start\n"
        f"setting = StartSetting(text=Path('assets/texts/latency.txt'), command={APP!r}, starts=2, quiet=True)\n"
        "print(json.dumps(bench_start(setting)))"
    )
    assert 0.5 < out["answers_s"]["p50"] <= 60.0
    assert 50.0 < out["memory"]["idle_mib"] <= out["memory"]["peak_mib"]
    assert out["memory"]["audio_s"] > 1.0


def test_race_becomes_an_animation_of_six_seconds(chromium: Any, figures: Figures, tmp_path: Path) -> None:
    path = tmp_path / "race.webp"
    out = figures(
        "from PIL import Image\n"
        "from studio.bench.page.pictures import screenshot\n"
        f"screenshot(Path({str(path)!r}), {APP!r}, race=True)\n"
        f"image = Image.open({str(path)!r})\n"
        "times = []\n"
        "for k in range(image.n_frames):\n"
        "    image.seek(k)\n"
        "    image.load()\n"
        "    times.append(image.info['duration'])\n"
        "print(json.dumps({'size': image.size, 'ms': sum(times), 'frames': len(times)}))"
    )
    assert out["size"] == [800, 420]
    assert out["frames"] > 20, "words light up one after another"
    assert 7_000 < out["ms"] < 9_000, "six seconds, and two for the outcome"
