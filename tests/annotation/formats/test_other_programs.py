"""What ELAN, Praat, Label Studio and Excel write, read as they show it."""

import json
from typing import Any

import pytest

from studio.annotation.formats.registry import FORMATS
from studio.annotation.layers import AnnotationLayer
from studio.core.errors import BadFile

RATE_HZ, SAMPLES = 16_000, 32_000


def layers(name: str, data: bytes | str) -> tuple[AnnotationLayer, ...]:
    return FORMATS[name].read(data.encode() if isinstance(data, str) else data, RATE_HZ, SAMPLES).layers


def marks(layer: AnnotationLayer) -> list[tuple[float, float, str]]:
    return [(one.start_sample / RATE_HZ, one.end_sample / RATE_HZ, one.label) for one in layer.marks]


def eaf(slots: dict[str, int | None], *tiers: str, media: str = "") -> str:
    times = "".join(
        f'<TIME_SLOT TIME_SLOT_ID="{name}"' + ("/>" if at is None else f' TIME_VALUE="{at}"/>')
        for name, at in slots.items()
    )
    types = "".join(
        f'<LINGUISTIC_TYPE LINGUISTIC_TYPE_ID="{name}" CONSTRAINTS="{kind}"/>'
        for name, kind in (("r", "Symbolic_Association"), ("s", "Symbolic_Subdivision"), ("t", "Time_Subdivision"))
    )
    return (
        f'<ANNOTATION_DOCUMENT><HEADER TIME_UNITS="milliseconds">{media}</HEADER><TIME_ORDER>{times}</TIME_ORDER>'
        f'{"".join(tiers)}<LINGUISTIC_TYPE LINGUISTIC_TYPE_ID="d"/>{types}</ANNOTATION_DOCUMENT>'
    )


def tier(name: str, type_: str, *annotations: str) -> str:
    inside = "".join(f"<ANNOTATION>{one}</ANNOTATION>" for one in annotations)
    return f'<TIER TIER_ID="{name}" LINGUISTIC_TYPE_REF="{type_}">{inside}</TIER>'


def aligned(name: str, start: str, end: str) -> str:
    return (
        f'<ALIGNABLE_ANNOTATION ANNOTATION_ID="{name}" TIME_SLOT_REF1="{start}" TIME_SLOT_REF2="{end}">'
        f"<ANNOTATION_VALUE>{name}</ANNOTATION_VALUE></ALIGNABLE_ANNOTATION>"
    )


def child(name: str, parent: str, previous: str = "") -> str:
    after = f' PREVIOUS_ANNOTATION="{previous}"' if previous else ""
    return (
        f'<REF_ANNOTATION ANNOTATION_ID="{name}" ANNOTATION_REF="{parent}"{after}>'
        f"<ANNOTATION_VALUE>{name}</ANNOTATION_VALUE></REF_ANNOTATION>"
    )


ENDS = {"ts1": 0, "ts2": 500, "ts3": 500, "ts4": 1500}
WORDS = tier("words", "d", aligned("hello", "ts1", "ts2"), aligned("world", "ts3", "ts4"))


def test_symbolic_subdivisions_share_their_parent_evenly() -> None:
    parts = tier("morph", "s", child("lo", "hello", "hel"), child("w", "world"), child("hel", "hello"))
    deeper = tier("phones", "s", child("l", "lo"), child("o", "lo", "l"), child("h", "hel"))
    gloss = tier("gloss", "r", child("hallo", "hello"))
    _, morph, phones, glosses = layers("eaf", eaf(ENDS, WORDS, parts, deeper, gloss))
    assert marks(morph) == [(0.0, 0.25, "hel"), (0.25, 0.5, "lo"), (0.5, 1.5, "w")]
    assert marks(phones) == [(0.0, 0.25, "h"), (0.25, 0.375, "l"), (0.375, 0.5, "o")]
    assert marks(glosses) == [(0.0, 0.5, "hallo")]


def test_slots_without_a_time_lie_evenly_between_their_neighbours() -> None:
    slots = {"ts1": 0, "u1": None, "u2": None, "ts4": 1500}
    words = tier("words", "d", aligned("a", "ts1", "ts4"))
    parts = tier("parts", "t", aligned("p", "ts1", "u1"), aligned("q", "u1", "u2"), aligned("r", "u2", "ts4"))
    assert marks(layers("eaf", eaf(slots, words, parts))[1]) == [(0.0, 0.5, "p"), (0.5, 1.0, "q"), (1.0, 1.5, "r")]
    alone = tier("words", "d", aligned("a", "ts1", "u1"), aligned("b", "u2", "ts4"))
    assert marks(layers("eaf", eaf(slots, alone))[0]) == [(0.0, 0.5, "a"), (1.0, 1.5, "b")]


def test_time_origin_of_the_sound_shifts_all_marks() -> None:
    video = '<MEDIA_DESCRIPTOR MEDIA_URL="x.mp4" MIME_TYPE="video/mp4" TIME_ORIGIN="9000"/>'
    sound = '<MEDIA_DESCRIPTOR MEDIA_URL="x.wav" MIME_TYPE="audio/x-wav" TIME_ORIGIN="300"/>'
    parts = tier("morph", "s", child("hel", "hello"), child("lo", "hello", "hel"))
    words, morph = layers("eaf", eaf(ENDS, WORDS, parts, media=video + sound))
    assert marks(words) == [(0.3, 0.8, "hello"), (0.8, 1.8, "world")]
    assert marks(morph) == [(0.3, 0.55, "hel"), (0.55, 0.8, "lo")]


def test_annotations_that_depend_on_each_other_are_refused() -> None:
    with pytest.raises(BadFile, match="has no time"):
        layers("eaf", eaf(ENDS, tier("x", "s", child("a", "b", "b"), child("b", "a", "a"))))
    with pytest.raises(BadFile, match="has no time"):
        layers("eaf", eaf({"u1": None, "u2": None}, tier("x", "d", aligned("a", "u1", "u2"), aligned("b", "u2", "u1"))))


def test_labels_hold_utterances() -> None:
    said = "A long sentence, said by somebody. " * 100
    long = eaf(ENDS, WORDS).replace(">hello<", f">{said}<")
    assert layers("eaf", long)[0].marks[0].label == said


LONG_GRID = """File type = "ooTextFile"
Object class = "TextGrid"

xmin = 0
xmax = 2
tiers? <exists>
size = 2
item []:
    item [1]:
        class = "IntervalTier"
        name = "words"
        xmin = 0
        xmax = 2
        intervals: size = 3
        intervals [1]:
            xmin = 0
            xmax = 0.5
            text = ""
        intervals [2]:
            xmin = 0.5
            xmax = 1
            text = "café"
        intervals [3]:
            xmin = 1
            xmax = 2
            text = ""
    item [2]:
        class = "TextTier"
        name = "bell"
        xmin = 0
        xmax = 2
        points: size = 1
        points [1]:
            number = 1.5
            mark = "ding"
"""
TIGHT_GRID = LONG_GRID.replace("    ", "").replace(" = ", "=").replace("? <", "?<")
CHRONOLOGICAL_GRID = """"Praat chronological TextGrid text file"
0 2   ! Time domain.
2   ! Number of tiers.
"IntervalTier" "words" 0 2
"TextTier" "bell" 0 2

1 0 0.5
""
1 0.5 1
"café"
1 1 2
""
2 1.5
"ding"
"""


@pytest.mark.parametrize("text", [LONG_GRID, TIGHT_GRID, CHRONOLOGICAL_GRID], ids=["long", "tight", "chronological"])
@pytest.mark.parametrize("encoding", ["utf-8", "latin-1", "utf-16", "utf-16-le", "utf-16-be"])
@pytest.mark.parametrize("line_end", ["\n", "\r\n", "\r"], ids=repr)
def test_textgrids_in_every_form_and_encoding(text: str, encoding: str, line_end: str) -> None:
    words, bell = layers("textgrid", text.replace("\n", line_end).encode(encoding))
    assert marks(words) == [(0.5, 1.0, "café")] and marks(bell) == [(1.5, 1.5, "ding")]


def test_damaged_chronological_textgrids_are_refused() -> None:
    for damaged in (CHRONOLOGICAL_GRID + '3 1.5 1.6 "x"\n', CHRONOLOGICAL_GRID + "1 1.5\n"):
        with pytest.raises(BadFile, match=r"of tier 3 of 2|ends early"):
            layers("textgrid", damaged)


@pytest.mark.parametrize(
    "text",
    [
        "sep=;\nlayer;kind;start_s;end_s;label\nw;regions;0.1;0.5;hi\n",
        "\n\nLayer\tKIND\tStart_s\tEnd_S\tLabel\nw\tregions\t0,1\t0,5\thi\n",
        " layer , kind , start_s , end_s , label \n w , regions , 0.1 , 0.5 , hi \n",
        "tmin\ttier\ttext\ttmax\n0.1\tw\thi\t0.5\n",
        "Tier;Begin;End;Annotation\nw;0,1;0,5;hi\n",
        "layer,Start (s),End (s),Label\nw,0.1,0.5,hi\n",
    ],
)
@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16", "utf-16-le"])
def test_tables_of_spreadsheets(text: str, encoding: str) -> None:
    assert [(one.name, one.kind, marks(one)) for one in layers("csv", text.encode(encoding))] == [
        ("w", "regions", [(0.1, 0.5, "hi")])
    ]


def test_too_many_rows_are_refused_early() -> None:
    with pytest.raises(BadFile, match="more than 20,000 marks"):
        layers("csv", "start_s,end_s\n" + "0.1,0.2\n" * 500_000)
    with pytest.raises(BadFile, match="more than 40,000 rows"):
        layers("csv", "layer,start_s\n" + "".join(f"w{i % 400},0.1\n" for i in range(200_000)))


def region(start: float, end: float, label: str, id_: str = "a", length_s: float = 2.0) -> dict[str, Any]:
    value = {"start": start, "end": end, "channel": 0, "labels": [label]}
    return {"id": id_, "from_name": "label", "type": "labels", "original_length": length_s, "value": value}


def task(name: str, *annotations: tuple[Any, list[dict[str, Any]]]) -> dict[str, Any]:
    many = [{"id": at, "completed_by": who, "result": result} for at, (who, result) in enumerate(annotations)]
    return {"id": 1, "data": {"audio": f"/data/upload/1/{name}"}, "annotations": many}


def named(*tasks: Any) -> dict[str, list[tuple[float, float, str]]]:
    return {one.name: marks(one) for one in layers("labelstudio", json.dumps(tasks))}


def test_transcript_of_a_region_is_a_layer() -> None:
    said = {
        "id": "a",
        "from_name": "said",
        "type": "textarea",
        "value": {"start": 0.1, "end": 0.5, "text": ["good", "day"]},
    }
    untimed = {"id": "b", "from_name": "said", "type": "textarea", "value": {"text": ["bye"]}}
    whole = {"id": "z", "from_name": "all", "type": "textarea", "value": {"text": ["of the whole sound"]}}
    found = named(task("x.wav", (1, [region(0.1, 0.5, "A"), said, region(1.0, 1.5, "B", "b"), untimed, whole])))
    assert found == {
        "label": [(0.1, 0.5, "A"), (1.0, 1.5, "B")],
        "said": [(0.1, 0.5, "good\nday"), (1.0, 1.5, "bye")],
    }


def test_annotators_get_layers_of_their_own() -> None:
    found = named(task("x.wav", (1, [region(0.1, 0.5, "A")]), ({"id": 7, "email": "b@c.de"}, [region(0.2, 0.6, "A")])))
    assert found == {"label by 1": [(0.1, 0.5, "A")], "label by b@c.de": [(0.2, 0.6, "A")]}
    again = named(task("x.wav", (1, [region(0.1, 0.5, "A")]), (1, [region(0.2, 0.6, "A")])))
    assert list(again) == ["label by 1", "label by 1, 2"]


def test_task_of_this_sound_is_taken() -> None:
    mine, other = task("x.wav", (1, [region(0.1, 0.5, "A")])), task("y.wav", (1, [region(5, 6, "B", length_s=9.0)]))
    assert named(other, mine) == {"label": [(0.1, 0.5, "A")]}
    twin = task("z.wav", (1, [region(0.2, 0.6, "C")]))
    assert named(mine, twin) == {"label, x.wav": [(0.1, 0.5, "A")], "label, z.wav": [(0.2, 0.6, "C")]}
    assert named(mine, task("x.wav", (2, [region(0.2, 0.6, "C")]))) == {
        "label by 1": [(0.1, 0.5, "A")],
        "label by 2": [(0.2, 0.6, "C")],
    }
    with pytest.raises(BadFile, match=r"several sounds \(y\.wav, z\.wav\), and none is as long"):
        named(other, task("z.wav", (1, [region(5, 6, "B", length_s=9.0)])))


def test_json_min_is_read() -> None:
    one = {"start": 0.1, "end": 0.5, "channel": 0, "labels": ["A"], "original_length": 2.0}
    two = {"start": 1.0, "end": 1.5, "channel": 0, "labels": ["B"], "original_length": 2.0}
    about = {"annotator": 1, "annotation_id": 3, "created_at": "2026", "updated_at": "2026", "lead_time": 1.5}
    data = {"audio": "/data/x.wav", "title": "a title", "id": 1}
    assert named({**data, "label": [one], "said": "good day", **about}) == {
        "label": [(0.1, 0.5, "A")],
        "said": [(0.1, 0.5, "good day")],
    }
    many = {**data, "label": [one, two], "said": ["x", "y"], "mood": "glad", **about}
    assert named(many)["said"] == [(0.1, 0.5, "x"), (1.0, 1.5, "y")] and "mood" not in named(many)
    assert list(named(many, {**data, "label": [two], **about, "annotator": 2})) == [
        "label by 1",
        "said by 1",
        "label by 2",
    ]
    timed = {**data, "label": [one], "said": [{"start": 0.1, "end": 0.5, "text": ["a", "b"]}], **about}
    assert named(timed)["said"] == [(0.1, 0.5, "a\nb")]


HELLO_WORLD = [(0.0, 0.5, "hello"), (0.5, 1.5, "world")]


@pytest.mark.parametrize(
    "text",
    [
        "0\t0.5\thello\n0.5\t1.5\tworld\n",
        "0,000000\t0,500000\thello\r\n0,500000\t1,500000\tworld",
        "0.0 0.5 hello\n0.5 1.5 world\n",  # copied, or of an aligner
        "0 5000000 hello\n5000000 15000000 world\n",  # HTK: 100 ns
        "start\tend\tlabel\n0\t0.5\thello\n0.5\t1.5\tworld\n",
        "\ufeff0\t0.5\thello\n\\\t100.0\t200.0\n0.5\t1.5\tworld\n",
    ],
)
def test_label_files_of_other_programs(text: str) -> None:
    assert marks(layers("audacity", text)[0]) == HELLO_WORLD


@pytest.mark.parametrize(
    "text",
    [
        "start_time,end_time,transcription\n0,0.5,hello\n0.5,1.5,world\n",
        "onset,duration,label\n0,0.5,hello\n0.5,1,world\n",
        "start_ms;end_ms;text\n0;500;hello\n500;1500;world\n",
        "start,end,text\n00:00:00.000,00:00:00.500,hello\n0:00.5,00:01.500,world\n",
        "Selection\tBegin Time (s)\tEnd Time (s)\tAnnotation\n1\t0\t0.5\thello\n2\t0.5\t1.5\tworld\n",  # Raven
        "Begin Time - ss.msec\tEnd Time - ss.msec\tAnnotation\n0\t0.5\thello\n0.5\t1.5\tworld\n",  # ELAN
        "Begin Time - msec\tDuration - msec\tAnnotation\n0\t500\thello\n500\t1000\tworld\n",
    ],
)
def test_tables_of_other_programs(text: str) -> None:
    assert marks(layers("csv", text)[0]) == HELLO_WORLD


def test_what_a_model_predicted_is_read_where_nobody_annotated() -> None:
    region = {"from_name": "label", "type": "labels", "value": {"start": 0, "end": 0.5, "labels": ["hello"]}}
    task = {"data": {"audio": "a.wav"}, "annotations": [], "predictions": [{"result": [region]}]}
    assert [(one.name, marks(one)) for one in layers("labelstudio", json.dumps([task]))] == [
        ("label", [(0.0, 0.5, "hello")])
    ]
    task["annotations"] = [{"result": []}]
    assert layers("labelstudio", json.dumps([task])) == ()


def test_decimal_commas_of_a_textgrid() -> None:
    text = '"ooTextFile"\n"TextGrid"\n0 2 <exists> 1\n"IntervalTier" "w" 0 2 2\n0 0,5 "hello"\n0,5 1,5 "world"\n'
    assert marks(layers("textgrid", text)[0]) == HELLO_WORLD


@pytest.mark.parametrize(
    "text",
    [
        "start,end,word,phone\n0,1,hi,\n0,0.5,,HH\n0.5,1,,AY\n",
        "Begin Time - ss.msec\tEnd Time - ss.msec\tDuration - ss.msec\tword\tphone\n"
        "0\t1\t1\thi\t\n0\t0.5\t0.5\t\tHH\n0.5\t1\t0.5\t\tAY\n",
        "start_s;end_s;word;Phone;confidence\n0;1;hi;;0,9\n0;0,5;;HH;0,8\n0,5;1;;AY;1\n",
        "Begin,End,Label,Type,Speaker\n0,1,hi,word,ann\n0,0.5,HH,phone,ann\n0.5,1,AY,phone,ann\n",
    ],
)
def test_each_column_of_labels_is_a_layer(text: str) -> None:
    words, phones = layers("csv", text)
    assert (words.name, phones.name.lower()) == ("word", "phone")
    assert marks(words) == [(0, 1, "hi")] and marks(phones) == [(0, 0.5, "HH"), (0.5, 1, "AY")]


def test_tables_without_labels_stay_one_layer() -> None:
    raven = "Selection\tView\tChannel\tBegin Time (s)\tEnd Time (s)\tLow Freq (Hz)\n1\tSpectrogram 1\t1\t0.5\t1\t200\n"
    [layer] = layers("csv", raven)
    assert (layer.name, marks(layer)) == ("marks", [(0.5, 1, "")])


def test_rows_with_an_empty_comment_are_marks() -> None:
    found = layers("csv", "start,end,comment\n0,0.5,good\n0.5,1,\n1,2,\n")
    assert sum(len(marks(layer)) for layer in found) == 3
