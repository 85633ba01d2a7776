"""The Compare page in a tab, and the traces that it shows."""

from pathlib import Path

import numpy as np
from inspection.spoken import FRAME, RATE_HZ
from serve.serving import eventually
from ui.viewer_tab import ViewerTab

from studio.core import events as ev
from studio.core.traces.trace_writer import TraceWriter

Spans = list[tuple[str, int, int]]  # word, first frame, frame after the last
# Some messages are visible for milliseconds only, so all are recorded.
LISTEN = """(status) => {
  window.everTold = [status.textContent];
  const listening = new MutationObserver(() => window.everTold.push(status.textContent));
  listening.observe(status, { childList: true, characterData: true, subtree: true });
}"""


def put(
    folder: Path, token: str, spans: Spans, hz: float = 220.0, source: ev.WordSource = "eos", **options: int
) -> Path:
    """Store a trace with the given word boundaries in frames of 25 ms."""
    frames = spans[-1][2]
    pcm = (6000 * np.sin(2 * np.pi * hz * np.arange(frames * FRAME) / RATE_HZ)).astype(np.int16)
    text = " ".join(word for word, _, _ in spans)
    ready = ev.Ready(
        utterance=1,
        voice="v",
        speaker="a",
        family="speakstream",
        rate_hz=RATE_HZ,
        frame_samples=FRAME,
        seed=3,
        options=options,
    )
    out: list[ev.Event] = [ready, ev.TextReceived(char_start=0, text=text, t_ms=1.0)]
    at = 0
    for i, (word, first, last) in enumerate(spans):
        start = text.index(word, at)
        at = start + len(word)
        out.append(ev.Committed(i=i, word=word, written=i, char_start=start, char_end=at, t_ms=2.0))
        out.append(ev.WordStart(i=i, sample=first * FRAME, source=source, t_ms=20.0))
        out.append(ev.WordEnd(i=i, sample=last * FRAME, source=source, t_ms=20.0))
    out.append(ev.Segment(index=0, words=list(range(len(spans))), seen=[0], sample=0, frame=0, t_ms=9.0))
    out.append(ev.Audio(sample=0, pcm=pcm, t_ms=10.0))
    writer = TraceWriter(folder / token, {})
    writer.write(*out, ev.Ended(samples=len(pcm), compute_ms=1.0, t_ms=30.0))
    return writer.close()


class Compare(ViewerTab):
    """One tab with the page."""

    viewer = "document.querySelector('.compare')?.viewer"

    def open(self, *tokens: str, more: str = "") -> "Compare":
        query = "&".join([*(f"trace={token}" for token in tokens), *filter(None, [more])])
        self.page.goto(f"{self.url}compare?{query}")
        return self.arrive()

    def arrive(self) -> "Compare":
        """Wait for a page that is loading."""
        self.page.wait_for_selector(".compare[data-ready][data-voices]", state="attached")
        self.page.locator(".status").evaluate(LISTEN)
        return self

    def opened(self, count: int) -> "Compare":
        self.until(f"viewer && viewer.scene.takes.length === {count} && viewer.measured && viewer.scene.drawn > 0")
        if count > 1:
            self.until("viewer.scene.difference")
        return self

    def message(self, part: str) -> str:
        """A message shown by the page, perhaps no longer visible, with these words in it."""
        script = "(part) => window.everTold.find((said) => said.includes(part))"
        eventually(lambda: self.page.evaluate(script, part), part)
        return self.page.evaluate(script, part)
