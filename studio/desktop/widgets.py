"""Widgets of the terminal program: the input field, a completed line, the spectrogram, the level."""

import time
from collections import deque
from collections.abc import Callable, Mapping
from typing import ClassVar

import numpy as np
from rich.color import Color
from rich.segment import Segment
from rich.style import Style
from rich.text import Text
from textual import events
from textual.binding import Binding
from textual.color import Gradient
from textual.strip import Strip
from textual.widget import Widget
from textual.widgets import Static, TextArea
from textual.widgets.text_area import Edit, EditResult

from studio.desktop.line import Line
from studio.measure.signal import log_mel

_WORDS = ("word--heard", "word--sounding", "word--unheard")  # component classes
_KEY_S = 0.1  # if the last key is longer ago, a paste or the mouse caused an edit
_ACTIONS = {key: one.action for one in TextArea.BINDINGS if isinstance(one, Binding) for key in one.key.split(",")}
_LOW_DB, _HIGH_DB = -65.0, -8.0
_LEVELS = 12
_BARS = " ▏▎▍▌▋▊▉█"
_METER_CELLS = 12
SILENT_DB = -48.0  # an empty bar


def level_db(pcm: np.ndarray) -> float:
    """RMS level of samples int16 [T], dB of full scale."""
    return float(10.0 * np.log10(max(1e-12, np.mean(np.square(pcm / 32768.0)))))


def meter(db: float) -> str:
    """A level as a bar of eighths of a cell."""
    whole, rest = divmod(round(8 * _METER_CELLS * min(1.0, max(0.0, 1.0 - db / SILENT_DB))), 8)
    return (_BARS[8] * whole + _BARS[rest] * (rest > 0)).ljust(_METER_CELLS, "╌")


def light(widget: Widget, text: Text, heard: tuple[int, int], at: int = 0) -> Text:
    """Style the words of a line's part from position ``at``: those already heard, and the current one."""
    start, end = (max(0, one - at) for one in heard)
    text.stylize(widget.get_component_rich_style(_WORDS[0], partial=True), 0, start)
    text.stylize(widget.get_component_rich_style(_WORDS[1], partial=True), start, end)
    return text


def _common(one: str, other: str) -> int:
    """Length of the common prefix of two texts."""
    return next((k for k, (a, b) in enumerate(zip(one, other, strict=False)) if a != b), min(len(one), len(other)))


class Field(TextArea):
    """The input field, with the line being typed.

    Args:
        keys: functions of keys that do not edit the line; called at once, before later keys are read.
        on_edit: called at once with ``(at, remove, insert, key_s)``: [at, at + remove) became ``insert``, by a key
            pressed at ``key_s`` of ``time.perf_counter``.
    """

    COMPONENT_CLASSES: ClassVar[set[str]] = set(_WORDS)

    def __init__(
        self,
        on_edit: Callable[[int, int, str, float], None],
        keys: Mapping[str, Callable[[], None]],
        limit: int,
        placeholder: str,
    ) -> None:
        super().__init__(placeholder=placeholder, highlight_cursor_line=False, compact=True)
        self._on_edit, self._keys, self._limit = on_edit, keys, limit
        self._before = ""
        self._heard = (0, 0)
        self._key_s = 0.0

    def light(self, heard: tuple[int, int]) -> None:
        """Highlight the current word."""
        if heard != self._heard:
            self._heard = heard
            self.notify_style_update()  # drops the cached lines
            self.refresh()

    def reset(self) -> None:
        """Empty the field for the next line."""
        self._before, self._heard = "", (0, 0)
        self.load_text("")

    def get_line(self, line_index: int) -> Text:
        at = sum(len(one) + 1 for one in self.document.lines[:line_index])
        return light(self, super().get_line(line_index), self._heard, at)

    def edit(self, edit: Edit) -> EditResult:
        if len(self.text) + len(edit.text) > self._limit:
            self.app.notify(f"A line has at most {self._limit:,} characters: press Enter.", severity="warning")
            edit = Edit("", edit.from_location, edit.from_location, maintain_selection_offset=True)
        result = super().edit(edit)
        self._pass_on()
        return result

    def undo(self) -> None:
        super().undo()
        self._pass_on()

    def redo(self) -> None:
        super().redo()
        self._pass_on()

    async def _on_key(self, event: events.Key) -> None:
        self._key_s = time.perf_counter() - (time.monotonic() - event.time)
        if event.key not in self._keys and event.key not in _ACTIONS:
            await super()._on_key(event)
            return
        event.stop()
        event.prevent_default()
        if event.key in self._keys:
            self._keys[event.key]()
        else:  # at once: bindings would run after letters typed later
            await self.run_action(_ACTIONS[event.key])

    def _pass_on(self) -> None:
        before, now = self._before, self.text
        at = _common(before, now)
        same = _common(before[at:][::-1], now[at:][::-1])
        self._before = now
        if before != now:
            now_s = time.perf_counter()
            key_s = self._key_s if now_s - self._key_s < _KEY_S else now_s
            self._on_edit(at, len(before) - at - same, now[at : len(now) - same], key_s)


class Spoken(Static):
    """A completed line."""

    COMPONENT_CLASSES: ClassVar[set[str]] = set(_WORDS)

    def __init__(self, line: Line) -> None:
        super().__init__()
        self._line: Line | None = line  # None when it is over, since it holds all its sound
        self._shown: tuple[int, int, int | None] | None = None

    def show(self) -> None:
        """Highlight the words heard so far."""
        line = self._line
        if line is None:
            return
        start, end = line.heard
        shown = (end if line.is_over else start, end, line.stopped)
        self._line = None if line.is_over else line
        if shown != self._shown:
            self._shown = shown
            text = light(self, Text(line.text), shown[:2])
            if line.stopped is not None:
                text.stylize(self.get_component_rich_style(_WORDS[2], partial=True), end)
            self.update(text)


class Spectrogram(Widget):
    """Spectrogram of the last seconds played: two bands per row of cells, drawn column by column."""

    def __init__(self) -> None:
        super().__init__()
        self._columns: deque[list[int]] = deque(maxlen=400)
        self._colours: list[Color] = []
        self._styles: dict[tuple[int, int], Style] = {}

    def add(self, pcm: np.ndarray, rate_hz: int) -> None:
        """Add a column: the spectrum of samples int16 [T]."""
        if not self.size.height:
            return
        db = log_mel(pcm, rate_hz, bins=2 * self.size.height).max(axis=1)
        column = np.rint(np.clip((db - _LOW_DB) / (_HIGH_DB - _LOW_DB), 0.0, 1.0) * (_LEVELS - 1)).astype(int).tolist()
        self._columns.append(column)
        self.refresh()

    def recolour(self) -> None:
        """Use the colours of the theme."""
        found = self.app.theme_variables
        gradient = Gradient((0.0, found["background"]), (0.6, found["primary"]), (1.0, found["warning"]))
        self._colours = [gradient.get_color(k / (_LEVELS - 1)).rich_color for k in range(_LEVELS)]
        self._styles.clear()
        self.refresh()

    def render_line(self, y: int) -> Strip:
        low, width = 2 * (self.size.height - y) - 2, self.size.width
        columns = [one for one in self._columns if len(one) == 2 * self.size.height][-width:]
        segments = [Segment(" " * (width - len(columns)), self._style(0, 0))]
        return Strip([*segments, *(Segment("▀", self._style(one[low + 1], one[low])) for one in columns)], width)

    def _style(self, upper: int, lower: int) -> Style:
        if (upper, lower) not in self._styles:
            self._styles[upper, lower] = Style(color=self._colours[upper], bgcolor=self._colours[lower])
        return self._styles[upper, lower]
