"""Distance of text and speech in n:m interleaving (paper 003, section 6.2): measures, a table, heat maps (figure 4)."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from studio.bench.evaluation.settings import InterleavingSetting
from studio.core.errors import BadFile, needs
from studio.core.terminal import print_line
from studio.engine.families.common.text_tokens import Bpe
from studio.engine.families.ist.policy import PAPER_RATIOS, Ratio
from studio.engine.tokenizers import dmel
from studio.measure.report import print_table
from studio.train.features import read_features

if TYPE_CHECKING:
    import plotly.graph_objects as go

MEASURES = {
    "mean_distance": "mean distance of speech to its text, tokens",
    "std_distance": "its standard deviation, tokens",
    "future_words": "future words in view",
    "precedes": "share of speech before its text",
}
_COLUMNS = ("ratio", "frames a token", "distance", "its deviation", "later words", "speech first")
MOST_WORDS = 72  # words of a training sample in the paper


def eval_interleaving(setting: InterleavingSetting) -> dict[str, Any]:
    """The four statistics by word position for the paper's twelve ratios. Raises BadFile, BadVoice."""
    texts = _aligned(setting.features, Bpe.read(setting.bpe))
    words = sum(len(text.text_tokens) for text in texts)
    tokens = sum(sum(text.text_tokens) for text in texts)
    frames = sum(text.speech_tokens for text in texts)
    ratios: dict[str, dict[str, list[float]]] = {}
    for name in PAPER_RATIOS:
        ratio = Ratio.parse(name)
        statistics = position_statistics(texts, ratio.n, ratio.m, MOST_WORDS)
        ratios[name] = {key: value.tolist() for key, value in asdict(statistics).items()}
    figures = {
        "texts": len(texts),
        "tokens_per_word": tokens / words,
        "frames_per_token": frames / tokens,
        "frame_ms": dmel.TIME_BASE.frame_ms,
        "ratios": ratios,
    }
    if setting.figure is not None:
        heat_maps(figures).write_html(setting.figure)
        print_line(f"heat maps in {setting.figure}", err=True)
    return figures


def show(figures: Mapping[str, Any]) -> None:
    """Print means over all positions, beside the natural rate of speech."""
    rows = []
    for name, statistics in figures["ratios"].items():
        ratio = Ratio.parse(name)
        means = [float(np.nanmean(np.array(statistics[key], float))) for key in MEASURES]
        rows.append((name, ratio.m / ratio.n, *means))
    natural, each = figures["frames_per_token"], figures["tokens_per_word"]
    note = (
        f"{figures['texts']} texts, means over word positions. In natural speech a token lasts {natural:.2f} frames of "
        f"{figures['frame_ms']:g} ms (a word has {each:.2f} tokens): with fewer frames, text runs ahead of speech"
    )
    print_table("Text and speech interleaved n:m (paper 003, section 6.2)", _COLUMNS, rows, note)


def heat_maps(figures: Mapping[str, Any]) -> "go.Figure":
    """Figure 4 of paper 003: ratios from left to right, words from top to bottom, dark for high values."""
    with needs("heat maps need plotly", "app"):
        import plotly.graph_objects as go
        from plotly.subplots import make_subplots

    names = list(figures["ratios"])
    whole = make_subplots(rows=1, cols=len(MEASURES), subplot_titles=[*MEASURES.values()], horizontal_spacing=0.05)
    for column, key in enumerate(MEASURES, 1):
        values = np.array([figures["ratios"][name][key] for name in names], float).T
        last = int(np.flatnonzero(~np.isnan(values).all(1)).max(initial=0)) + 1
        axis: Any = whole.layout[f"xaxis{column}" if column > 1 else "xaxis"]  # pyright: ignore[reportIndexIssue]
        left, right = axis["domain"]
        bar = {"orientation": "h", "x": (left + right) / 2, "y": -0.14, "yanchor": "top", "thickness": 10}
        bar |= {"len": right - left, "lenmode": "fraction", "nticks": 5}
        whole.add_trace(
            go.Heatmap(
                z=values[:last],
                x=names,
                y=[*range(1, last + 1)],
                colorscale="Blues",
                colorbar=bar,
                hovertemplate="%{x}, word %{y}: %{z:.2f}<extra></extra>",
            ),
            row=1,
            col=column,
        )
    whole.update_xaxes(type="category", tickangle=90)
    whole.update_yaxes(autorange="reversed")
    whole.update_yaxes(title="word", col=1)
    whole.update_annotations(font_size=12)
    return whole.update_layout(height=560, template="plotly_white", margin={"l": 56, "r": 24, "t": 48, "b": 96})


@dataclass(frozen=True)
class AlignedText:
    """A text with its alignment to speech."""

    text_tokens: Sequence[int]  # number of tokens of each word
    word_ends: Sequence[int]  # the speech token before which each word ends
    speech_tokens: int  # of the whole sample, at least ``word_ends[-1]``


@dataclass(frozen=True)
class WordMeasures:
    """Measures of a sample's words, float64 [words] each; NaN for a word without a speech token.

    Attributes:
        distance: D, the mean of d(x, y) over all pairs of the word's text tokens x and speech tokens y: index of y
            minus index of x in the interleaved sequence, negative where speech precedes its text.
        future_words: A, the mean number of later words whose last token precedes a speech token of this one.
        precedes: F, the share of pairs in which speech precedes its text (d < 0).
    """

    distance: np.ndarray
    future_words: np.ndarray
    precedes: np.ndarray


@dataclass(frozen=True)
class PositionStatistics:
    """The measures by word position, float64 [positions]; NaN beyond the longest sample.

    Attributes:
        mean_distance, std_distance: mu and sigma of D.
        future_words, precedes: the means of A and F.
        samples: number of samples with a word there.
    """

    mean_distance: np.ndarray
    std_distance: np.ndarray
    future_words: np.ndarray
    precedes: np.ndarray
    samples: np.ndarray


def text_positions(text_tokens: int, speech_tokens: int, n: int, m: int) -> np.ndarray:
    """Indices of the text tokens in the interleaved sequence (equation 1), int64 [text_tokens]."""
    i = np.arange(text_tokens)
    return i + np.minimum(speech_tokens, i // n * m)


def speech_positions(text_tokens: int, speech_tokens: int, n: int, m: int) -> np.ndarray:
    """Indices of the speech tokens in the interleaved sequence (equation 1), int64 [speech_tokens]."""
    j = np.arange(speech_tokens)
    return j + np.minimum(text_tokens, (j // m + 1) * n)


def word_measures(text: AlignedText, n: int, m: int, closing_tokens: int = 1) -> WordMeasures:
    """D, A and F of every word of a sample.

    Args:
        closing_tokens: text tokens after the words, such as the end token (section 4.3).
    """
    count = len(text.text_tokens)
    ends = np.cumsum(text.text_tokens)
    tokens = int(ends[-1]) + closing_tokens
    x = text_positions(tokens, text.speech_tokens, n, m)
    y = speech_positions(tokens, text.speech_tokens, n, m)
    complete = x[ends - 1]  # index of each word's last token
    measures = np.full((3, count), np.nan)
    for word in range(count):
        word_text = x[ends[word] - text.text_tokens[word] : ends[word]]
        word_speech = y[text.word_ends[word - 1] if word else 0 : text.word_ends[word]]
        if not (len(word_text) and len(word_speech)):
            continue
        seen = np.searchsorted(complete, word_speech)  # complete words before each
        measures[:, word] = (
            word_speech.mean() - word_text.mean(),
            np.maximum(0, seen - (word + 1)).mean(),
            (word_speech[:, None] < word_text).mean(),
        )
    return WordMeasures(*measures)


def position_statistics(
    texts: Iterable[AlignedText], n: int, m: int, positions: int = MOST_WORDS
) -> PositionStatistics:
    """The measures by word position over a training set (figure 4)."""
    rows: list[np.ndarray] = []
    for text in texts:
        one = word_measures(text, n, m)
        row = np.full((3, positions), np.nan)
        values = np.stack((one.distance, one.future_words, one.precedes))[:, :positions]
        row[:, : values.shape[1]] = values
        rows.append(row)
    table = np.stack(rows) if rows else np.full((0, 3, positions), np.nan)
    samples = (~np.isnan(table[:, 0])).sum(0)
    divisor = np.where(samples, samples, np.nan)
    means = np.nansum(table, axis=0) / divisor
    spread = np.sqrt(np.nansum((table[:, 0] - means[0]) ** 2, axis=0) / divisor)
    return PositionStatistics(means[0], spread, means[1], means[2], samples)


def _aligned(features: Path, bpe: Bpe) -> list[AlignedText]:
    paths = sorted(features.glob("*.safetensors"))
    if not paths:
        raise BadFile(f"{features} holds no features", "make them with `studio train features`")
    return [
        AlignedText([len(bpe.encode(word, s.words[:i])) for i, word in enumerate(s.words)], s.word_ends, len(s.levels))
        for path in paths
        for s in read_features(path)[0]
    ]
