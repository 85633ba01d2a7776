"""Figures of a voice's card: first sound, predicted MOS and word errors, taken from the newest files of bench/results.

A measurement counts if it was made with the card's weights and with the card's default options.
"""

import json
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from statistics import fmean
from typing import Any

from studio.core.cards import Card, has_files, read_cards, write_card
from studio.core.errors import BadFile, BadOption
from studio.core.folders import DEFAULT_VOICE, VOICES
from studio.core.options import default_options, parse_options
from studio.measure.report import RESULTS, newest_results

_DIGITS = {"first_sound_ms": 1, "predicted_mos": 2, "word_error_rate": 4}


def write_card_figures(voices: Path = VOICES, results: Path = RESULTS) -> list[Path]:
    """Write the figures into the card of each voice; returns the cards' paths. Raises BadFile, as ``card_figures``."""
    updated = {folder: (card, card_figures(card, results)) for card, folder in read_cards(voices).values()}
    for folder, (card, figures) in updated.items():
        write_card(folder, replace(card, figures=figures))
    return [folder / "card.json" for folder in updated]


def card_figures(card: Card, results: Path = RESULTS) -> dict[str, Any]:
    """The figures of a card by name, and under ``measured`` the file and the machine of each.

    ``first_sound_ms`` is the median of t2 - t0: from the last word that the voice needed to its first sample.
    ``predicted_mos`` and ``word_error_rate`` are means over the measured speakers.

    Raises:
        BadFile: one of them was not measured with the card's weights and default options.
    """
    newest: dict[str, tuple[str, float, dict[str, str]]] = {}
    for path in _files(card, results):
        data = json.loads(path.read_text(encoding="utf-8"))
        source = {"file": path.name, "cpu": data["hardware"]["cpu"], "cores": data["hardware"]["cores"]}
        for name, value in _measured(card, data).items():
            if name not in newest or newest[name][0] < data["date"]:
                newest[name] = (data["date"], value, source)
    if lacking := [name for name in _DIGITS if name not in newest]:
        raise BadFile(
            f"{results} has no {' and no '.join(lacking)} of {card.name} with its weights and default options",
            "measure it with `studio bench latency`, `studio eval quality` and `studio eval wer`, each with --save",
        )
    figures: dict[str, Any] = {name: round(newest[name][1], digits) for name, digits in _DIGITS.items()}
    return figures | {"measured": {name: newest[name][2] for name in _DIGITS}}


def _files(card: Card, results: Path) -> Iterator[Path]:
    voice = "" if card.name == DEFAULT_VOICE else card.name
    for name, key in (("families", ""), ("latency", voice), ("quality", voice), ("wer", voice)):
        if (path := newest_results(name, results).get(key)) is not None:
            yield path


def _measured(card: Card, data: Mapping[str, Any]) -> dict[str, float]:
    """The figures of a card in a results file."""
    of_voice = data["voices"].get(card.name, {}) if data["name"] == "families" else data
    if not has_files(card, of_voice.get("sha256")):
        return {}
    out = dict[str, float]()
    timed = of_voice["timed"] if data["name"] == "families" else {str(data.get("setting", "")): data}
    medians = [one["t2_t0_ms"]["p50"] for name, one in timed.items() if "t2_t0_ms" in one and _is_default(card, name)]
    rows = [row for row in _rows(data, of_voice) if _is_default(card, row["setting"])]
    for name, values in (
        ("first_sound_ms", medians),
        ("predicted_mos", [row["mos"]["value"] for row in rows if row.get("mos")]),
        ("word_error_rate", [row["wer"]["value"] for row in rows if row.get("wer")]),
    ):
        if values:
            out[name] = fmean(values)
    return out


def _rows(data: Mapping[str, Any], of_voice: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    """Rows of speakers and settings, with ``wer`` and ``mos`` where they were measured."""
    if data["name"] == "families":
        yield from of_voice["rows"]
    key = {"quality": "mos", "wer": "wer"}.get(data["name"], "")
    for settings in data.get("speakers", {}).values() if key else ():
        yield from ({"setting": name, key: value} for name, value in settings.items() if isinstance(value, dict))


def _is_default(card: Card, setting: str) -> bool:
    """Whether a setting such as ``m=3`` has the card's default values; false for ``teacher`` and ``dMel``."""
    try:
        values = parse_options(card.options, setting.split(",") if setting else [])
    except BadOption:
        return False
    return values.items() <= default_options(card.options).items()
