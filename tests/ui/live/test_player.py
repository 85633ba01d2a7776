"""The ring of the player by itself, rendered offline: when it begins to move, and when again after a wait."""

from typing import Any

import pytest
from ui.live_page import FADE_SAMPLES, RATE_HZ, LivePage

FIRST_S, AGAIN_S, FRAME_S, BLOCK_S = 0.03, 0.06, 0.025, 128 / RATE_HZ
LATER_S = 0.2  # a frame has come, has gone, and the text is awaited

_RENDER = """async ({ url, rate, hold, again, frame, later, frames }) => {
  const context = new OfflineAudioContext(1, Math.round(rate * 0.5), rate);
  await context.audioWorklet.addModule(url);
  const options = { numberOfInputs: 0, outputChannelCount: [1], processorOptions: { ringSamples: 65536, tap: false } };
  const node = new AudioWorkletNode(context, "studio-player", options);
  node.connect(context.destination);
  const { port1, port2 } = new MessageChannel();
  node.port.postMessage({ port: port2 }, [port2]);
  const told = () => new Promise((done) => setTimeout(done, 100));
  const put = (first) => {
    const buffer = new Int16Array(frame).fill(16384).buffer;
    port1.postMessage({ type: "pcm", play: 1, first, buffer, offset: 0, mark: -1 });
  };
  await told();
  port1.postMessage({ type: "begin", play: 1, gaps: [], prebuffer: hold, rebuffer: again });
  put(0);
  context.suspend(later).then(async () => {
    for (let k = 0; k < frames; k++) put(frame * (k + 1));
    await told();
    context.resume();
  });
  await told();
  const heard = (await context.startRendering()).getChannelData(0);
  const starts = [];
  for (let k = 1; k < heard.length; k++) if (heard[k] !== 0 && heard[k - 1] === 0) starts.push(k / rate);
  if (heard[0] !== 0) starts.unshift(0);
  return starts;
}"""


def _starts_s(live: LivePage, frames: int) -> list[float]:
    url = live.page.evaluate("document.querySelector('.live').tap.page.player.base") + "/sound/player.worklet.js"
    given: dict[str, Any] = {"url": url, "rate": RATE_HZ, "frame": int(FRAME_S * RATE_HZ), "frames": frames}
    given |= {"hold": int(FIRST_S * RATE_HZ), "again": int(AGAIN_S * RATE_HZ), "later": LATER_S}
    return live.page.evaluate(_RENDER, given)


_CUT = """async ({ url, rate, frame, cutAt, from, frames }) => {
  const context = new OfflineAudioContext(1, Math.round(rate * 0.6), rate);
  await context.audioWorklet.addModule(url);
  const options = { numberOfInputs: 0, outputChannelCount: [1], processorOptions: { ringSamples: 65536, tap: false } };
  const node = new AudioWorkletNode(context, "studio-player", options);
  node.connect(context.destination);
  const { port1, port2 } = new MessageChannel();
  const said = [];
  node.port.onmessage = ({ data }) => said.push(data);
  node.port.postMessage({ port: port2 }, [port2]);
  const told = () => new Promise((done) => setTimeout(done, 100));
  const put = (first, value) => {
    const buffer = new Int16Array(frame).fill(value).buffer;
    port1.postMessage({ type: "pcm", play: 1, first, buffer, offset: 0, mark: -1 });
  };
  await told();
  port1.postMessage({ type: "begin", play: 1, gaps: [], prebuffer: 0, rebuffer: 0 });
  for (let k = 0; k < 10; k++) put(frame * k, 8192);
  context.suspend(cutAt).then(async () => {
    port1.postMessage({ type: "cut", play: 1, sample: from });
    for (let k = 0; k < frames; k++) put(from + frame * k, 16384);
    port1.postMessage({ type: "final", play: 1 });
    await told();
    context.resume();
  });
  await told();
  const heard = (await context.startRendering()).getChannelData(0);
  await told();
  return {
    faults: said.filter((m) => m.type === "fault").length,
    underruns: Math.max(...said.map((m) => m.underruns ?? 0)),
    last: said.filter((m) => m.type === "done").map((m) => m.sample),
    before: heard.findIndex((value) => value === 0.5) === -1 ? -1 : heard.filter((value) => value === 0.25).length,
    after: heard.filter((value) => value === 0.5).length,
  };
}"""


@pytest.mark.parametrize("cut_frame", [1, 4, 7])
def test_what_comes_after_a_cut_is_heard_whole_also_where_the_cut_was_heard_already(
    live: LivePage, cut_frame: int
) -> None:
    """At 0.1 s four frames were heard: cuts before that, there, and after it."""
    url = live.page.evaluate("document.querySelector('.live').tap.page.player.base") + "/sound/player.worklet.js"
    frame, frames = int(FRAME_S * RATE_HZ), 5
    given = {"url": url, "rate": RATE_HZ, "frame": frame, "cutAt": 0.1, "from": cut_frame * frame, "frames": frames}
    found = live.page.evaluate(_CUT, given)
    assert (found["faults"], found["underruns"]) == (0, 0)
    assert found["last"] == [(cut_frame + frames) * frame]
    assert found["after"] >= frames * frame - FADE_SAMPLES - 128, "but for a fade, all of it"
    assert found["before"] == pytest.approx(max(4, cut_frame) * frame, abs=256)


@pytest.mark.parametrize(("frames", "held_s"), [(1, AGAIN_S), (2, AGAIN_S), (3, 0.0)])
def test_after_a_wait_more_is_held_back_than_at_first_but_never_longer(
    live: LivePage, frames: int, held_s: float
) -> None:
    """Three frames are more than is held back, so they sound at once; fewer wait for company only so long."""
    first_s, again_s = _starts_s(live, frames)
    assert first_s == pytest.approx(FIRST_S, abs=2 * BLOCK_S)
    assert again_s - LATER_S == pytest.approx(held_s, abs=2 * BLOCK_S)
