"""Speed benches on tiny voices: counting and decisions; no test depends on this machine's speed."""

import inspect
import json
from dataclasses import replace
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from needs import needs
from serve.serving import Served
from tinyvoice import write_tiny_voice
from typer.testing import CliRunner

from studio.bench.settings import LoadSetting, StepSetting
from studio.bench.speed import load, step, step_baselines, typists
from studio.bench.speed.latency import packets_ms
from studio.bench.speed.load import MEANS_S, Arrivals, plot_load, seconds_per_char, texts_of
from studio.bench.speed.random_voice import frames_of
from studio.bench.speed.subject import Subject
from studio.bench.speed.typists import batches
from studio.cli import cli
from studio.commands.bench import bench, evaluate
from studio.core import events as ev
from studio.core.errors import BadOption, StudioError
from studio.core.ports import EngineLoad, ModuleLoad, SpeakRequest
from studio.engine.scheduler import SchedulingPolicy
from studio.measure.report import plain

LINES = ["The rain stopped just before noon.", "My sister sold the old brown horse."]


@pytest.fixture(scope="module")
def subject(tmp_path_factory: pytest.TempPathFactory) -> Subject:
    torch.set_num_threads(1)
    root = tmp_path_factory.mktemp("voices")
    write_tiny_voice(root)
    return Subject(voices=root, device="cpu", quiet=True)


def test_queries_follow_paper_004(subject: Subject, capsys: pytest.CaptureFixture[str]) -> None:
    asked = {"rates": (4,), "kinds": ("short",), "query_seconds": 1.0, "places": 2}
    setting = LoadSetting(**vars(subject), lines=LINES, **asked)
    out = subject.about() | load.bench_queries(setting)
    fixed, poisson = out["runs"]
    assert fixed["queries"] == 4 and (fixed["arrivals"], poisson["arrivals"]) == ("fixed", "poisson")
    for run in out["runs"]:
        there = run["queries"] - run["refused"]
        assert run["first_pcm_ms"]["n"] == there > 0 == run["failed"]
        assert run["first_pcm_ms"]["mean"] <= run["first_372_ms"]["mean"] <= run["last_ms"]["mean"]
        assert run["rtf"] == pytest.approx(run["last_ms"]["mean"] * there / (1000.0 * run["speech_s"] * there))
        decode, vocode = (next(m for m in run["modules"] if m["module"] == name) for name in ("decode", "vocode"))
        rows = sum(int(size) * it["runs"] for size, it in vocode["histogram"].items())
        assert rows == pytest.approx(run["speech_s"] * there * 40.0), "a frame per 25 ms"
        assert decode["runs"] == sum(it["runs"] for it in decode["histogram"].values()) > 0
    json.dumps(plain(out), allow_nan=False)
    load.show(plain(out))
    assert "FCL 372" in capsys.readouterr().out
    with pytest.raises(BadOption, match="short, medium, long, mixed"):
        replace(setting, kinds=("tiny",))


def test_rate_is_held_without_refusals_or_stalls() -> None:
    run = {"kind": "mixed", "arrivals": "fixed", "refused": 0, "failed": 0, "stalled": 0}
    runs = [run | {"per_s": 10}, run | {"per_s": 30}, run | {"per_s": 60, "stalled": 1}]
    assert load.highest_clean_rate(runs, "mixed", "fixed") == 30
    assert load.highest_clean_rate(runs, "mixed", "poisson") is None


@pytest.mark.parametrize("kind", [*MEANS_S])
def test_texts_have_the_papers_lengths(kind: str) -> None:
    s_per_char = 0.06
    texts = texts_of(kind, 400, s_per_char, LINES)
    assert np.mean([len(text) * s_per_char for text in texts]) == pytest.approx(MEANS_S[kind], rel=0.05)
    assert texts == texts_of(kind, 400, s_per_char, LINES)


def test_arrivals_are_even_or_poisson() -> None:
    assert Arrivals("fixed", 4, 1.0).times_s() == [0.0, 0.25, 0.5, 0.75]
    gaps = np.diff(Arrivals("poisson", 50, 200.0).times_s())
    assert gaps.mean() == pytest.approx(0.02, rel=0.05) and gaps.std() == pytest.approx(0.02, rel=0.05)


def test_new_listeners_arrive_one_by_one_and_leave_at_their_first_sound(
    subject: Subject, capsys: pytest.CaptureFixture[str]
) -> None:
    setting = LoadSetting(**vars(subject), lines=LINES, seconds=1.0)
    out = typists.bench_newcomers(setting, fitting=4)
    assert (out["idle"]["typists"], out["full"]["typists"]) == (0, 3)
    for one in (out["idle"], out["full"]):
        assert one["newcomers"] + one["unheard"] >= 4, "one every half second for two and a half seconds"
        assert one["newcomers"] == one["first_pcm_ms"]["n"] > 0 < one["first_pcm_ms"]["p50"]
    json.dumps(plain(out), allow_nan=False)
    typists.show_newcomers(plain(out))
    assert "at 80% of the typists who fit" in capsys.readouterr().out


def test_number_of_typists_is_doubled_then_bisected(
    subject: Subject, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    tried: list[int] = []

    def fake(setting: LoadSetting, count: int) -> dict:
        tried.append(count)
        batch = {"module": "decode", "runs": 3, "mean_rows": 1.0, "ms_per_run": 2.0, "histogram": {"1": {"runs": 3}}}
        common = {"failed": 0, "unheard": 0, "words": 9, "audio_s": 3.0, "longest_ms": 0.0, "modules": [batch]}
        return common | {"typists": count, "stalls": max(0, count - 11), "stalled_typists": 0}

    monkeypatch.setattr(typists, "_try", fake)
    setting = LoadSetting(**vars(subject), lines=LINES)
    out = subject.about() | typists.bench_typists(setting)
    assert tried == [1, 2, 4, 8, 16, 12, 10, 11] and out["typists_without_stall"] == 11
    assert typists.answer(out) == "11 live typists at 60 words a minute fit this machine."
    plots = plot_load(out, folder=tmp_path)
    assert [path.name.partition("-2")[0] for path in plots] == ["load-typists", "load-batches"]
    typists.show_typists(out)
    assert "11 live typists" in capsys.readouterr().out
    tried.clear()
    few = typists.bench_typists(replace(setting, most=6))
    assert few["typists_without_stall"] == 6 and "more were not tested" in typists.answer(few)


def test_attempt_counts_typed_and_heard_words(subject: Subject) -> None:
    setting = LoadSetting(**vars(subject), lines=LINES, wpm=600.0, seconds=0.5)
    found = typists._try(setting, 2)
    assert found["words"] >= 10 and found["audio_s"] > 0 and found["failed"] == found["unheard"] == 0
    modules = subject.loaded(2).family.modules
    assert {"prefill", "decode"} <= modules.keys()
    assert {one["module"] for one in found["modules"]} == {*modules, "vocode"}


def test_listener_tolerates_a_delay_and_counts_the_excess() -> None:
    def wait(t_ms: float, reason: str, ms: float) -> ev.Wait:
        return ev.Wait(t_ms=t_ms, reason=reason, sample=0, duration_ms=ms)  # pyright: ignore

    late = 2000.0
    assert typists.stalls_ms([wait(late, "compute", 20), wait(late, "compute", 8)]) == []
    assert typists.stalls_ms([wait(late, "compute", 20), wait(late, "compute", 15)]) == [5]
    assert typists.stalls_ms([wait(late, "compute", 20), wait(late, "text", 900), wait(late, "compute", 20)]) == []
    assert typists.stalls_ms([wait(100.0, "compute", 500)], 1500.0) == [], "the warm-up does not count"
    assert typists.stalls_ms([ev.Failed(code="x", message="y")]) == [0.0]


def test_step_time_is_compared_with_the_memory_bound(subject: Subject, capsys: pytest.CaptureFixture[str]) -> None:
    short = {"rows": (1, 2), "contexts": (50,), "steps": 3, "warm": 1, "pooled": 2}
    out = step.bench_step(StepSetting(**vars(subject), **short, stock=False))
    one, two = out["runs"]
    voice = subject.loaded(2)
    layers, width = voice.card.config["layers"], voice.card.config["width"]
    keys = 2 * layers * width * 4 * 50
    assert two["decode_bytes"] - one["decode_bytes"] == keys
    net = voice.family.net  # pyright: ignore
    wanted = sum(p.numel() for p in net.decoder.parameters() if p.ndim == 2)
    heads = net.levels_out.weight.numel() + net.levels_out.bias.numel() + width + 1
    assert one["decode_bytes"] - keys == 4 * (wanted + heads)
    assert 0 < one["decode_of_bandwidth"] < 1 and one["decode_floor_ms"] > 0
    assert (one["decode_gain"], one["gain"]) == (1.0, 1.0), "one row relative to itself"
    json.dumps(plain(out), allow_nan=False)
    step.show(out)
    printed = capsys.readouterr().out
    assert "of bandwidth" in printed and "2 batched rows" in printed


def test_pool_is_timed_on_the_same_frames_together_and_alone(subject: Subject, monkeypatch: pytest.MonkeyPatch) -> None:
    sizes: set[tuple[int, int]] = set()
    choose = SchedulingPolicy.choose

    def seen(self: SchedulingPolicy, ready: list[Any], left_ms: Any) -> list[Any]:
        chosen = choose(self, ready, left_ms)
        sizes.add((len(ready), len(chosen)))
        return chosen

    monkeypatch.setattr(SchedulingPolicy, "choose", seen)
    voice = subject.loaded(3)
    free = len(voice.free_slots)
    out = step_baselines.bench_pool(voice, 3, 4, 2)
    assert len(voice.free_slots) == free
    assert {(1, 1), (3, 3)} <= sizes and all(ready == chosen for ready, chosen in sizes), "nobody waits"
    assert 0 < out["gain_low"] <= out["gain"] <= out["gain_high"]
    assert (out["rows"], out["frames"]) == (3, 4) and min(out["together_ms"], out["alone_ms"]) > 0


def test_reference_loop_runs_or_is_refused_with_a_reason(monkeypatch: pytest.MonkeyPatch) -> None:
    sizes = step_baselines.Stock(2, 64, 2, 128, torch.device("cpu"))
    with monkeypatch.context() as patch:
        patch.setattr(step_baselines, "find_spec", lambda name: None)
        assert "pip install" in step_baselines.stock_loop(sizes, (20,), 3)["left_out"]
    needs(find_spec("transformers"), "the package transformers")
    found = step_baselines.stock_loop(sizes, (20,), 3)
    assert [run["context"] for run in found["runs"]] == [20] and found["parameters"] > 0


def test_socket_is_timed_from_the_word_that_completes_the_window(tmp_path: Path) -> None:
    server = Served(tmp_path)
    try:
        found = packets_ms(server.url + "/", "", [(f"{line} {line}", 3) for line in LINES], {"m": 3, "n": 1})
        with pytest.raises(StudioError, match="did not speak"):
            packets_ms(server.url + "/", "nobody", [(LINES[0], 3)], {})
    finally:
        server.stop()
    assert len(found) == len(LINES) and min(found) > 0
    first = server.engine.opened[0]
    assert first._options["m"] == 3 and first._spoken < 6, "it was cancelled"


def test_random_weights_speak_by_the_table() -> None:
    subject = Subject(voices=Path("nowhere"), size="small", vocoder="sourcefilter", device="cpu")
    assert subject.about()["weights"] == "random" and subject.about()["voice"] == "small-random"
    engine = subject.engine(1)
    utterance = engine.open(SpeakRequest(options={"m": 1}))
    utterance.push_text("a kettle sings ")
    utterance.end()
    events = [*utterance.events()]
    assert seconds_per_char(engine, ["kettle"]) > 0
    engine.close()
    segments = [one.frame for one in events if isinstance(one, ev.Segment)]
    assert np.diff([*segments, events[-1].samples // 600]).tolist() == [*map(frames_of, ("a", "kettle", "sings"))]
    with pytest.raises(BadOption, match="vocstream"):
        replace(subject, vocoder="griffin").about()


def test_batches_are_counted_between_two_times() -> None:
    def moment(runs: dict[int, int]) -> EngineLoad:
        ms = {size: 2.0 * count for size, count in runs.items()}
        return EngineLoad(slots=4, speaking=0, modules=(ModuleLoad("v", "decode", runs, ms),))

    (found,) = batches(moment({1: 5, 4: 10}), moment({1: 5, 4: 2}))
    assert found["histogram"] == {"4": {"runs": 8, "ms": 2.0}} and found["mean_rows"] == 4.0


def test_every_measurement_has_its_functions() -> None:
    commands: list[Any] = [one.callback for app in (bench, evaluate) for one in app.registered_commands]
    targets = [target for one in commands if (target := inspect.getclosurevars(one).nonlocals.get("target"))]
    assert len(targets) > 40
    for target in targets:
        module, measure, show = target.split(":")
        functions = vars(import_module(f"studio.bench.{module}"))
        assert callable(functions[measure]) and callable(functions[show]), target


def test_figures_are_printed_unless_json_is_asked_for() -> None:
    arguments = ["bench", "mos-looks", "--runs", "1"]
    assert "Tests of equal systems that stop" in CliRunner().invoke(cli, arguments, catch_exceptions=False).stdout
    assert json.loads(CliRunner().invoke(cli, [*arguments, "--json"], catch_exceptions=False).stdout)["cells"]
