"""Report charts as inline SVG; colours come from the page's style sheet, for light, dark and print."""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from html import escape

WIDTH, ROW, PAD = 560, 26, 16
_LONGEST = 24  # letters of a label
_LETTER, _GAP = 7.2, 12.0  # width of a letter; space between a mark and its text


@dataclass(frozen=True)
class IntervalMark:
    """Value with an interval; ``low`` or ``high`` is None for an open end, both for no interval."""

    label: str
    value: float
    low: float | None
    high: float | None
    value_text: str


@dataclass(frozen=True)
class ScatterPoint:
    """Point with an interval and an optional label."""

    x: float
    y: float
    low: float | None
    high: float | None
    label: str = ""


@dataclass(frozen=True)
class _Layout:
    """One of two layouts of a chart, selected by page width; on a narrow page labels are above their marks."""

    name: str
    width: int
    row: int
    middle: float  # of a mark, from the top of its row
    words: float  # base line of the text, from the top of its row
    letters: int  # maximum of a label if two share a line

    def span(self, labels: Iterable[str], room: float) -> tuple[float, float]:
        """Horizontal range of the marks, leaving ``room`` for the values to their right."""
        return (_label_width(labels), self.width - room) if self is _BROAD else (_EDGE, self.width - _EDGE)

    def grid(self, rows: int) -> list[tuple[float, float]]:
        """Vertical ranges of a grid line, which must not cross text."""
        if self is _BROAD:
            return [(PAD, PAD + self.row * rows)]
        return [(PAD + self.row * k + self.words + 5, PAD + self.row * (k + 1)) for k in range(rows)]

    def label(self, text: str, left: float, top: float, letters: int = _LONGEST) -> str:
        x, anchor = (left - 12, "end") if self is _BROAD else (0.0, "start")
        return _text(x, top + self.words, _short(text, letters), "label", anchor, hint=text)

    def text_after(self, text: str, at: float, top: float, kind: str = "value", hint: str = "") -> str:
        """Text to the right of a mark, from ``at``; on a narrow page at the end of the line above it."""
        x, anchor = (at, "start") if self is _BROAD else (float(self.width), "end")
        return _text(x, top + self.words, text, kind, anchor, hint=hint)

    def svg(self, height: float, parts: Sequence[str], title: str) -> str:
        return _svg(height, parts, title, self.width, self.name)


_EDGE = 18.0  # half the width of a tick's label
_BROAD = _Layout("broad", WIDTH, ROW, ROW / 2, ROW / 2 + 4, _LONGEST)
_NARROW = _Layout("narrow", 320, 42, 28.0, 13.0, 20)


def interval_chart(
    marks: Sequence[IntervalMark],
    low: float | None = None,
    high: float | None = None,
    title: str = "",
    limits: Sequence[float] = (),
) -> str:
    """Points with whiskers, one per row, on the scale from ``low`` to ``high``, or on one that fits the data.

    ``limits`` are drawn as dashed lines.
    """
    ends = [v for m in marks for v in (m.value, m.low, m.high) if v is not None] + [*limits]
    low, high = min(ends) if low is None else low, max(ends) if high is None else high
    ticks = _ticks(low, high)
    low, high = min(low, ticks[0]), max(high, ticks[-1])

    def draw(form: _Layout) -> str:
        left, right = form.span((m.label for m in marks), _GAP + _LETTER * max(len(m.value_text) for m in marks))

        def x(value: float) -> float:
            return left + (min(max(value, low), high) - low) / (high - low) * (right - left)

        bottom = PAD + form.row * len(marks)
        parts = _lines("grid", ((x(t), x(t), *ends) for t in ticks for ends in form.grid(len(marks))))
        parts += _lines("half", ((x(t), x(t), *ends) for t in limits for ends in form.grid(len(marks))))
        parts += [_text(x(t), bottom + 16, f"{t:g}", "tick", "middle") for t in ticks]
        for k, mark in enumerate(marks):
            top = PAD + form.row * k
            y = top + form.middle
            parts.append(form.label(mark.label, left, top))
            if mark.low is not None or mark.high is not None:
                closed = [x(v) for v in (mark.low, mark.high) if v is not None]
                first = left if mark.low is None else closed[0]
                last = right if mark.high is None else closed[-1]
                parts += _lines("whisker", [(first, last, y, y), *((end, end, y - 5, y + 5) for end in closed)])
            parts.append(_point(x(mark.value), y))
            parts.append(form.text_after(mark.value_text, right + _GAP, top))
        return form.svg(bottom + 26, parts, title)

    return draw(_BROAD) + draw(_NARROW)


_LEAST_MS = 100.0


def padded_range_ms(values: Sequence[float]) -> tuple[float, float]:
    """Axis range in milliseconds: all values with a margin, at least 100 ms wide."""
    low, high = min(values), max(values)
    more = max(0.06 * (high - low), (_LEAST_MS - (high - low)) / 2)
    return max(0.0, low - more), high + more


def scatter_chart(spots: Sequence[ScatterPoint], x_title: str, title: str = "", even: float | None = None) -> str:
    """Points with vertical whiskers; ``even`` draws a dashed line at that height."""
    heights = [v for s in spots for v in (s.y, s.low, s.high) if v is not None] + ([] if even is None else [even])
    across, up = _ticks(*padded_range_ms([s.x for s in spots])), _ticks(min(heights), max(heights))
    tall = 220

    def draw(form: _Layout) -> str:
        left, right = 46.0, form.width - _EDGE

        def x(value: float) -> float:
            return left + (value - across[0]) / (across[-1] - across[0]) * (right - left)

        def y(value: float) -> float:
            return PAD + (up[-1] - value) / (up[-1] - up[0]) * tall

        parts = _lines("grid", ((left, right, y(t), y(t)) for t in up))
        parts += [_text(left - 8, y(t) + 4, f"{t:g}", "tick", "end") for t in up]
        parts += [_text(x(t), PAD + tall + 18, f"{t:g}", "tick", "middle") for t in across]
        parts.append(_text((left + right) / 2, PAD + tall + 38, x_title, "tick", "middle"))
        if even is not None:
            parts += _lines("half", [(left, right, y(even), y(even))])
        for spot in spots:
            at = x(spot.x)
            if spot.low is not None and spot.high is not None:
                low, high = y(spot.low), y(spot.high)
                parts += _lines("whisker", [(at, at, low, high), *((at - 5, at + 5, e, e) for e in (low, high))])
            parts.append(_point(at, y(spot.y)))
            if spot.label:
                far = at > (left + right) / 2
                label_at = (at - 10, "end") if far else (at + 10, "start")
                parts.append(
                    _text(label_at[0], y(spot.y) - 6, _short(spot.label, 20), "label", label_at[1], hint=spot.label)
                )
        return form.svg(PAD + tall + 46, parts, title)

    return draw(_BROAD) + draw(_NARROW)


def bar_chart(rows: Sequence[tuple[str, float, str]], title: str = "") -> str:
    """One bar per row from 0 to the maximum; rows are (label, value, text after the bar)."""
    most = max((v for _, v, _ in rows), default=0) or 1

    def draw(form: _Layout) -> str:
        left, right = form.span((label for label, *_ in rows), 96)
        parts: list[str] = []
        for k, (label, value, value_text) in enumerate(rows):
            top, width = PAD + form.row * k, (right - left) * value / most
            y = top + form.middle - 8
            parts.append(form.label(label, left, top))
            parts.append(f'<rect class="bar" x="{left:.1f}" y="{y}" width="{width:.1f}" height="16" rx="2"/>')
            parts.append(form.text_after(value_text, left + width + 8, top))
        return form.svg(PAD * 2 + form.row * len(rows), parts, title)

    return draw(_BROAD) + draw(_NARROW)


def share_chart(rows: Sequence[tuple[str, str, Sequence[int], IntervalMark]], title: str = "") -> str:
    """Stacked bars of a's wins, ties, 'both bad' and b's wins, with a line at one half.

    The mark of a row is a's share, 0 to 1, with its interval, drawn below the bar with its text.
    """
    names = [name for a, b, *_ in rows for name in (a, b)]

    def draw(form: _Layout) -> str:
        left, right = form.span(names, _label_width(names))
        parts: list[str] = []
        row = form.row + _BELOW
        for k, (a, b, counts, mark) in enumerate(rows):
            top, at = PAD + row * k, left
            y = top + form.middle
            parts.append(form.label(a, left, top, form.letters))
            for name, count in zip(("won", "tie", "bad", "lost"), counts, strict=True):
                width = (right - left) * count / (sum(counts) or 1)
                parts.append(f'<rect class="{name}" x="{at:.1f}" y="{y - 9}" width="{width:.1f}" height="18"/>')
                if width > 34:
                    percentage = f"{100 * count / sum(counts):.0f}%"
                    parts.append(_text(at + width / 2, y + 4, percentage, f"in-{name}", "middle"))
                at += width
            parts.append(form.text_after(_short(b, form.letters), right + 10, top, "label", hint=b))
            half = (left + right) / 2
            parts += _lines("half", [(half, half, y - 13, y + 24)])
            parts += _share(mark, left, right, y + 17)
        return form.svg(2 * PAD + row * len(rows), parts, title)

    return draw(_BROAD) + draw(_NARROW)


_BELOW = 38  # height below a bar, for its share and text


def _share(mark: IntervalMark, left: float, right: float, y: float) -> list[str]:
    def x(value: float) -> float:
        return left + (right - left) * min(1.0, max(0.0, value))

    parts = [_point(x(mark.value), y, 3.5)]
    if mark.low is not None and mark.high is not None:
        low, high = x(mark.low), x(mark.high)
        parts += _lines("whisker", [(low, high, y, y), *((e, e, y - 4, y + 4) for e in (low, high))])
    return [*parts, _text((left + right) / 2, y + 19, mark.value_text, "tick", "middle")]


def histogram(counts: Sequence[int], low: int, title: str, tallest: int = 0) -> str:
    """Counts of each score; scales of more than 20 steps are grouped in tens.

    The axis ends at ``tallest`` or the largest count, whichever is larger.
    """
    bins = binned(counts, low)
    most, step, height = max((tallest, *(n for _, n in bins))) or 1, 240 / len(bins), 76
    parts: list[str] = [_text(0, 12, _short(title), "label", hint=title)]
    for k, (name, count) in enumerate(bins):
        tall = height * count / most
        parts.append(
            f'<rect class="bar" x="{k * step + 1:.1f}" y="{22 + height - tall:.1f}" width="{step - 2:.1f}" '
            f'height="{tall:.1f}"><title>{escape(name)}: {count}</title></rect>'
        )
        if len(bins) <= 10 or (len(bins) <= 11 and not k % 2):  # labels of tens would overlap at 90 and 100
            parts.append(_text((k + 0.5) * step, height + 37, name.split("-")[0], "tick", "middle"))
    parts += _lines("axis", [(0.0, 240.0, 22.0 + height, 22.0 + height)])
    return _svg(height + 42, parts, f"scores of {title}", width=240)


def binned(counts: Sequence[int], low: int) -> list[tuple[str, int]]:
    """(name, count) by score, or by tens if the scale has more than 20 steps."""
    if len(counts) <= 20:
        return [(str(low + k), n) for k, n in enumerate(counts)]
    return [
        (f"{low + k}-{low + min(k + 10, len(counts)) - 1}", sum(counts[k : k + 10])) for k in range(0, len(counts), 10)
    ]


def matrix_table(names: Sequence[str], tint: Sequence[Sequence[float | None]], cells: Sequence[Sequence[str]]) -> str:
    """Square table with cells tinted by a share of 0 to 1; row against column."""
    head = "".join(f'<th scope="col"><span>{escape(n)}</span></th>' for n in names)
    rows: list[str] = []
    for i, name in enumerate(names):
        tds = "".join(
            '<td class="self"></td>'
            if i == j
            else f'<td style="--p:{0 if (p := tint[i][j]) is None else p:.2f}">{escape(cells[i][j])}</td>'
            for j in range(len(names))
        )
        rows.append(f'<tr><th scope="row">{escape(name)}</th>{tds}</tr>')
    return f'<table class="matrix"><thead><tr><td></td>{head}</tr></thead><tbody>{"".join(rows)}</tbody></table>'


def _lines(kind: str, ends: Iterable[tuple[float, float, float, float]]) -> list[str]:
    """Lines from (x1, x2, y1, y2)."""
    return [
        f'<line class="{kind}" x1="{x1:.1f}" x2="{x2:.1f}" y1="{y1:.1f}" y2="{y2:.1f}"/>' for x1, x2, y1, y2 in ends
    ]


def _point(x: float, y: float, radius: float = 4.5) -> str:
    return f'<circle class="point" cx="{x:.1f}" cy="{y:.1f}" r="{radius}"/>'


def _ticks(low: float, high: float) -> list[float]:
    span = (high - low) or 1.0
    raw = span / 5
    size = 10 ** math.floor(math.log10(raw))
    step = next(size * f for f in (1, 2, 5, 10) if size * f >= raw * 0.999)
    first, last = math.floor(low / step), math.ceil(high / step)
    return [k * step for k in range(first, max(last, first + 1) + 1)]


def _svg(height: float, parts: Sequence[str], title: str, width: int = WIDTH, kind: str = "") -> str:
    named = f'role="img" aria-label="{escape(title)}"' if title else 'aria-hidden="true"'
    class_attribute = f'class="{kind}" ' if kind else ""
    return f'<svg {class_attribute}viewBox="0 0 {width} {height:.0f}" {named}>{"".join(parts)}</svg>'


def _label_width(labels: Iterable[str]) -> float:
    return 20 + 7.2 * max((len(_short(text)) for text in labels), default=0)


def _text(x: float, y: float, text: str, kind: str, anchor: str = "start", hint: str = "") -> str:
    more = f"<title>{escape(hint)}</title>" if hint not in ("", text) else ""
    return f'<text class="{kind}" x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}">{more}{escape(text)}</text>'


def _short(text: str, letters: int = _LONGEST) -> str:
    return text if len(text) <= letters else f"{text[: letters - 1]}\N{HORIZONTAL ELLIPSIS}"
