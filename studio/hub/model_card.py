"""The README.md of a published voice, written from its card."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from studio.core.cards import Card

_FIGURES = {
    "word_error_rate": "word error rate",
    "predicted_mos": "predicted MOS",
    "first_sound_ms": "first sound, ms",
}
# Identifiers that the hub knows and cards use; another licence is "other", with its name.
_LICENCES = frozenset({
    "apache-2.0", "mit", "bsd-3-clause", "cc0-1.0", "cc-by-4.0", "cc-by-sa-4.0", "cc-by-nc-4.0", "cc-by-nc-sa-4.0",
    "gpl-3.0", "lgpl-3.0", "openrail", "unlicense",
})  # fmt: skip


def model_card(card: Card, repo: str, samples: Sequence[str]) -> str:
    """Markdown with the hub's metadata: licence, data, figures, samples.

    Args:
        samples: names of WAV files in the repository.
    """
    from huggingface_hub import ModelCard, ModelCardData

    data = ModelCardData(
        language="en",
        **licence_fields(card.licence),
        library_name="streaming-tts-studio",
        pipeline_tag="text-to-speech",
        tags=["streaming", "text-to-speech", card.family],
    )
    parts = [
        f"# {_line(card.title)}",
        card.about,
        "A voice of Streaming-TTS Studio: speech starts before the text is finished.",
        f'```sh\nstudio voices pull {repo}\nstudio say "It is here." --voice {card.name}\n```',
        table(("", ""), _facts(card)),
        *_figures(card),
        *(["## Samples", "\n".join(f"* [{name}]({name})" for name in samples)] if samples else []),
        "## Training data",
        card.learned_from,
        *(["## Limits", card.notes] if card.notes else []),
        "## Licence",
        card.licence,
    ]
    return str(ModelCard(f"---\n{data.to_yaml()}\n---\n\n" + "\n\n".join(part for part in parts if part) + "\n"))


def licence_fields(licence: str) -> dict[str, Any]:
    """Metadata fields of a licence: the hub's identifier, or ``other`` with the name."""
    known = licence.strip().lower().replace(" ", "-")
    return {"license": known} if known in _LICENCES else {"license": "other", "license_name": _line(licence)}


def table(head: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    """A Markdown table."""
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join("| " + " | ".join(_line(cell).replace("|", "\\|") for cell in line) + " |" for line in lines)


def _facts(card: Card) -> list[tuple[str, str]]:
    return [
        ("family", card.family),
        ("speakers", ", ".join(card.speakers_default_first)),
        ("look-ahead", f"{card.look_ahead_words} words"),
        ("sound", f"{card.sample_rate_hz} Hz"),
        ("parameters", ", ".join(f"{name}: {count:,}" for name, count in card.parameters.items())),
    ]


def _figures(card: Card) -> list[str]:
    measured: Mapping[str, Mapping[str, object]] = card.figures.get("measured") or {}
    rows = [
        (title, f"{card.figures[name]:g}", (measured.get(name) or {}).get("cpu", ""))
        for name, title in _FIGURES.items()
        if isinstance(card.figures.get(name), int | float)
    ]
    return ["## Figures", table(("figure", "value", "measured on"), rows)] if rows else []


def _line(text: object) -> str:
    return " ".join(str(text).split())
