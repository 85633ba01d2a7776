"""All voices of a folder in one table, with the same texts, teacher, vocoder, recogniser and predictor.

It combines `studio eval wer`, `quality` and `seams` and `studio bench latency` for each voice. A stopped run resumes
from cached speech and answers; timings are never cached.
"""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

from studio.bench.evaluation.quality import QualitySetting, eval_quality
from studio.bench.evaluation.seams import seams_of
from studio.bench.evaluation.settings import FamiliesSetting
from studio.bench.evaluation.wer import WerSetting, eval_wer
from studio.bench.material import evaluation_run, options_text, read_texts
from studio.bench.options import Setting
from studio.bench.speed.latency import LatencySetting, bench_latency
from studio.core.cards import Card, find_file, read_cards
from studio.core.errors import BadOption
from studio.core.files import read_lines
from studio.engine.families.base import family_info
from studio.measure.report import print_table, recogniser_name, weights_name

_REFERENCES = {"teacher": "teacher", "dmel": "dMel"}  # their names in `eval wer` and `eval quality`


def eval_families(setting: FamiliesSetting) -> dict[str, Any]:
    """Rows of every voice, speaker and setting. Raises BadOption."""
    there = read_cards(setting.voices)
    if lacking := [name for name in setting.only if name not in there]:
        raise BadOption(f"there is no voice {lacking[0]!r:.100}", f"there are {', '.join(there)}")
    out: dict[str, Any] = {"texts": setting.texts.name, "asked": setting.count, "voices": {}}
    setting = replace(setting, speakers=setting.speakers or _shared([there[name][0] for name in setting.only or there]))
    for name in setting.only or there:
        out["voices"][name], heard_by = _voice(setting, *there[name])
        out |= heard_by
    return out


def _shared(cards: Sequence[Card]) -> tuple[str, ...]:
    """Speakers that all voices have, in the first one's order. Raises BadOption if there are none."""
    speakers = tuple(name for name in cards[0].speakers if all(name in card.speakers for card in cards))
    if not speakers:
        raise BadOption("the voices have no speaker in common", "name voices that have, with --voice")
    return speakers


def _voice(setting: FamiliesSetting, card: Card, folder: Path) -> tuple[dict[str, Any], dict[str, Any]]:
    """A voice's figures, and the recogniser and predictor used."""
    same: dict[str, Any] = {one.name: getattr(setting, one.name) for one in fields(Setting)}
    same |= {"voice": card.name, "quiet": True}
    texts = setting.texts
    intelligibility = eval_wer(WerSetting(**same, texts=texts, count=setting.count))
    judged = eval_quality(QualitySetting(**same, texts=texts, count=min(setting.predicted, setting.count)))
    names = [name for name in next(iter(intelligibility["speakers"].values())) if name not in ("n", *_REFERENCES)]
    timed: dict[str, Any] = {}
    for name in names if setting.timed else []:
        options = {**same, "settings": (name,) if "=" in name else (), "cache": None}
        latency = bench_latency(LatencySetting(**options, texts=texts, count=min(setting.timed, setting.count)))
        timed[name] = {key: latency[key] for key in ("t2_t0_ms", "t2_t0a_ms", "rtf")}
    rows = [
        {"speaker": speaker, "setting": named, "n": figures["n"], "wer": figures[name], "mos": mos.get(named)}
        for speaker, figures in intelligibility["speakers"].items()
        for mos in [judged["speakers"].get(speaker, {})]
        for name in (*_REFERENCES, *names)
        if name in figures
        for named in [_REFERENCES.get(name, name)]
    ]
    net = [name for name in card.sha256 if name.removesuffix(".safetensors") not in card.vocoders]
    figures = {
        "family": card.family,
        "paper": family_info(card.family).paper,
        "sha256": card.sha256,
        "parameters": card.parameters[card.family],
        "steps": _steps(folder),
        "vocoder": card.vocoder,
        "bytes": sum(path.stat().st_size for name in net if (path := find_file(folder, card, name))),
        "rows": rows,
        "timed": timed,
        "seams": _seams(Setting(**same), read_texts(texts, setting.seams)) if setting.seams else None,
    }
    return figures, {"recogniser": intelligibility["recogniser"], "predictor": judged["predictor"]}


def _steps(folder: Path) -> int | None:
    """The last training step in the voice's curves.jsonl; None without that file."""
    curves = folder / "curves.jsonl"
    return json.loads(read_lines(curves)[-1])["step"] if curves.is_file() else None


def _seams(setting: Setting, texts: list[str]) -> dict[str, Any]:
    """Seam detection with the card's options, with two words a segment where the family has that option.

    ``found`` is None if there is nothing to compare, else as from ``seams_of``.
    """
    with evaluation_run(setting) as at:
        options = {spec.name: 2 for spec in at.card.options if spec.name == "n"}
        return {"setting": options_text(options), "n": len(texts), "found": seams_of(at, texts, options)}


def show(out: Mapping[str, Any]) -> None:
    voices: Mapping[str, Any] = out["voices"]
    lines = [line for name, one in voices.items() for line in _lines(name, one)]
    rows = [*dict.fromkeys(row for _, row in sorted(lines, key=lambda line: not line[0]))]
    columns = ("", "n", "WER", "95%", "above dMel", "95% paired", "predicted MOS", "above teacher")
    note = f"predicted by {weights_name(out['predictor'])}, not by people"
    print_table(f"All voices on {out['texts']}; WER by {recogniser_name(out)}", columns, rows, note)
    facts = [
        (name, one["family"], f"{one['parameters'] / 1e6:.2f}M", size, one.get("steps"), one["vocoder"])
        for name, one in voices.items()
        for size in [f"{one['bytes'] / 1e6:.1f} MB"]
    ]
    print_table("The same voices", ("", "family", "parameters", "weights", "steps", "vocoder"), facts)
    times = [
        (f"{name} {setting}", _ms(one["t2_t0_ms"]), _ms(one["t2_t0a_ms"]), f"{one['rtf']:.3f}")
        for name, of in voices.items()
        for setting, one in of["timed"].items()
    ]
    if times:
        columns = ("", "t2 - t0, ms: p50 (IQR)", "t2 - t0a, ms: p50 (IQR)", "rtf")
        print_table("First audio, all words of a text at once; compute / audio", columns, times)
    if looked := {name: one["seams"] for name, one in voices.items() if one["seams"]}:
        columns = ("", "texts", "area: voice", "95%", "vocoded by segments", "naive concatenation", "teacher")
        note = "Area under the ROC curve, 0.5 is chance; none where every word or every text is a segment."
        print_table("Seams against other word boundaries", columns, [*map(_seam_row, looked.items())], note)


def _lines(name: str, one: Mapping[str, Any]) -> Iterator[tuple[bool, tuple[object, ...]]]:
    """Printed rows of a voice, each with whether it is a reference row, which is the same for all voices."""
    for row in one["rows"]:
        wer, mos = row["wer"], row["mos"]
        above, better = wer.get("above_dmel"), (mos or {}).get("above_teacher")
        is_reference = row["setting"] in _REFERENCES.values()
        yield (
            is_reference,
            (
                f"{row['speaker']}, {row['setting']}" if is_reference else f"{name} {row['speaker']} {row['setting']}",
                row["n"],
                f"{wer['value']:.3f}",
                f"{wer['low']:.3f}-{wer['high']:.3f}",
                f"{above['value']:+.3f}" if above else None,
                f"{above['low']:+.3f} to {above['high']:+.3f}" if above else None,
                f"{mos['value']:.2f}" if mos else None,
                f"{better['value']:+.2f}" if better else None,
            ),
        )


def _seam_row(named: tuple[str, Mapping[str, Any]]) -> list[object]:
    name, one = named
    head: list[object] = [f"{name} {one['setting']}".strip(), one["n"]]
    if one["found"] is None:
        return [*head, None, None, None, None, None]
    voice, *controls = (of["area"] for of in one["found"]["conditions"].values())
    span = f"{voice['low']:.3f} to {voice['high']:.3f}"
    return [*head, f"{voice['value']:.3f}", span, *(f"{area['value']:.3f}" for area in controls)]


def _ms(percentiles: Mapping[str, float]) -> str:
    return f"{percentiles['p50']:.1f} ({percentiles['iqr']:.1f})"
