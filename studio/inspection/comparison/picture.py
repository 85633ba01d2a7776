"""A comparison as a picture to share: words over one axis, word durations, and the difference of two spectrograms."""

from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from studio.core.errors import NeedsPackage
from studio.inspection.comparison.common_axis import HIGH_HZ, LOW_HZ, STEP_S
from studio.inspection.comparison.compare import UtteranceComparison, pair_figures, spectral_difference
from studio.inspection.picture import write_figure

if TYPE_CHECKING:
    from matplotlib.figure import Figure

COLOURS = ("#0b6bcb", "#b3541e", "#12704a", "#7a3fa0", "#8a6d00", "#b4235f", "#3c6470", "#5d4037")
_INCHES_PER_S, _LEAST_INCHES, _MOST_INCHES = 2.5, 10.0, 120.0
_LANE_INCHES, _PICTURE_INCHES, _SCATTER_INCHES = 0.62, 3.0, 3.6
_S_PER_LETTER = 0.033  # of 7 points, at so many inches a second
_MOST_DB = 30.0
_INK = "#1c2733"


def save(comparison: UtteranceComparison, names: list[str], path: Path) -> None:
    """Draw a comparison into a file, by its suffix. Raises BadFile, NeedsPackage."""
    write_figure(draw(comparison, names), path)


def draw(comparison: UtteranceComparison, names: list[str]) -> "Figure":
    """Lanes of words, durations, and the difference of the first two, word over word where that can be.

    Raises:
        NeedsPackage: matplotlib is not there.
    """
    try:
        from matplotlib.figure import Figure
    except ImportError as error:
        raise NeedsPackage("pictures are drawn by matplotlib", "pip install 'streaming-tts-studio[app]'") from error
    length_s = max(comparison.length_s(stretch=False), 0.1)
    lanes = len(comparison.utterances)
    inches = min(_MOST_INCHES, max(_LEAST_INCHES, _INCHES_PER_S * length_s + 1.5))
    heights = (_LANE_INCHES * lanes + 0.4, _PICTURE_INCHES)
    figure = Figure(figsize=(inches, sum(heights) + 0.8), layout="constrained")
    grid = figure.add_gridspec(2, 2, width_ratios=(inches - _SCATTER_INCHES, _SCATTER_INCHES), height_ratios=heights)
    _words(figure.add_subplot(grid[0, :]), comparison, names, inches)
    if lanes > 1:
        _difference(figure, figure.add_subplot(grid[1, 0]), comparison, stretch=comparison.can_stretch)
        _durations(figure.add_subplot(grid[1, 1]), comparison)
    return figure


def _words(axes: Any, comparison: UtteranceComparison, names: list[str], inches: float) -> None:
    length_s = max(comparison.length_s(stretch=False), 0.1)
    s_per_letter = _S_PER_LETTER * _INCHES_PER_S * length_s / inches
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
    axes.set_title(
        "words, each utterance in its own time",
        loc="left",
        fontsize=10,
        color=_INK,
    )


def _difference(figure: Any, axes: Any, comparison: UtteranceComparison, *, stretch: bool) -> None:
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
