"""Position-aware statistics of a corpus for every ratio of IST-LM, as a table and heat maps (paper 003, figure 4)."""

from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import typer

from studio.bench.evaluation.settings import InterleavingSetting
from studio.core.errors import BadFile, NeedsPackage
from studio.engine.families.common.text_tokens import Bpe
from studio.engine.families.ist.policy import PAPER_RATIOS, Ratio
from studio.engine.tokenizers import dmel
from studio.measure.interleaving import MOST_WORDS, AlignedText, position_statistics
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


def eval_interleaving(setting: InterleavingSetting) -> dict[str, Any]:
    """The four statistics by word position for the paper's twelve ratios; see ``studio.measure.interleaving``.

    Raises:
        BadFile: no features.
        BadVoice: the encoding cannot be read.
    """
    texts = _aligned(setting.features, Bpe.read(setting.bpe))
    words = sum(len(text.text_tokens) for text in texts)
    tokens = sum(sum(text.text_tokens) for text in texts)
    frames = sum(text.speech_tokens for text in texts)
    ratios: dict[str, dict[str, list[float]]] = {}
    for name in PAPER_RATIOS:
        ratio = Ratio.parse(name)
        found = position_statistics(texts, ratio.n, ratio.m, MOST_WORDS)
        ratios[name] = {key: value.tolist() for key, value in asdict(found).items()}
    figures = {
        "texts": len(texts),
        "tokens_per_word": tokens / words,
        "frames_per_token": frames / tokens,
        "frame_ms": dmel.TIME_BASE.frame_ms,
        "ratios": ratios,
    }
    if setting.figure is not None:
        heat_maps(figures).write_html(setting.figure)
        typer.echo(f"heat maps in {setting.figure}", err=True)
    if not setting.quiet:
        show(figures)
    return figures


def show(figures: Mapping[str, Any]) -> None:
    """Print means over all positions, beside the natural rate of speech."""
    rows = []
    for name, found in figures["ratios"].items():
        ratio = Ratio.parse(name)
        means = [float(np.nanmean(np.array(found[key], float))) for key in MEASURES]
        rows.append((name, ratio.m / ratio.n, *means))
    natural, each = figures["frames_per_token"], figures["tokens_per_word"]
    note = (
        f"{figures['texts']} texts, means over word positions. In natural speech a token lasts {natural:.2f} frames of "
        f"{figures['frame_ms']:g} ms (a word has {each:.2f} tokens): with fewer frames, text runs ahead of speech"
    )
    print_table("Text and speech interleaved n:m (paper 003, section 6.2)", _COLUMNS, rows, note)


def heat_maps(figures: Mapping[str, Any]) -> "go.Figure":
    """Figure 4 of paper 003: ratios from left to right, words from top to bottom, dark for high values."""
    try:
        import plotly.graph_objects as go
        from plotly.subplots import make_subplots
    except ImportError as error:
        raise NeedsPackage("heat maps need plotly", "pip install 'streaming-tts-studio[app]'") from error

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


def _aligned(features: Path, bpe: Bpe) -> list[AlignedText]:
    paths = sorted(features.glob("*.safetensors"))
    if not paths:
        raise BadFile(f"{features} holds no features", "make them with `studio train features`")
    return [
        AlignedText([len(bpe.encode(word)) for word in s.words], s.word_ends, len(s.levels))
        for path in paths
        for s in read_features(path)[0]
    ]
