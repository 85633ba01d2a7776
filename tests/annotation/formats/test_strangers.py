"""Files of other programs are accepted; damaged, hostile or mismatched ones are refused without effect."""

import json
from typing import Any

import pytest

from studio.annotation.formats.registry import FORMATS
from studio.annotation.layers import Annotation
from studio.annotation.layers import AnnotationLayer as Layer
from studio.annotation.layers import AnnotationMark as Mark
from studio.core.errors import BadFile

RATE_HZ, SAMPLES = 24_000, 48_000


def read(name: str, data: bytes | str) -> Annotation:
    return FORMATS[name].read(data.encode() if isinstance(data, str) else data, RATE_HZ, SAMPLES)


def grid(intervals: str, size: int = 1, more: str = "") -> str:
    return f"""File type = "ooTextFile"
Object class = "TextGrid"

0
2
<exists>
1
"IntervalTier"
"words"
0
2
{size}
{intervals}
{more}"""


def eaf(annotations: str, slots: str = "", head: str = "", tier: str = "") -> str:
    return f"""<?xml version="1.0" encoding="UTF-8"?>{head}
<ANNOTATION_DOCUMENT AUTHOR="" DATE="2024-01-01T00:00:00+00:00" FORMAT="2.8" VERSION="2.8">
<HEADER MEDIA_FILE="" TIME_UNITS="milliseconds"/>
<TIME_ORDER><TIME_SLOT TIME_SLOT_ID="ts1" TIME_VALUE="100"/><TIME_SLOT TIME_SLOT_ID="ts2" TIME_VALUE="250"/>{slots}
</TIME_ORDER><TIER TIER_ID="words" LINGUISTIC_TYPE_REF="utterance">{annotations}</TIER>{tier}
<LINGUISTIC_TYPE LINGUISTIC_TYPE_ID="utterance" TIME_ALIGNABLE="true"/></ANNOTATION_DOCUMENT>"""


def aligned(start: str = "ts1", end: str = "ts2", value: str = "hello") -> str:
    return (
        f'<ANNOTATION><ALIGNABLE_ANNOTATION ANNOTATION_ID="a1" TIME_SLOT_REF1="{start}" TIME_SLOT_REF2="{end}">'
        f"<ANNOTATION_VALUE>{value}</ANNOTATION_VALUE></ALIGNABLE_ANNOTATION></ANNOTATION>"
    )


def label_studio(result: list[Any], **task: Any) -> str:
    return json.dumps([{"id": 7, "data": {"audio": "/x.wav"}, "annotations": [{"result": result}], **task}])


def region(start: Any, end: Any, *labels: str) -> dict[str, Any]:
    value = {"start": start, "end": end, "channel": 0, "labels": list(labels)}
    return {"id": "x", "from_name": "label", "to_name": "audio", "type": "labels", "value": value}


def test_long_and_short_textgrids_in_either_byte_order_are_read() -> None:
    short = grid('0\n0.5\n"one"\n0.5\n2\n""', size=2)
    given = Annotation(RATE_HZ, SAMPLES, (Layer("words", marks=(Mark(0, 12_000, "one"),)),))
    long = FORMATS["textgrid"].write(given).decode()
    for text in (short, long, long.replace("\n", "\r\n"), short.replace("ooTextFile", "ooTextFile short")):
        for encoding in ("utf-8", "utf-8-sig", "utf-16"):
            assert read("textgrid", text.encode(encoding)) == given
        assert read("textgrid", b"\xfe\xff" + text.encode("utf-16-be")) == given


def test_exponent_and_comment_in_a_textgrid_are_read_as_by_praat() -> None:
    found = read("textgrid", grid('0 1e-1 "a!b" ! "no label"\n1e-1 2 ""', size=2))
    assert found.layers[0].marks == (Mark(0, 2400, "a!b"),)


def test_foreign_tiers_that_resemble_overlap_tiers_stay_layers() -> None:
    tiers = [("words (2)", "a"), ("words (notes)", "b"), ("x", "c"), ("x", "d"), ("", "e")]
    body = "".join(f'"IntervalTier" "{name}" 0 2 1 0 1 "{text}"\n' for name, text in tiers)
    text = grid("").split('"IntervalTier"')[0].replace("<exists>\n1", "<exists>\n5") + body
    found = read("textgrid", text)
    assert {one.name: one.marks[0].label for one in found.layers} == {
        "words (2)": "a", "words (notes)": "b", "x": "c", "x 2": "d", "tier 5": "e",
    }  # fmt: skip


def test_audacity_points_regions_and_frequency_lines() -> None:
    text = "0.5\t1.0\ta click\n\\\t200.0\t4000.0\n1.5\t1.5\tseam\n\n0,25\t0,5\n"
    found = read("audacity", text.replace("\n", "\r\n"))
    assert [(one.name, one.kind) for one in found.layers] == [("labels", "regions"), ("points", "points")]
    assert found.layers[0].marks == (Mark(6000, 12_000, ""), Mark(12_000, 24_000, "a click"))
    assert found.layers[1].marks == (Mark(36_000, 36_000, "seam"),)


def test_label_studio_task_with_other_results() -> None:
    note = region(0.5, 1.0, "Click") | {"meta": {"text": ["first", "second"]}}
    rating = {"from_name": "mos", "type": "rating", "value": {"rating": 4}}
    said = {"from_name": "said", "type": "textarea", "value": {"start": 0.5, "end": 1.0, "text": ["hello"]}}
    found = read("labelstudio", label_studio([note, rating, said, region(1.5, 1.5, "Seam"), region(0, 0.5, "A", "B")]))
    assert [(one.name, one.kind, one.marks) for one in found.layers] == [
        ("label points", "points", (Mark(36_000, 36_000, "Seam"),)),
        (
            "label",
            "regions",
            (Mark(0, 12_000, "A"), Mark(0, 12_000, "B"), Mark(12_000, 24_000, "Click", "first\nsecond")),
        ),
        ("said", "regions", (Mark(12_000, 24_000, "hello"),)),
    ]


def test_elan_dependent_tier_has_its_parents_times() -> None:
    tier = (
        '<TIER TIER_ID="gloss" LINGUISTIC_TYPE_REF="utterance" PARENT_REF="words"><ANNOTATION>'
        '<REF_ANNOTATION ANNOTATION_ID="a2" ANNOTATION_REF="a1"><ANNOTATION_VALUE>ja</ANNOTATION_VALUE>'
        "</REF_ANNOTATION></ANNOTATION></TIER>"
    )
    found = read("eaf", eaf(aligned(), tier=tier))
    assert [(one.name, one.marks) for one in found.layers] == [
        ("words", (Mark(2400, 6000, "hello"),)),
        ("gloss", (Mark(2400, 6000, "ja"),)),
    ]


def test_elan_slots_without_a_time_at_the_edges_lie_between_the_ends_of_the_sound() -> None:
    found = read("eaf", eaf(aligned(end="ts3"), slots='<TIME_SLOT TIME_SLOT_ID="ts3"/>'))
    assert found.layers[0].marks == (Mark(2400, 24_000 * 1125 // 1000, "hello"),)  # halfway from 250 to 2000 ms
    first = eaf(aligned(start="ts0")).replace("<TIME_ORDER>", '<TIME_ORDER><TIME_SLOT TIME_SLOT_ID="ts0"/>')
    assert read("eaf", first).layers[0].marks == (Mark(1200, 6000, "hello"),)


def test_label_studio_before_1_0_calls_annotations_completions() -> None:
    written = label_studio([region(0.5, 1.0, "Click")])
    assert read("labelstudio", written.replace("annotations", "completions")) == read("labelstudio", written)


def test_table_with_only_seconds_or_semicolons_is_read() -> None:
    found = read("csv", "start_s,label\n0.5,seam\n1,click\n")
    assert found.layers == (
        Layer("marks", "points", (), (Mark(12_000, 12_000, "seam"), Mark(24_000, 24_000, "click"))),
    )
    found = read("csv", "layer;start_s;end_s;label\r\nw;0,5;1;'tis\r\n")
    assert found.layers == (Layer("w", "regions", (), (Mark(12_000, 24_000, "'tis"),)),)


BAD_GRIDS = {
    "before the sound": grid('-0.5 0.5 "a"'),
    "the sound ends at 2.000 s": grid('1.5 2.5 "a"'),
    "finite numbers of seconds": grid('0 nan "a"'),
    "holds the time inf": grid('0 inf "a"'),
    "holds the time 1e400": grid('0 1e400 "a"'),
    "ends after it begins": grid('1 0.5 "a"'),
    "where a number should be": grid('0 "a"'),
    "ends early": grid('0 1 "a"', size=2),
    "more than 100,000": grid('0 1 "a"', size=10**9),
    "says that it holds -1 parts": grid('0 1 "a"', size=-1),
    "where a text should be": grid('0 1 "a'),
    "of the class": grid("").replace("IntervalTier", "Bomb"),
    "this is no TextGrid": grid("").replace('"TextGrid"', '"PitchTier"'),
    "control character": grid('0 1 "a\x07b"'),
    "at most 4000 are allowed": grid(f'0 1 "{"a" * 4001}"'),
    "has 501 tiers": grid("").replace("<exists>\n1", "<exists>\n501"),
}


@pytest.mark.parametrize("why", BAD_GRIDS)
def test_bad_textgrids_are_refused(why: str) -> None:
    with pytest.raises(BadFile, match=why):
        read("textgrid", BAD_GRIDS[why])


def test_binary_and_damaged_textgrids_are_refused() -> None:
    with pytest.raises(BadFile, match="is a binary file"):
        read("textgrid", b"ooBinaryFile\x08TextGrid\0\0")
    with pytest.raises(BadFile, match="is UTF-8, but not at byte"):
        read("textgrid", grid('0 1 "äöü"').encode() + b"\xff")


@pytest.mark.parametrize("name", sorted(FORMATS))
@pytest.mark.parametrize(
    "data", [b"", b"\0" * 100, b"\xff\xfe\x00", b"not such a file", b"{}", b"[]", b"<a/>", b'"' * 99]
)
def test_unknown_format_is_refused(name: str, data: bytes) -> None:
    if (name, data) == ("audacity", b""):
        assert read(name, data).layers == (Layer("labels"),)  # an empty track
        return
    with pytest.raises(BadFile):
        read(name, data)


@pytest.mark.parametrize("name", sorted(FORMATS))
def test_fifty_megabytes_are_refused_unread(name: str) -> None:
    with pytest.raises(BadFile, match="at most 16,000,000"):
        read(name, b"0\t1\ta\n" * 8_000_000)


BAD_TABLES = {
    "before the sound": "layer,start_s\nw,-1\n",
    "the sound ends at": "layer,start_sample\nw,48100\n",
    "is not a number": "layer,start_s\nw,nan\n",
    "finite numbers": "layer,start_s\nw,1e400\n",
    "whole numbers": "layer,start_sample\nw,1.5\n",
    "NUL": "layer,start_s\nw\0,1\n",
    "of regions or of points": "layer,kind,start_s\nw,areas,1\n",
    "not within the sound": "layer,start_s,end_s\nw,1,0.5\n",
    "no column start_sample": "a,b\n1,2\n",
    "line 2 of the table is not CSV": 'layer,start_s\n"w"x,1\n',
    "field larger than": "layer,start_s\n" + "w" * 200_000 + ",1\n",
}


@pytest.mark.parametrize("why", BAD_TABLES)
def test_bad_tables_are_refused(why: str) -> None:
    with pytest.raises(BadFile, match=why):
        read("csv", BAD_TABLES[why])


BAD_TASKS = {
    "before the sound": label_studio([region(-1, 1)]),
    "the sound ends at": label_studio([region(0, 3)]),
    "holds NaN": label_studio([region(0, float("nan"))]),
    "holds Infinity": label_studio([region(0, float("inf"))]),
    "no finite numbers": label_studio([region(0, 12345)]).replace("12345", "1e400"),
    "are no finite": label_studio([region("p0", "p1")]),
    "no JSON that can be read": "[" * 100_000,
    "can be read": label_studio([region(0, 12345)]).replace("12345", "1" * 5000),
    "paragraphs of a text": label_studio([region("0", "1") | {"type": "paragraphlabels"}]),
    "no task": "[]",
    "a label is no text": label_studio([region(0, 1) | {"value": {"start": 0, "end": 1, "labels": [{}]}}]),
    "data.layers": label_studio([], data={"layers": [{"name": 3}]}),
}


@pytest.mark.parametrize("why", BAD_TASKS)
def test_bad_tasks_are_refused(why: str) -> None:
    with pytest.raises(BadFile, match=why):
        read("labelstudio", BAD_TASKS[why])


LAUGHS = '<!DOCTYPE lolz [<!ENTITY a "ha"><!ENTITY b "&a;&a;&a;">]>'
BAD_EAFS = {
    "document type": eaf(aligned(value="&b;"), head=LAUGHS),
    "declares": eaf(aligned(value="&x;"), head='<!DOCTYPE x [<!ENTITY x SYSTEM "file:///etc/passwd">]>'),
    "nested too deeply": "<a>" * 1000 + "</a>" * 1000,
    "this is html, not an EAF": "<html/>",
    "no XML": "<a><b></a>",
    "a1 has no time": eaf(aligned(end="nowhere")),
    "before the sound": eaf(aligned(start="ts3"), slots='<TIME_SLOT TIME_SLOT_ID="ts3" TIME_VALUE="-5"/>'),
    "the sound ends at": eaf(aligned(end="ts3"), slots='<TIME_SLOT TIME_SLOT_ID="ts3" TIME_VALUE="9000"/>'),
    "finite": eaf(aligned(end="ts3"), slots='<TIME_SLOT TIME_SLOT_ID="ts3" TIME_VALUE="1e400"/>'),
    "is not a number": eaf(aligned(end="ts3"), slots='<TIME_SLOT TIME_SLOT_ID="ts3" TIME_VALUE="NaN"/>'),
    "ends before it begins": eaf(aligned(start="ts2", end="ts1")),
    "has no TIME_SLOT_REF2": eaf(aligned().replace("TIME_SLOT_REF2", "REF")),
    "the annotation a1 has no time": eaf(
        '<ANNOTATION><REF_ANNOTATION ANNOTATION_ID="a1" ANNOTATION_REF="a1">'
        "<ANNOTATION_VALUE/></REF_ANNOTATION></ANNOTATION>"
    ),
    "not in milliseconds": eaf(aligned()).replace('"milliseconds"', '"frames"'),
    "name is empty": eaf(aligned(), tier='<TIER TIER_ID=" "/>'),
}


@pytest.mark.parametrize("why", BAD_EAFS)
def test_bad_eafs_are_refused(why: str) -> None:
    with pytest.raises(BadFile, match=why):
        read("eaf", BAD_EAFS[why])


def test_million_elements_are_refused() -> None:
    with pytest.raises(BadFile, match="too many parts"):
        read("eaf", "<a>" + "<b/>" * 1_000_000 + "</a>")
