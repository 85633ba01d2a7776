"""The terminal program, driven by Textual's Pilot, with a shipped voice and the sink that keeps time."""

import asyncio
import gc
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from textual.pilot import Pilot
from textual.widgets import Select

from studio.core import events as ev
from studio.core.folders import VOICES
from studio.core.ports import Engine, SpeakRequest
from studio.core.sound_files import read_mono
from studio.core.traces.trace import Trace, open_trace, sent_text
from studio.desktop.app import TypeApp
from studio.desktop.devices import NULL, NullOutput, open_output
from studio.desktop.line import Line
from studio.desktop.player import Player
from studio.desktop.session import Session
from studio.desktop.widgets import Field, Spectrogram, Spoken
from studio.systems.combined import open_voices
from studio.text.normalise import best

pytestmark = pytest.mark.slow
PATIENCE_S = 100.0
OTHER = "an output that no machine has"
Play = Callable[[TypeApp, Pilot[None]], Awaitable[None]]


@pytest.fixture(scope="module")
def engine() -> Iterator[Engine]:
    opened = open_voices(VOICES, best(), "cpu", ["wren", "finch"])
    yield opened
    opened.close()


@pytest.fixture
def sounds(monkeypatch: pytest.MonkeyPatch) -> list[np.ndarray]:
    """What the output took, without pauses."""
    taken: list[np.ndarray] = []
    fill = Player.fill

    def spy(player: Player, out: np.ndarray, *rest: Any) -> None:
        before = player._read
        fill(player, out, *rest)
        taken.append(out[: player._read - before, 0].copy())

    monkeypatch.setattr(Player, "fill", spy)
    return taken


@pytest.fixture
def run(engine: Engine, tmp_path: Path) -> Callable[[Play], Session]:
    """Runs a test's steps in the program; returns the closed session."""

    def start(steps: Play) -> Session:
        session = Session(engine, SpeakRequest(voice="wren:clara", seed=3), NULL, tmp_path / "lines")

        async def main() -> None:
            app = TypeApp(session, [NULL, OTHER], tmp_path)
            async with app.run_test(size=(120, 40)) as pilot:
                await steps(app, pilot)

        try:
            asyncio.run(main())
        finally:
            session.close()
        assert not session.errors
        return session

    return start


async def eventually(true: Callable[[], object], what: str) -> None:
    async with asyncio.timeout(PATIENCE_S):
        while not true():
            await asyncio.sleep(0.005)
    assert true(), what


def traces(session: Session) -> list[Trace]:
    return [open_trace(path.with_suffix(".trace")) for path in session.recorded]


def current(session: Session) -> Line:
    assert session.typing is not None
    return session.typing


def test_words_light_up_when_they_are_heard_not_when_they_are_made(
    run: Callable[[Play], Session], sounds: list[np.ndarray], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(NullOutput, "_run", lambda _: None)  # the test takes the blocks itself
    block, timing = np.zeros((240, 1), np.int16), SimpleNamespace(currentTime=0.0, outputBufferDacTime=0.0)
    spans = [(0, 3), (4, 10), (11, 13), (14, 16), (17, 20), (21, 26)]

    async def steps(app: TypeApp, pilot: Pilot[None]) -> None:
        field, player = app.query_one(Field), app.session.player
        field.insert("the kettle is on the stove ")  # as a paste does
        line = current(app.session)
        await eventually(lambda: len(line._starts) == len(spans), "not every word was made")
        assert line.samples and line.heard == field._heard == (0, 0)
        for k, span in enumerate(spans):
            while player._read <= line._starts[k]:
                player.fill(block, len(block), timing, None)
            await eventually(lambda span=span: field._heard == span, f"{span} does not light up")
            drawn = field.get_line(0)
            assert [(one.start, one.end) for one in drawn.spans if one.end > one.start][-1] == span
        await pilot.press("enter")
        assert field.text == ""
        while not app.session.is_idle():
            player.fill(block, len(block), timing, None)
            await asyncio.sleep(0.001)
        await eventually(lambda: app.query_one(Spoken)._shown == (26, 26, None), "not all is shown as heard")
        assert any(map(any, app.query_one(Spectrogram)._columns))
        assert line.latency_ms is not None and line.latency_ms > 0
        await eventually(lambda: f"word to sound {line.latency_ms:.0f} ms" in str(app._figures.render()), "no latency")

    session = run(steps)
    (trace,) = traces(session)
    assert sent_text(trace.events).split() == "the kettle is on the stove".split()
    wav, rate_hz = read_mono(session.recorded[0].with_suffix(".wav"))
    assert rate_hz == trace.rate_hz and np.array_equal(wav, trace.pcm) and np.abs(wav).max() > 1000
    assert np.array_equal(np.concatenate(sounds), wav)
    played = [one.sample for one in trace.events if isinstance(one, ev.Played)]
    assert played == sorted(played) and played[-1] <= len(wav)


def test_backspace_takes_back_words_that_were_not_heard(
    run: Callable[[Play], Session], sounds: list[np.ndarray]
) -> None:
    async def steps(app: TypeApp, pilot: Pilot[None]) -> None:
        app.query_one(Field).insert("good morning everybody and welcome to the river ")  # as a paste does
        line = current(app.session)
        await eventually(lambda: 7 in line._starts, "the last word was not made")
        await pilot.press(*["backspace"] * 6, *"lake", "enter")
        await eventually(app.session.is_idle, "the line is not over")
        await eventually(lambda: "taken back" in str(app._figures.render()), "nothing was taken back")

    session = run(steps)
    (trace,) = traces(session)
    assert [word.text for word in trace.words()][-2:] == ["the", "lake"] and session.retracted
    assert sent_text(trace.events).strip() == "good morning everybody and welcome to the lake"
    assert np.array_equal(np.concatenate(sounds), trace.pcm)


def test_escape_interrupts_and_the_next_line_is_spoken(
    run: Callable[[Play], Session], sounds: list[np.ndarray]
) -> None:
    async def steps(app: TypeApp, pilot: Pilot[None]) -> None:
        app.query_one(Field).insert("this is a line of many words which nobody wants to hear to its end ")
        line = current(app.session)
        await eventually(lambda: line.heard[0] >= 5, "the second word was not heard")
        await pilot.press("escape")
        assert app.session.typing is None and app.query_one(Field).text == ""
        await eventually(lambda: line.is_over, "it goes on")
        assert line.stopped is not None and 0 < line.stopped < line.samples
        await eventually(lambda: app.query_one(Spoken)._shown, "the line is not shown")
        strikes = [span for span in app.query_one(Spoken).render().spans if "strike" in str(span.style)]
        assert strikes and strikes[0].start == line.heard[1]
        await pilot.press(*"go on", "enter")
        await eventually(app.session.is_idle, "the next line is not over")

    session = run(steps)
    cut, after = traces(session)
    wavs = [read_mono(path.with_suffix(".wav"))[0] for path in session.recorded]
    (cancelled,) = [one for one in cut.events if isinstance(one, ev.Cancelled)]
    assert len(wavs[0]) == cancelled.sample > 0 and np.array_equal(wavs[0], cut.pcm[: cancelled.sample])
    heard = np.concatenate(sounds)
    assert np.array_equal(heard[: len(wavs[0])], wavs[0]) and np.array_equal(heard[-len(wavs[1]) :], after.pcm)
    assert len(heard) - len(wavs[0]) - len(wavs[1]) < 0.2 * cut.rate_hz  # was on its way to the loudspeaker


def test_voice_options_and_theme_are_chosen_in_the_panel(run: Callable[[Play], Session]) -> None:
    async def steps(app: TypeApp, pilot: Pilot[None]) -> None:
        await eventually(lambda: app.query("#option-m"), "the options are not there")
        app.query_one("#option-m", Select).value = 5
        await eventually(lambda: app.session.options["m"] == 5, "the option was not set")
        await pilot.press(*"one ")  # a line that is being typed refuses what its voice cannot do
        app.query_one("#option-n", Select).value = 6
        await eventually(lambda: app.query_one("#option-n", Select).value == 1, "n > m was accepted")
        await pilot.press(*"two three four five ", "enter")
        app.query_one("#voice", Select).value = "finch:miles"
        await eventually(lambda: app.query("#option-k"), "the other voice has no options")
        assert not app.query("#option-m")
        await pilot.press("f2")
        assert not app.query_one("#panel").display and app.focused is app.query_one(Field)
        await pilot.press("ctrl+t")
        assert app.theme == "textual-light"
        await pilot.press(*"one two three four ", "enter")
        await eventually(app.session.is_idle, "the lines are not over")

    session = run(steps)
    assert [(one.meta["voice"], one.meta["speaker"]) for one in traces(session)] == [
        ("wren", "clara"),
        ("finch", "miles"),
    ]
    assert [one.meta["options"].get("m") for one in traces(session)] == [5, None]


def test_a_voice_chosen_amid_a_line_speaks_the_next_one(run: Callable[[Play], Session]) -> None:
    async def steps(app: TypeApp, pilot: Pilot[None]) -> None:
        await pilot.press(*"good morning every")
        app._load_voice("finch:nobody")
        await eventually(lambda: any(one.severity == "error" for one in app._notifications), "nothing was refused")
        await app.workers.wait_for_complete()
        await pilot.press(*"body ")
        assert current(app.session).text == app.query_one(Field).text == "good morning everybody "
        app.query_one("#voice", Select).value = "finch:miles"
        await eventually(lambda: app.query("#option-k"), "the other voice has no options")
        assert app.session.typing is None and app.query_one(Field).text == ""
        await eventually(lambda: app.query_one(Spoken)._shown, "the line is not shown")
        assert str(app.query_one(Spoken).render()) == "good morning everybody "
        await pilot.press(*"welcome ", "enter")
        await eventually(app.session.is_idle, "the lines are not over")

    spoken = [(one.meta["voice"], sent_text(one.events).strip()) for one in traces(run(steps))]
    assert spoken == [("wren", "good morning everybody"), ("finch", "welcome")]


def test_an_output_chosen_amid_a_line_interrupts_it(
    run: Callable[[Play], Session], monkeypatch: pytest.MonkeyPatch
) -> None:
    async def steps(app: TypeApp, pilot: Pilot[None]) -> None:
        output = app.query_one("#output", Select)
        app.query_one(Field).insert("this is a line of many words which nobody wants to hear to its end ")
        line = current(app.session)
        output.value = OTHER
        await eventually(lambda: output.value == NULL, "it was not refused")
        assert line is app.session.typing and line.stopped is None and app.query_one(Field).text == line.text
        await eventually(lambda: line.heard[0] >= 5, "the second word was not heard")
        monkeypatch.setattr("studio.desktop.session.open_output", lambda player, _, no: open_output(player, NULL, no))
        output.value = OTHER
        await eventually(lambda: app.session.output_name == OTHER, "the output was not changed")
        assert app.session.typing is None and app.query_one(Field).text == ""
        await eventually(lambda: line.is_over and app.query_one(Spoken)._shown, "it goes on")
        assert line.stopped is not None and 0 < line.stopped < line.samples
        assert str(app.query_one(Spoken).render()) == line.text
        await pilot.press(*"go on ", "enter")
        await eventually(app.session.is_idle, "the next line is not over")

    cut, after = traces(run(steps))
    assert any(isinstance(one, ev.Cancelled) for one in cut.events)
    assert sent_text(after.events).strip() == "go on"


def test_recording_begins_and_ends_by_a_key(run: Callable[[Play], Session]) -> None:
    async def steps(app: TypeApp, pilot: Pilot[None]) -> None:
        await pilot.press("ctrl+r", *"not this one", "enter")
        await eventually(app.session.is_idle, "the line is not over")
        await pilot.press("ctrl+r", *"this one", "enter")
        await eventually(app.session.is_idle, "the line is not over")
        await eventually(lambda: "1 line in" in str(app._title.render()), "it is not shown")

    (trace,) = traces(run(steps))
    assert sent_text(trace.events).strip() == "this one"


def test_a_small_terminal_shows_the_field_and_the_figures(run: Callable[[Play], Session]) -> None:
    async def steps(app: TypeApp, pilot: Pilot[None]) -> None:
        await pilot.press("f2")  # hides the panel
        for size in ((40, 10), (20, 8), (100, 9), (120, 40)):
            await pilot.resize_terminal(*size)
            await pilot.pause()
            for name in ("#title", "Field", "#figures"):
                region = app.query_one(name).region
                assert region.area and app.screen.region.contains_region(region), (size, name)
            assert app.query_one(Spectrogram).display == (size[1] > 20)
        await pilot.resize_terminal(40, 12)
        await pilot.press("f2")
        await pilot.pause()
        assert app.query_one("#panel").region.width == 40  # no room for both
        await pilot.press("f2")
        await pilot.pause()
        assert app.query_one(Field).region.width > 30

    run(steps)


def test_full_garbage_collections_wait_for_silence(run: Callable[[Play], Session]) -> None:
    thresholds, found = gc.get_threshold(), list[bool]()

    async def steps(app: TypeApp, pilot: Pilot[None]) -> None:
        def note(phase: str, info: dict[str, int]) -> None:
            if phase == "start" and info["generation"] == 2:
                found.append(app.session.player.is_playing)

        await pilot.press(*"one two three four five six seven", "enter")
        gc.callbacks.append(note)
        try:
            while not app.session.is_idle() or not found:
                for _ in range(2000):  # garbage: enough for many collections
                    cycle: list[object] = []
                    cycle.append(cycle)
                await pilot.pause(0.001)
        finally:
            gc.callbacks.remove(note)

    run(steps)
    assert found and not any(found)
    assert gc.get_threshold() == thresholds
