"""``/metrics`` is valid Prometheus text with the engine's counters."""

from collections.abc import Sequence
from pathlib import Path

import httpx
import pytest
from fastapi import FastAPI
from prometheus_client.parser import text_string_to_metric_families
from serve.serving import Serving
from starlette.testclient import TestClient
from tinyvoice import write_tiny_voice

from studio.core.ports import EngineLoad, ModuleLoad, SpeakRequest
from studio.engine.engine import open_engine
from studio.serve.app import add_metrics
from studio.text.normalise import best


def scraped(text: str) -> dict[tuple[str, frozenset[tuple[str, str]]], float]:
    """Every sample by its name and labels."""
    families = text_string_to_metric_families(text)
    return {(one.name, frozenset(one.labels.items())): one.value for family in families for one in family.samples}


def test_server_reports_what_its_engine_does(serving: Serving) -> None:
    server = serving()
    with server.talk() as talk:
        talk.open(options={"m": 1}, credit_ms=60_000)
        talk.say("text", text="alpha beta ")
        talk.say("end")
        talk.until("trace")
    answer = httpx.get(f"{server.url}/metrics")
    assert answer.status_code == 200 and answer.headers["content-type"].startswith("text/plain")
    found = scraped(answer.text)
    assert found["studio_engine_places", frozenset()] == 4
    assert found["studio_engine_utterances_opened_total", frozenset()] == 1
    assert found["studio_engine_audio_seconds_total", frozenset()] > 0
    assert any(name == "process_resident_memory_bytes" for name, _ in found)


def test_health_fails_while_a_step_hangs(serving: Serving, monkeypatch: pytest.MonkeyPatch) -> None:
    server = serving()
    assert httpx.get(f"{server.url}/health").json()["status"] == "ok"
    monkeypatch.setattr(type(server.engine), "stuck", lambda _: "vocode of fake", raising=False)
    answer = httpx.get(f"{server.url}/health")
    assert answer.status_code == 503 and answer.json()["status"] == "stuck"


def test_batch_sizes_are_a_histogram_by_module() -> None:
    class Told:
        def load(self) -> EngineLoad:
            decode = ModuleLoad("v", "decode", {1: 3, 3: 2, 700: 1}, {1: 30.0, 3: 30.0, 700: 40.0}, slow=1)
            return EngineLoad(slots=8, speaking=2, waiting=1, stalls=5, stalled_ms=1500.0, modules=(decode,))

    app = FastAPI()
    add_metrics(app, Told())
    found = scraped(TestClient(app).get("/metrics").text)
    of = {("voice", "v"), ("module", "decode")}

    def bucket(bound: str) -> float:
        return found["studio_module_rows_bucket", frozenset({*of, ("le", bound)})]

    assert [bucket(bound) for bound in ("1.0", "2.0", "4.0", "512.0", "+Inf")] == [3, 3, 5, 5, 6]
    assert found["studio_module_rows_sum", frozenset(of)] == 3 + 6 + 700
    assert found["studio_module_seconds_total", frozenset(of)] == pytest.approx(0.1)
    assert found["studio_engine_stalled_seconds_total", frozenset()] == pytest.approx(1.5)
    assert found["studio_engine_waiting", frozenset()] == 1
    assert found["studio_module_slow_runs_total", frozenset(of)] == 1


def test_real_engine_counts_batches_utterances_and_audio(tmp_path: Path) -> None:
    write_tiny_voice(tmp_path)
    engine = open_engine(tmp_path, best(), device="cpu", threads=1, slots=2)

    def module(name: str, load: EngineLoad) -> ModuleLoad:
        return next(one for one in load.modules if one.name == name)

    def spoken(count: int) -> Sequence[int]:
        utterances = [engine.open(SpeakRequest(seed=k)) for k in range(count)]
        assert engine.load().speaking == count
        for one in utterances:
            one.push_text("good morning to you")
            one.end()
        return [[*one.events()][-1].samples for one in utterances]

    samples = [*spoken(1), *spoken(2)]
    engine.close()
    load = engine.load()
    assert (load.opened, load.failed, load.refused, load.waiting) == (3, 0, 0, 0)
    assert load.audio_s == pytest.approx(sum(samples) / 24_000)
    assert module("vocode", load).rows == sum(samples) // 600
    assert max(module("decode", load).runs) == 2 and module("decode", load).mean_ms > 0
