"""Label Studio's JSON: one task with its audio regions, exact to the sample, without loss.

A layer is a ``from_name``, a point a region without length, a note the region's ``meta.text``. The task's data lists
the layers with kinds and label sets; Label Studio preserves it.
"""

import json
from collections.abc import Iterator, Mapping
from typing import Any, cast

from studio.annotation.formats.tiers import SampleGrid, decode_text, unix_newlines
from studio.annotation.layers import Annotation, AnnotationLayer, AnnotationMark, Kind
from studio.core.checks import is_number
from studio.core.errors import BadFile

_OURS = "layers"
_HINT = "export it from Label Studio as JSON"


def write(annotation: Annotation) -> bytes:
    """A list of one task, as Label Studio imports and exports it; ``data.audio`` is filled by the importer."""
    length_s = annotation.samples / annotation.rate_hz
    results = [
        _result(f"{at}-{number}", layer, mark, annotation.rate_hz, length_s)
        for at, layer in enumerate(annotation.layers)
        for number, mark in enumerate(layer.marks)
    ]
    layers = [{"name": one.name, "kind": one.kind, "labels": list(one.labels)} for one in annotation.layers]
    about = {"audio": "", "rate_hz": annotation.rate_hz, "samples": annotation.samples, _OURS: layers}
    task = {"data": about, "annotations": [{"result": results}]}
    return json.dumps([task], ensure_ascii=False, indent=1).encode()


def read(data: bytes, rate_hz: int, samples: int) -> Annotation:
    """Every audio region of the one annotation of the one task; what is no region (ratings, transcripts) is left out.

    Raises BadFile: it is no such JSON, holds several tasks or annotations, or a time does not lie in the sound.
    """
    grid = SampleGrid(rate_hz, samples)
    task = _only(_parsed(data), "tasks")
    given = [one for one in _list(task.get("annotations")) if not _map(one).get("was_cancelled")]
    results = _list(_only(given, "annotations").get("result", [])) if given else []
    about = task.get("data")
    kinds, labels = _layers(_list(about.get(_OURS, [])) if isinstance(about, dict) else [])
    marks: dict[str, list[AnnotationMark]] = {name: [] for name in kinds}
    for at, result in enumerate(results, 1):
        for name, mark in _marks(_map(result), f"region {at}", grid):
            marks.setdefault(name, []).append(mark)
    found: list[AnnotationLayer] = []
    for name, mine in marks.items():
        points = [one for one in mine if one.start_sample == one.end_sample]
        kind: Kind = kinds.get(name) or ("points" if len(points) == len(mine) else "regions")
        if kind == "regions" and points:  # two kinds under one name: the points get a layer of their own
            found.append(AnnotationLayer(f"{name} points", "points", marks=tuple(points)))
            mine = [one for one in mine if one.start_sample < one.end_sample]
        found.append(AnnotationLayer(name, kind, labels.get(name, ()), tuple(mine)))
    return grid.annotation(found)


def _result(name: str, layer: AnnotationLayer, mark: AnnotationMark, rate_hz: int, length_s: float) -> dict[str, Any]:
    times = {"start": mark.start_sample / rate_hz, "end": mark.end_sample / rate_hz, "channel": 0}
    return {
        "id": mark.id or name,
        "from_name": layer.name,
        "to_name": "audio",
        "type": "labels",
        "original_length": length_s,
        "value": {**times, "labels": [mark.label] if mark.label else []},
        **({"meta": {"text": [mark.note]}} if mark.note else {}),
    }


def _parsed(data: bytes) -> list[Any]:
    try:
        found = json.loads(decode_text(data), parse_constant=_no_constant)
    except (ValueError, RecursionError) as error:  # digits without end are a ValueError, too
        raise BadFile("this is no JSON that can be read", _HINT) from error
    return found if isinstance(found, list) else [found]


def _no_constant(name: str) -> float:
    raise BadFile(f"the file holds {name}", "times are finite numbers of seconds")


def _marks(result: Mapping[str, Any], where: str, grid: SampleGrid) -> Iterator[tuple[str, AnnotationMark]]:
    value = _map(result.get("value", {}))
    if result.get("type") == "paragraphlabels":
        raise BadFile("the task labels paragraphs of a text", "only regions of a sound are supported")
    if "start" not in value or "end" not in value or result.get("type") == "textarea":
        return
    if not (is_number(value["start"]) and is_number(value["end"])):
        raise BadFile(f"{where}: its times are no finite numbers", "start and end are seconds")
    start, end = (grid.sample(float(value[edge]), where) for edge in ("start", "end"))
    note = "\n".join(_text(one, where) for one in _list(_map(result.get("meta", {})).get("text", [])))
    labels = _list(value.get("labels", value.get("choices", [])))
    for label in labels or [""]:
        yield (
            _text(result.get("from_name", ""), where) or "labels",
            AnnotationMark(start, end, _text(label, where), note),
        )


def _layers(given: list[Any]) -> tuple[dict[str, Kind], dict[str, tuple[str, ...]]]:
    """Kinds and sets of labels by layer, as ``write`` left them."""
    kinds: dict[str, Kind] = {}
    labels: dict[str, tuple[str, ...]] = {}
    for one in map(_map, given):
        name, kind = one.get("name"), one.get("kind")
        if not isinstance(name, str) or kind not in ("regions", "points"):
            raise BadFile("the task's layers cannot be read", "leave data.layers out, or as it was written")
        kinds[name] = cast(Kind, kind)
        labels[name] = tuple(_text(label, "a label") for label in _list(one.get("labels", [])))
    return kinds, labels


def _only(found: list[Any], what: str) -> dict[str, Any]:
    if len(found) != 1:
        raise BadFile(f"the file holds {len(found):,} {what}", "give one with a single task of a single annotator")
    return _map(found[0])


def _map(value: Any) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise BadFile("this is no JSON of Label Studio", _HINT)
    return value


def _list(value: Any) -> list[Any]:
    if not isinstance(value, list):
        raise BadFile("this is no JSON of Label Studio", _HINT)
    return value


def _text(value: Any, where: str) -> str:
    if not isinstance(value, str):
        raise BadFile(f"{where}: a label is no text", _HINT)
    return unix_newlines(value)
