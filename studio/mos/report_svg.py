"""The report's charts as inline SVG: colours come from the page's style, so that light, dark and paper all work."""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from html import escape

WIDTH, ROW, PAD = 560, 26, 16
_LONGEST = 24  # letters of a label


@dataclass(frozen=True)
class Mark:
    """A value with its interval; ``low`` and ``high`` are None where there is none."""

    label: str
    value: float
    low: float | None
    high: float | None
    shown: str


def intervals(marks: Sequence[Mark], low: float | None = None, high: float | None = None, title: str = "") -> str:
    """Points with whiskers, one row each, on the scale from ``low`` to ``high``, or on one that holds them all."""
    ends = [v for m in marks for v in (m.value, m.low, m.high) if v is not None]
    low, high = min(ends) if low is None else low, max(ends) if high is None else high
    ticks = _ticks(low, high)
    low, high = min(low, ticks[0]), max(high, ticks[-1])
    left, right = _label_width(m.label for m in marks), WIDTH - 96

    def x(value: float) -> float:
        return left + (min(max(value, low), high) - low) / (high - low) * (right - left)

    bottom = PAD + ROW * len(marks)
    parts = [f'<line class="grid" x1="{x(t):.1f}" x2="{x(t):.1f}" y1="{PAD}" y2="{bottom}"/>' for t in ticks]
    parts += [_text(x(t), bottom + 16, f"{t:g}", "tick", "middle") for t in ticks]
    for k, mark in enumerate(marks):
        y = PAD + ROW * (k + 0.5)
        parts.append(_label(mark.label, left, y))
        if mark.low is not None and mark.high is not None:
            parts.append(f'<line class="whisker" x1="{x(mark.low):.1f}" x2="{x(mark.high):.1f}" y1="{y}" y2="{y}"/>')
            parts += [
                f'<line class="whisker" x1="{x(v):.1f}" x2="{x(v):.1f}" y1="{y - 5}" y2="{y + 5}"/>'
                for v in (mark.low, mark.high)
            ]
        parts.append(f'<circle class="point" cx="{x(mark.value):.1f}" cy="{y}" r="4.5"/>')
        parts.append(_text(right + 12, y + 4, mark.shown, "value"))
    return _svg(bottom + 26, parts, title)


def bars(rows: Sequence[tuple[str, float, str]], title: str = "") -> str:
    """One bar a row, from nothing to the largest; each is (label, value, what is written behind it)."""
    most = max((v for _, v, _ in rows), default=0) or 1
    left = _label_width(label for label, *_ in rows)
    parts: list[str] = []
    for k, (label, value, shown) in enumerate(rows):
        y, width = PAD + ROW * k, (WIDTH - left - 96) * value / most
        parts.append(_label(label, left, y + ROW / 2))
        parts.append(f'<rect class="bar" x="{left:.1f}" y="{y + 5}" width="{width:.1f}" height="{ROW - 10}" rx="2"/>')
        parts.append(_text(left + width + 8, y + ROW / 2 + 4, shown, "value"))
    return _svg(PAD * 2 + ROW * len(rows), parts, title)


def shares(rows: Sequence[tuple[str, str, Sequence[int]]], title: str = "") -> str:
    """Stacked bars of a's wins, ties, 'both bad' and b's wins, names at both ends."""
    left = _label_width(name for a, b, _ in rows for name in (a, b))
    right = WIDTH - left
    parts: list[str] = []
    for k, (a, b, counts) in enumerate(rows):
        y, at = PAD + ROW * k, left
        parts.append(_label(a, left, y + ROW / 2))
        for name, count in zip(("won", "tie", "bad", "lost"), counts, strict=True):
            width = (right - left) * count / (sum(counts) or 1)
            parts.append(f'<rect class="{name}" x="{at:.1f}" y="{y + 4}" width="{width:.1f}" height="{ROW - 8}"/>')
            if width > 34:
                shown = f"{100 * count / sum(counts):.0f}%"
                parts.append(_text(at + width / 2, y + ROW / 2 + 4, shown, f"in-{name}", "middle"))
            at += width
        parts.append(_text(right + 10, y + ROW / 2 + 4, _short(b), "label", hint=b))
    middle = (left + right) / 2
    parts.append(f'<line class="half" x1="{middle}" x2="{middle}" y1="{PAD - 6}" y2="{PAD + ROW * len(rows) + 6}"/>')
    return _svg(PAD * 2 + ROW * len(rows), parts, title)


def histogram(counts: Sequence[int], low: int, title: str) -> str:
    """How often each score was given; scales of more than 20 steps are drawn in tens."""
    bins = binned(counts, low)
    most, step, height = max((n for _, n in bins), default=0) or 1, 240 / len(bins), 76
    parts: list[str] = [_text(0, 12, _short(title), "label", hint=title)]
    for k, (name, count) in enumerate(bins):
        tall = height * count / most
        parts.append(
            f'<rect class="bar" x="{k * step + 1:.1f}" y="{22 + height - tall:.1f}" width="{step - 2:.1f}" '
            f'height="{tall:.1f}"><title>{escape(name)}: {count}</title></rect>'
        )
        if len(bins) <= 10:
            parts.append(_text((k + 0.5) * step, height + 37, name.split("-")[0], "tick", "middle"))
    parts.append(f'<line class="axis" x1="0" x2="240" y1="{22 + height}" y2="{22 + height}"/>')
    return _svg(height + 42, parts, f"scores of {title}", width=240)


def binned(counts: Sequence[int], low: int) -> list[tuple[str, int]]:
    """Scores by value, or by tens where the scale has more than 20 steps: (name, how many)."""
    if len(counts) <= 20:
        return [(str(low + k), n) for k, n in enumerate(counts)]
    return [
        (f"{low + k}-{low + min(k + 10, len(counts)) - 1}", sum(counts[k : k + 10])) for k in range(0, len(counts), 10)
    ]


def matrix(names: Sequence[str], cells: Sequence[Sequence[float | None]], shown: Mapping[tuple[int, int], str]) -> str:
    """A square table whose cells are tinted by a share of 0 to 1; row against column."""
    head = "".join(f'<th scope="col"><span>{escape(n)}</span></th>' for n in names)
    rows: list[str] = []
    for i, name in enumerate(names):
        tds = "".join(
            '<td class="self"></td>'
            if i == j
            else f'<td style="--p:{0 if (p := cells[i][j]) is None else p:.2f}">{escape(shown[i, j])}</td>'
            for j in range(len(names))
        )
        rows.append(f'<tr><th scope="row">{escape(name)}</th>{tds}</tr>')
    return f'<table class="matrix"><thead><tr><td></td>{head}</tr></thead><tbody>{"".join(rows)}</tbody></table>'


def _ticks(low: float, high: float) -> list[float]:
    span = (high - low) or 1.0
    raw = span / 5
    size = 10 ** math.floor(math.log10(raw))
    step = next(size * f for f in (1, 2, 5, 10) if size * f >= raw * 0.999)
    first, last = math.floor(low / step), math.ceil(high / step)
    return [k * step for k in range(first, max(last, first + 1) + 1)]


def _svg(height: float, parts: Sequence[str], title: str, width: int = WIDTH) -> str:
    named = f'role="img" aria-label="{escape(title)}"' if title else 'aria-hidden="true"'
    return f'<svg viewBox="0 0 {width} {height:.0f}" {named}>{"".join(parts)}</svg>'


def _label_width(labels: Iterable[str]) -> float:
    return 20 + 7.2 * max((len(_short(text)) for text in labels), default=0)


def _label(text: str, left: float, y: float) -> str:
    return _text(left - 12, y + 4, _short(text), "label", "end", hint=text)


def _text(x: float, y: float, text: str, kind: str, anchor: str = "start", hint: str = "") -> str:
    more = f"<title>{escape(hint)}</title>" if hint and _short(hint) != hint else ""
    return f'<text class="{kind}" x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}">{more}{escape(text)}</text>'


def _short(text: str) -> str:
    return text if len(text) <= _LONGEST else f"{text[: _LONGEST - 1]}\N{HORIZONTAL ELLIPSIS}"
