"""Pictures by matplotlib (SVG, PDF or PNG): the timeline of an utterance, and a comparison of several."""

from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from studio.core.errors import BadFile, bad_file, needs
from studio.inspection.comparison.common_axis import HIGH_HZ, LOW_HZ, STEP_S
from studio.inspection.comparison.compare import UtteranceComparison, pair_figures, spectral_difference
from studio.inspection.playback import Pause
from studio.inspection.timeline import TimedSegment, TimedWord, Timeline

if TYPE_CHECKING:
    from matplotlib.figure import Figure

SUFFIXES = (".svg", ".png", ".pdf")
_INCHES_PER_S, _LEAST_INCHES, _MOST_INCHES = 2.0, 8.0, 160.0
_DPI = 150
_S_PER_LETTER = 0.038  # of 8 points, at two inches a second
_TYPED_Y, _MADE_Y, _HEARD_Y = 2.0, 1.0, 0.0
_HEIGHT = 0.34
_INK, _FAINT, _PAPER = "#1c2733", "#7a8794", "#ffffff"
_LANES = {"typed": "#4a5763", "made": "#0b6bcb", "heard": "#12704a"}
_FORCED = "#b42318"
PAUSES = {"text": "#e8c66a", "credit": "#c9cfd6", "compute": "#d1503f", "network": "#8f4fb0", "unknown": "#9aa3ad"}
COLOURS = ("#0b6bcb", "#b3541e", "#12704a", "#7a3fa0", "#8a6d00", "#b4235f", "#3c6470", "#5d4037")
_COMPARED_INCHES_PER_S, _COMPARED_LEAST_INCHES, _COMPARED_MOST_INCHES = 2.5, 10.0, 120.0
_LANE_INCHES, _PICTURE_INCHES, _SCATTER_INCHES = 0.62, 3.0, 3.6
_COMPARED_S_PER_LETTER = 0.033  # of 7 points, at so many inches a second
_MOST_DB = 30.0


def write_figure(figure: "Figure", path: Path) -> None:
    """Write a figure into a file; the suffix is the format. Raises BadFile, Unavailable."""
    if path.suffix.lower() not in SUFFIXES:
        raise BadFile(f"{path} is no picture", f"give a file that ends in {', '.join(SUFFIXES)}")
    with bad_file(f"{path} cannot be written", "give another place"):
        figure.savefig(path, dpi=_DPI, facecolor=_PAPER, metadata=None if path.suffix == ".png" else {"Date": None})


def draw(line: Timeline, title: str = "") -> "Figure":
    """Three lanes (typed, made, heard), with a line through them for each word. Raises NeedsPackage."""
    with needs("pictures are drawn by matplotlib", "app"):
        from matplotlib.figure import Figure
    start_s, end_s = line.start_ms / 1000.0, max(line.end_ms, line.start_ms + 1.0) / 1000.0
    inches = min(_MOST_INCHES, max(_LEAST_INCHES, _INCHES_PER_S * (end_s - start_s)))
    figure = Figure(figsize=(inches, 3.6), layout="constrained")
    axes = figure.subplots()
    is_clocked = line.heard_by != "recording"
    if is_clocked:
        _draw_typed(axes, line)
        _draw_made(axes, line.segments)
    _draw_heard(axes, line)
    for word in line.words if is_clocked else ():
        _join(axes, word)
    lanes = (_TYPED_Y, _MADE_Y, _HEARD_Y) if is_clocked else (_HEARD_Y,)
    axes.set_yticks(lanes, list(_LANES) if is_clocked else ["heard"], fontsize=11)
    axes.set(xlim=(start_s - 0.02, end_s + 0.02), ylim=(_HEARD_Y - 0.75, lanes[0] + 0.75), xlabel="seconds")
    for side in ("top", "right", "left"):
        axes.spines[side].set_visible(False)
    axes.tick_params(axis="y", length=0)
    axes.set_title(title, loc="left", fontsize=11, color=_INK, parse_math=False)
    _legend(axes, line.pauses, any(one.forced for one in line.segments))
    return figure


def _draw_typed(axes: Any, line: Timeline) -> None:
    """A tick for each arrival, and each written word at the time of its first character."""
    current = [one for one in line.keys if one.is_kept]
    dropped = [one for one in line.keys if not one.is_kept]
    for keys, style in ((current, {"color": _LANES["typed"]}), (dropped, {"color": _FORCED, "linestyle": ":"})):
        axes.vlines(_seconds(one.t_ms for one in keys), _TYPED_Y - 0.1, _TYPED_Y + 0.1, linewidth=0.8, **style)
    written: set[int] = set()
    room_s, at = -1.0, 0  # right end of the labels so far, and of their text, which a damaged trace may repeat
    for word in line.words:
        if word.written in written or word.typed_ms is None:
            continue
        written.add(word.written)
        at_s = max(word.typed_ms / 1000.0, room_s)
        as_typed = line.text[max(at, word.char_start) : max(at, word.char_end)]
        at = max(at, word.char_end)
        room_s = at_s + _S_PER_LETTER * (len(as_typed) + 1)
        axes.text(at_s, _TYPED_Y + 0.2, as_typed, fontsize=8, color=_INK, va="bottom", clip_on=True, parse_math=False)


def _draw_made(axes: Any, segments: Iterable[TimedSegment]) -> None:
    for one in segments:
        if one.made_ms is None or one.made_whole_ms is None:
            continue
        start_s, width_s = one.made_ms / 1000.0, max(0.004, (one.made_whole_ms - one.made_ms) / 1000.0)
        edge = _FORCED if one.forced else _LANES["made"]
        axes.broken_barh([(start_s, width_s)], (_MADE_Y - _HEIGHT / 2, _HEIGHT), facecolor="#d8e8f8", edgecolor=edge)


def _draw_heard(axes: Any, line: Timeline) -> None:
    for number, word in enumerate(line.words):
        if word.heard_ms is None or word.heard_whole_ms is None:
            continue
        start_s, width_s = word.heard_ms / 1000.0, max(0.004, (word.heard_whole_ms - word.heard_ms) / 1000.0)
        shade = "#cfeadd" if number % 2 else "#e6f5ee"
        axes.broken_barh([(start_s, width_s)], (-_HEIGHT / 2, _HEIGHT), facecolor=shade, edgecolor=_LANES["heard"])
        upright = _S_PER_LETTER * len(word.text) > width_s
        axes.text(
            start_s + width_s / 2,
            -_HEIGHT / 2 - 0.05,
            word.text,
            fontsize=8,
            color=_INK,
            ha="right" if upright else "center",
            va="top",
            rotation=45 if upright else 0,
            rotation_mode="anchor",
            clip_on=True,
            parse_math=False,
        )
    for run in [] if line.words else line.runs:
        width_s = (run.end - run.start) / line.rate_hz
        axes.broken_barh([(run.t_ms / 1000.0, width_s)], (-_HEIGHT / 2, _HEIGHT), facecolor="#cfeadd")
    for pause in line.pauses:
        span = (pause.start_ms / 1000.0, pause.duration_ms / 1000.0)
        axes.broken_barh([span], (-_HEIGHT / 2, _HEIGHT), facecolor=PAUSES[pause.reason])


def _join(axes: Any, word: TimedWord) -> None:
    """A word's line through the lanes: known, made, heard."""
    points = [(word.known_ms, _TYPED_Y - 0.1), (word.made_ms, _MADE_Y + _HEIGHT / 2)]
    low = [(word.made_ms, _MADE_Y - _HEIGHT / 2), (word.heard_ms, _HEIGHT / 2)]
    for ends in (points, low):
        present = [(t_ms / 1000.0, height) for t_ms, height in ends if t_ms is not None]
        if len(present) == 2:
            axes.plot(*zip(*present, strict=True), color=_FAINT, linewidth=0.8, alpha=0.8, solid_capstyle="round")


def _legend(axes: Any, pauses: Iterable[Pause], has_forced: bool) -> None:
    from matplotlib.patches import Patch

    reasons = dict.fromkeys(one.reason for one in pauses)
    parts = [Patch(facecolor=PAUSES[reason], label=_pause_name(reason)) for reason in reasons]
    if has_forced:
        parts.append(Patch(facecolor="#d8e8f8", edgecolor=_FORCED, label="forced to end"))
    if parts:
        axes.legend(
            handles=parts, loc="lower right", bbox_to_anchor=(1, 1), ncols=len(parts), fontsize=8, frameon=False
        )


def _pause_name(reason: str) -> str:
    return {"text": "waits for text", "credit": "waits for the listener", "unknown": "player stood still"}.get(
        reason, f"stall: {reason}"
    )


def _seconds(times_ms: Iterable[float]) -> list[float]:
    return [t_ms / 1000.0 for t_ms in times_ms]


def draw_comparison(comparison: UtteranceComparison, names: list[str]) -> "Figure":
    """Lanes of words, durations, and the difference of the first two, word over word where that can be.

    Raises NeedsPackage: matplotlib is not there.
    """
    with needs("pictures are drawn by matplotlib", "app"):
        from matplotlib.figure import Figure
    length_s = max(comparison.length_s(stretch=False), 0.1)
    lanes = len(comparison.utterances)
    inches = min(_COMPARED_MOST_INCHES, max(_COMPARED_LEAST_INCHES, _COMPARED_INCHES_PER_S * length_s + 1.5))
    heights = (_LANE_INCHES * lanes + 0.4, _PICTURE_INCHES)
    figure = Figure(figsize=(inches, sum(heights) + 0.8), layout="constrained")
    grid = figure.add_gridspec(2, 2, width_ratios=(inches - _SCATTER_INCHES, _SCATTER_INCHES), height_ratios=heights)
    _compared_words(figure.add_subplot(grid[0, :]), comparison, names, inches)
    if lanes > 1:
        _spectral_difference(figure, figure.add_subplot(grid[1, 0]), comparison, stretch=comparison.can_stretch)
        _durations(figure.add_subplot(grid[1, 1]), comparison)
    return figure


def _compared_words(axes: Any, comparison: UtteranceComparison, names: list[str], inches: float) -> None:
    length_s = max(comparison.length_s(stretch=False), 0.1)
    s_per_letter = _COMPARED_S_PER_LETTER * _COMPARED_INCHES_PER_S * length_s / inches
    for k, utterance in enumerate(comparison.utterances):
        bars = [(word.start_s, max(0.004, word.end_s - word.start_s)) for word in utterance.words]
        axes.broken_barh(bars, (-k - 0.38, 0.4), facecolor=COLOURS[k] + "30", edgecolor=COLOURS[k], linewidth=0.8)
        for word, (start, width) in zip(utterance.words, bars, strict=True):
            is_narrow = s_per_letter * (len(word.text) + 1) > width
            axes.text(
                start + width / 2,
                -k + (0.06 if is_narrow else -0.18),
                word.text,
                fontsize=7,
                color=_INK,
                ha="left" if is_narrow else "center",
                va="bottom" if is_narrow else "center",
                rotation=35 if is_narrow else 0,
                rotation_mode="anchor",
                clip_on=True,
                parse_math=False,
            )
    axes.set_yticks(
        [-k - 0.18 for k in range(len(names))], [f"{k + 1} {name}" for k, name in enumerate(names)], fontsize=9
    )
    axes.set(xlim=(0.0, length_s), ylim=(-len(names) + 0.5, 0.75))
    axes.tick_params(axis="y", length=0)
    for side in ("top", "right", "left"):
        axes.spines[side].set_visible(False)
    axes.set_title("words, each utterance in its own time", loc="left", fontsize=10, color=_INK)


def _spectral_difference(figure: Any, axes: Any, comparison: UtteranceComparison, *, stretch: bool) -> None:
    picture = spectral_difference(comparison, 1, 0, stretch=stretch)
    extent = (0.0, picture.shape[1] * STEP_S, 0.0, float(picture.shape[0]))
    image = axes.imshow(
        np.ma.masked_invalid(picture),
        aspect="auto",
        origin="lower",
        extent=extent,
        cmap="RdBu_r",
        vmin=-_MOST_DB,
        vmax=_MOST_DB,
        interpolation="nearest",
    )
    high_hz = min(HIGH_HZ, *(utterance.trace.rate_hz / 2.0 for utterance in comparison.utterances[:2]))
    hertz = [hz for hz in (250, 500, 1000, 2000, 4000, 8000) if hz <= high_hz]
    axes.set_yticks([picture.shape[0] * _height(hz, high_hz) for hz in hertz], [f"{hz:,}" for hz in hertz], fontsize=8)
    axes.set(xlabel="seconds", ylabel="Hz")
    suffix = ", word over word, each as long as their mean" if stretch else ""
    axes.set_title(f"spectrum of 2 less that of 1{suffix}", loc="left", fontsize=10, color=_INK)
    figure.colorbar(image, ax=axes, label="dB", pad=0.01)


def _durations(axes: Any, comparison: UtteranceComparison) -> None:
    """Each word's duration in the first utterance against every other one's."""
    most = 0.05
    for k in range(1, len(comparison.utterances)):
        pairs = [(row[0], row[k]) for row in comparison.rows]
        points = [(1000.0 * a.duration_s, 1000.0 * b.duration_s) for a, b in pairs if a is not None and b is not None]
        most = max([most, *(value for point in points for value in point)])
        figures = pair_figures(comparison.rows, 0, k)
        suffix = "" if figures.duration_r is None else f", r = {figures.duration_r:.2f}"
        axes.scatter(
            *zip(*points, strict=True) if points else ([], []),
            s=14,
            color=COLOURS[k],
            alpha=0.7,
            label=f"{k + 1}{suffix}",
        )
    axes.plot([0, 1.05 * most], [0, 1.05 * most], color="#9aa3ad", linewidth=0.8)
    limits = (0, 1.05 * most)
    axes.set(xlim=limits, ylim=limits, aspect="equal", xlabel="1 (ms)", ylabel="others (ms)")
    axes.set_title("word durations", loc="left", fontsize=10, color=_INK)
    axes.legend(loc="upper left", fontsize=7, frameon=False)


def _height(hz: float, high_hz: float) -> float:
    def mel(at_hz: float) -> float:
        return 2595.0 * float(np.log10(1.0 + at_hz / 700.0))

    return (mel(hz) - mel(LOW_HZ)) / (mel(high_hz) - mel(LOW_HZ))
