"""Label Studio's JSON: one task with its audio regions, exact to the sample, without loss.

A layer is a ``from_name``, a point a region without length, a note the region's ``meta.text``. The task's data lists
the layers with kinds and label sets; Label Studio preserves it. The exports JSON and JSON_MIN can be read, also with
several tasks and annotators, which get separate layers.
"""

import json
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import PurePosixPath
from typing import Any, cast

from studio.annotation.formats.tiers import SampleGrid, check_count, text_of, unix_newlines
from studio.annotation.layers import MAX_NAME, Annotation, AnnotationLayer, AnnotationMark, Kind
from studio.core.checks import is_number
from studio.core.errors import BadFile
from studio.core.sound_files import SUFFIXES

MAX_LISTS, MAX_VALUES = 150_000, 1_000_000  # lists and objects; values separated by commas
_OURS = "layers"
_HINT = "export it from Label Studio as JSON"
_LABELS = ("labels", "timelinelabels", "choices")
_MIN_KEYS = frozenset({"id", "annotator", "annotation_id", "created_at", "updated_at", "lead_time"})
_SAME_LENGTH_S = 0.01


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


@dataclass(frozen=True)
class _Part:
    """One annotation of a task: the task's data, the annotator and the results."""

    data: dict[str, Any]
    audio: str
    annotator: str
    results: list[dict[str, Any]]


def read(data: bytes, rate_hz: int, samples: int) -> Annotation:
    """Every audio region, and the transcripts of regions as a separate layer; results without a time are skipped.

    Of several tasks, those whose length differs from the sound's are skipped. Layers of several annotators are called
    ``label by 1``, those of several sounds of one length ``label, x.wav``.

    Raises BadFile: it is no such JSON, none of several tasks fits the sound, or a time is outside it.
    """
    grid = SampleGrid(rate_hz, samples)
    parts = [part for task in _parsed(data) for part in _parts(_map(task))]
    if not parts:
        raise BadFile("the file holds no task", _HINT)
    if len({part.audio for part in parts}) > 1:
        parts = _of_this_sound(parts, grid)
    has_sounds = len({part.audio for part in parts}) > 1
    per_sound = Counter(part.audio for part in parts)
    layers: list[AnnotationLayer] = []
    for part in parts:
        by = f" by {part.annotator}" if per_sound[part.audio] > 1 else ""
        of = f", {part.audio}" if has_sounds else ""
        for layer in _layers_of(part, grid):
            name = layer.name[: MAX_NAME - len(by + of)] + by + of if by or of else layer.name
            layers.append(replace(layer, name=_unused(name, layers) if by or of else name))
    return grid.annotation(layers)


def _layers_of(part: _Part, grid: SampleGrid) -> Iterator[AnnotationLayer]:
    kinds, labels = _layers(_list(part.data.get(_OURS, [])))
    marks: dict[str, list[AnnotationMark]] = {name: [] for name in kinds}
    for at, result in enumerate(part.results, 1):
        for name, mark in _marks(result, f"region {at}", grid):
            marks.setdefault(name, []).append(mark)
    for name, mine in marks.items():
        points = [one for one in mine if one.start_sample == one.end_sample]
        kind: Kind = kinds.get(name) or ("points" if len(points) == len(mine) else "regions")
        if kind == "regions" and points:  # two kinds under one name: the points get a separate layer
            yield AnnotationLayer(f"{name} points", "points", marks=tuple(points))
            mine = [one for one in mine if one.start_sample < one.end_sample]
        yield AnnotationLayer(name, kind, labels.get(name, ()), tuple(mine))


def _parts(task: dict[str, Any]) -> Iterator[_Part]:
    """The annotations of a task that were not cancelled; an object of JSON_MIN is one annotation."""
    about = task.get("data")
    key = "annotations" if "annotations" in task else "completions"  # completions: before Label Studio 1.0
    if key not in task and about is None:
        audio = next((one for one in task.values() if isinstance(one, str) and _is_sound(one)), "")
        results = list(_min_results(task))
        if not results and not _MIN_KEYS & task.keys():
            raise BadFile("this is no JSON of Label Studio", _HINT)
        yield _Part({}, _file_name(audio), _annotator(task.get("annotator")), results)
        return
    data = about if isinstance(about, dict) else {}
    audio = _file_name(next((one for one in data.values() if isinstance(one, str) and _is_sound(one)), ""))
    annotations = [one for one in map(_map, _list(task.get(key))) if not one.get("was_cancelled")]
    if not _list(task.get(key)):  # not annotated yet: a model's predictions
        annotations = [
            one | {"completed_by": one.get("model_version")} for one in map(_map, _list(task.get("predictions", [])))
        ]
    for one in annotations:
        results = [_map(result) for result in _list(one.get("result", []))]
        yield _Part(data, audio, _annotator(one.get("completed_by")), list(_with_times(results)))
    if not annotations:
        yield _Part(data, audio, "", [])


def _min_results(task: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    """Regions of JSON_MIN as results. Transcripts without times are those of the regions, in order.

    The task's data precede the key ``id``, the results follow it.
    """
    timed: dict[str, list[dict[str, Any]]] = {}
    transcripts: dict[str, list[str]] = {}
    is_result = "id" not in task
    for name, value in task.items():
        is_result = is_result or name == "id"
        many = value if isinstance(value, list) else [value] if "id" in task else []
        if timed_regions := [one for one in many if isinstance(one, dict) and "start" in one]:
            timed[name] = timed_regions
        elif is_result and name not in _MIN_KEYS and many and all(isinstance(one, str) for one in many):
            transcripts[name] = many
    for name, regions in timed.items():
        yield from ({"from_name": name, "type": "labels", "value": one} for one in regions)
    regions = next(iter(timed.values()), [])
    for name, texts in transcripts.items():
        if len(texts) == len(regions):
            for region, text in zip(regions, texts, strict=True):
                times = {edge: region.get(edge) for edge in ("start", "end")}
                yield {"from_name": name, "type": "textarea", "value": {**times, "text": [text]}}


def _with_times(results: list[dict[str, Any]]) -> Iterator[dict[str, Any]]:
    """The results, each with the times of the region that has its id."""
    regions = {
        str(one["id"]): one["value"]
        for one in results
        if "id" in one and isinstance(one.get("value"), dict) and "start" in one["value"] and "end" in one["value"]
    }
    for one in results:
        region = regions.get(str(one.get("id")), {})
        times = {edge: region[edge] for edge in ("start", "end") if edge in region}
        yield {**one, "value": times | _map(one.get("value", {}))}


def _of_this_sound(parts: list[_Part], grid: SampleGrid) -> list[_Part]:
    """The parts whose sound is as long as this one, or of unknown length. Raises BadFile if there are none."""
    length_s = grid.samples / grid.rate_hz

    def fits(part: _Part) -> bool:
        numbers = [one.get("original_length", one["value"].get("original_length")) for one in part.results]
        lengths = [float(one) for one in numbers if one is not None and is_number(one)]
        ends = [end for one in part.results if is_number(end := one["value"].get("end"))]
        is_long = all(end <= length_s + grid.grace_s for end in ends)
        return bool(part.results) and is_long and all(abs(one - length_s) <= _SAME_LENGTH_S for one in lengths)

    if fitting := [part for part in parts if fits(part)]:
        return fitting
    names = ", ".join(sorted({part.audio for part in parts}))
    raise BadFile(
        f"the file holds tasks of several sounds ({names[:200]}), and none is as long as this one ({length_s:.3f} s)",
        "export the task of this sound",
    )


def _is_sound(url: str) -> bool:
    return PurePosixPath(url.partition("?")[0]).suffix.lower() in SUFFIXES


def _file_name(url: str) -> str:
    return PurePosixPath(url.partition("?")[0]).name[-30:]


def _annotator(user: Any) -> str:
    """A number, or the e-mail address or id of a user."""
    if isinstance(user, dict):
        user = user.get("email") or user.get("id")
    return " ".join(str(user).split())[:30] if user is not None else "someone"


def _unused(name: str, among: list[AnnotationLayer]) -> str:
    names = {one.name for one in among}
    return next(one for one in (name, *(f"{name}, {k}" for k in range(2, len(names) + 3))) if one not in names)


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
    text = text_of(data)
    check_count(text, "[{", MAX_LISTS, "lists and objects")
    check_count(text, ",", MAX_VALUES, "values")
    try:
        tasks = json.loads(text, parse_constant=_no_constant)
    except (ValueError, RecursionError) as error:  # a number with too many digits is a ValueError, too
        raise BadFile("this is no JSON that can be read", _HINT) from error
    return tasks if isinstance(tasks, list) else [tasks]


def _no_constant(name: str) -> float:
    raise BadFile(f"the file holds {name}", "times are finite numbers of seconds")


def _marks(result: Mapping[str, Any], where: str, grid: SampleGrid) -> Iterator[tuple[str, AnnotationMark]]:
    value = _map(result.get("value", {}))
    if result.get("type") == "paragraphlabels":
        raise BadFile("the task labels paragraphs of a text", "only regions of a sound are supported")
    if "start" not in value or "end" not in value:
        return
    if not (is_number(value["start"]) and is_number(value["end"])):
        raise BadFile(f"{where}: its times are no finite numbers", "start and end are seconds")
    start, end = (grid.sample(float(value[edge]), where) for edge in ("start", "end"))
    note = "\n".join(_text(one, where) for one in _list(_map(result.get("meta", {})).get("text", [])))
    if "text" in value:
        text = value["text"]
        labels = ["\n".join(_text(one, where) for one in (text if isinstance(text, list) else [text]))]
    else:
        labels = next((_list(value[key]) for key in _LABELS if key in value), [])
        labels = labels or [str(value[key]) for key in ("rating", "number") if is_number(value.get(key))]
    for label in labels or [""]:
        yield (
            _text(result.get("from_name", ""), where) or "labels",
            AnnotationMark(start, end, _text(label, where), note),
        )


def _layers(entries: list[Any]) -> tuple[dict[str, Kind], dict[str, tuple[str, ...]]]:
    """Kinds and sets of labels by layer, as ``write`` left them."""
    kinds: dict[str, Kind] = {}
    labels: dict[str, tuple[str, ...]] = {}
    for one in map(_map, entries):
        name, kind = one.get("name"), one.get("kind")
        if not isinstance(name, str) or kind not in ("regions", "points"):
            raise BadFile("the task's layers cannot be read", "leave data.layers out, or as it was written")
        kinds[name] = cast(Kind, kind)
        labels[name] = tuple(_text(label, "a label") for label in _list(one.get("labels", [])))
    return kinds, labels


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
