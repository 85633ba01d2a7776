"""Annotation routes: the owner annotates as anyone, a link's bearer as themselves within their assignment."""

import errno
import json
import os
from dataclasses import replace
from pathlib import Path
from typing import Any

import httpx
import numpy as np
import pytest
from inspection.spoken import RATE_HZ, pcm, story
from inspection.test_timeline import unpack
from serve.mos_serving import ServedTests

from studio.core import durable
from studio.core.clips import wav_bytes
from studio.core.events import Ready
from studio.core.traces.trace_writer import TraceWriter
from studio.inspection.opening import open_bytes
from studio.library import exchange
from studio.library.library import Library

LAYER = {"op": "put_layer", "layer": "l1", "was": 0, "name": "faults", "kind": "regions", "labels": ["click", "seam"]}
ASKED = [{"name": "faults", "kind": "regions", "labels": ["click"]}, {"name": "ends", "kind": "points", "labels": []}]


def mark(name: str, start: int, end: int, was: int = 0, layer: str = "l1", label: str = "click") -> dict[str, Any]:
    return {
        "op": "put_mark",
        "layer": layer,
        "mark": name,
        "was": was,
        "start": start,
        "end": end,
        "label": label,
        "note": "",
    }


class Desk:
    """A served studio with three library recordings, called as its pages do."""

    def __init__(self, folder: Path) -> None:
        self.served = ServedTests(folder)
        self.folder = folder
        library = Library(folder / "library")
        self.names = [library.add(wav_bytes(pcm(2 + n), RATE_HZ), f"text {n}", f"title {n}").name for n in range(3)]
        library.close()
        self.http = httpx.Client(base_url=self.served.url, timeout=30.0)

    def owner(self, path: str, **body: Any) -> httpx.Response:
        """GET by default."""
        if not body:
            return self.http.get(f"/library/{path}", headers=self.served.owner)
        return self.http.post(f"/library/{path}", json=body, headers=self.served.owner)

    def assign(self, *annotators: str, utterances: list[str] | None = None, **more: bool) -> dict[str, Any]:
        answer = self.owner(
            "assignments", title="Find clicks", task="Mark them.", layers=ASKED,
            utterances=utterances or self.names[:2], annotators=list(annotators), **more,
        )  # fmt: skip
        assert answer.status_code == 200, answer.text
        return answer.json()

    def edit(self, name: str, edit: str, *changes: dict[str, Any], annotator: str = "me") -> httpx.Response:
        return self.owner("annotations/edit", name=name, annotator=annotator, edit=edit, changes=list(changes))


class Bearer:
    """A client with an annotator's link."""

    def __init__(self, desk: Desk, link: str) -> None:
        page, _, token = link.partition("#")
        assert page == "annotate"
        self.http, self.headers = desk.http, {"Authorization": f"Bearer {token}"}

    def get(self, path: str) -> httpx.Response:
        return self.http.get(f"/annotation/{path}", headers=self.headers)

    def edit(self, number: int, edit: str, *changes: dict[str, Any]) -> httpx.Response:
        return self.http.post(
            f"/annotation/edit/{number}", json={"edit": edit, "changes": list(changes)}, headers=self.headers
        )


@pytest.fixture(scope="module")
def desk(tmp_path_factory: pytest.TempPathFactory) -> Any:
    found = Desk(tmp_path_factory.mktemp("desk"))
    yield found
    found.http.close()
    found.served.stop()


def said(answer: httpx.Response) -> tuple[int, str]:
    return answer.status_code, answer.json().get("code", "")


def test_owner_writes_and_reads_marks(desk: Desk) -> None:
    name = desk.names[2]
    assert desk.edit(name, "e1", LAYER, mark("m1", 0, 10)).json() == {"revision": 1}
    assert desk.edit(name, "e1", LAYER, mark("m1", 0, 10)).json() == {"revision": 1}, "a retry"
    assert desk.edit(name, "e2", mark("m1", 5, 10, was=1)).json() == {"revision": 2}
    assert said(desk.edit(name, "e3", mark("m1", 0, 10, was=1))) == (409, "changed_meanwhile")
    assert said(desk.edit(name, "e3", mark("m2", 0, 10**6))) == (422, "bad_option")
    assert said(desk.edit(name, "e3", {"op": "burn"})) == (422, "bad_option")
    assert said(desk.owner("annotations/edit", name=name, annotator="me", edit="e3", changes=[1])) == (
        422,
        "bad_message",
    )
    assert said(desk.edit("f" * 12, "e1", LAYER)) == (404, "bad_file")
    assert said(desk.edit(name, "e1", LAYER, annotator="")) == (422, "bad_option")
    document = desk.http.get(
        f"/library/annotations/by/{name}", params={"annotator": "me"}, headers=desk.served.owner
    ).json()
    assert document["layers"][0]["marks"] == [["m1", 2, 5, 10, "click", ""]]
    (listed,) = (one for one in desk.owner("entries").json()["entries"] if one["name"] == name)
    assert [(one["annotator"], one["marks"]) for one in listed["annotated"]] == [("me", 1)]
    assert desk.owner(f"annotations/of/{name}").json() == listed["annotated"]
    assert desk.owner("annotations/remove", name=name, annotator="me").status_code == 200
    assert desk.owner(f"annotations/of/{name}").json() == []


def test_link_opens_only_its_assignment(desk: Desk) -> None:
    made = desk.assign("Änne", "Bo")
    anne, bo = (Bearer(desk, one["link"]) for one in made["people"])
    first = anne.get("assignment").json()
    assert (first["title"], first["task"], first["annotator"]) == ("Find clicks", "Mark them.", "Änne")
    assert [(one["text"], one["marks"], one["is_done"]) for one in first["utterances"]] == [
        ("text 0", 0, False),
        ("text 1", 0, False),
    ]
    assert len(unpack(anne.get("view/1").content)[1]["pcm"]) == 3 * 600
    assert anne.get("prosody/1").status_code == 200
    for path in ("view/2", "prosody/2", "marks/2"):
        assert said(anne.get(path)) == (404, "bad_file")

    document = anne.get("marks/0").json()
    assert [(one["name"], one["kind"], one["labels"]) for one in document["layers"]] == [
        ("faults", "regions", ["click"]),
        ("ends", "points", []),
    ]
    assert anne.get("marks/0").json()["revision"] == document["revision"] == 1, "created once"
    layer = document["layers"][0]["id"]
    done = {"op": "done", "is_done": True}
    assert anne.edit(0, "e1", mark("m1", 0, 9, layer=layer, label="odd"), done).json() == {"revision": 2}
    assert bo.get("marks/0").json()["layers"][0]["marks"] == [], "one document each"
    assert said(bo.edit(0, "e1", mark("m1", 0, 9, was=2, layer=layer))) == (409, "changed_meanwhile")
    for change in (LAYER, {"op": "drop_layer", "layer": layer, "was": 2}):
        assert said(anne.edit(0, "e2", change)) == (403, "forbidden")
    assert said(anne.edit(2, "e2", done)) == (404, "bad_file")
    people = desk.owner(f"assignment/{made['id']}").json()["people"]
    assert [(one["annotator"], one["begun"], one["done"], one["marks"]) for one in people] == [
        ("Änne", 1, 1, 1),
        ("Bo", 0, 0, 0),
    ]
    assert made["id"] in [one["id"] for one in desk.owner("assignments").json()]
    assert desk.owner("assignments/remove", id=made["id"]).status_code == 200
    assert said(anne.get("assignment")) == (403, "forbidden"), "the link is revoked"
    left = [one["annotator"] for one in desk.owner(f"annotations/of/{desk.names[0]}").json()]
    assert left == ["Bo", "Änne"], "its marks stay"


NAMES = ("tiny-voice", "speaker-ada", "scheme", "speakstream", "title of a system", ".trace")


def test_blind_assignment_tells_nothing_of_the_system(desk: Desk, tmp_path: Path) -> None:
    """No response of the link has a key or a value of the trace but its sound and text; the owner may allow it."""
    ready, *events = story()
    assert isinstance(ready, Ready)
    writer = TraceWriter(tmp_path / "a", {"options": {"scheme": "S2"}})
    writer.write(replace(ready, voice="tiny-voice", speaker="speaker-ada"), *events)
    library = Library(desk.folder / "library")
    entry = library.add(writer.close().read_bytes(), title="title of a system")
    sound = open_bytes(library.read(entry)).pcm
    text = entry.text
    library.close()
    made = desk.assign("Fy", utterances=[entry.name])
    assert made["is_blind"]
    blind = Bearer(desk, made["people"][0]["link"])
    header, arrays = unpack(blind.get("view/0").content)
    assert np.array_equal(arrays["pcm"], sound) and header["timeline"]["text"].strip() == text
    assert [len(arrays[name]) for name in ("frames", "p_eos")] == [0, 0]
    line, facts = header["timeline"], header["facts"]
    assert (line["heard_by"], line["segments"], line["keys"], line["pauses"]) == ("recording", [], [], [])
    assert {word["start"] for word in line["words"]} == {None}, "a segment of one word ends where the word does"
    assert facts["about"] == {"source": "recording"} and facts["seams"] == []
    (listed,) = blind.get("assignment").json()["utterances"]
    assert listed == {
        "text": text, "title": "", "duration_ms": listed["duration_ms"], "is_gone": False, "marks": 0, "is_done": False
    }  # fmt: skip
    blind.edit(0, "e1", {"op": "done", "is_done": True})
    parts = [blind.get(path).content for path in ("assignment", "marks/0", "prosody/0")] + [json.dumps(header).encode()]
    for part in (*parts, *(str(blind.get(f"{one}/0").headers).encode() for one in ("view", "prosody", "marks"))):
        assert not [name for name in NAMES if name.encode() in part]

    open_ = Bearer(desk, desk.assign("Gy", utterances=[entry.name], is_blind=False)["people"][0]["link"])
    header, arrays = unpack(open_.get("view/0").content)
    assert header["facts"]["about"]["voice"] == "tiny-voice" and header["timeline"]["segments"]
    assert open_.get("assignment").json()["utterances"][0]["title"] == "title of a system"


def test_stored_assignment_without_the_mark_is_blind(desk: Desk) -> None:
    made = desk.assign("Hy", is_blind=False)
    path = desk.folder / "library" / "assignments" / f"{made['id']}.json"
    stored = json.loads(path.read_text())
    assert stored.pop("is_blind") is False
    path.write_text(json.dumps(stored))
    assert Bearer(desk, made["people"][0]["link"]).get("assignment").json()["is_blind"] is True


def test_link_is_no_owner_token_and_cannot_be_forged(desk: Desk) -> None:
    made = desk.assign("Änne", "Bo")
    anne = Bearer(desk, made["people"][0]["link"])
    for path in ("entries", "assignments", f"view/{desk.names[2]}", f"annotations/of/{desk.names[2]}"):
        answer = desk.http.get(f"/library/{path}", headers=anne.headers)
        assert said(answer) == (403, "forbidden")
    token = made["people"][0]["link"].partition("#")[2]
    assignment, number, mac = token.split(".")
    forged = [
        f"{assignment}.1.{mac}",
        f"{assignment}.0.{mac}x",
        f"{'0' * 16}.0.{mac}",
        f"{assignment}.{number}",
        "%00",
        "x",
    ]
    for bad in forged:
        assert said(Bearer(desk, f"annotate#{bad}").get("assignment"))[0] in (403, 429)
    assert anne.get("assignment").status_code == 200, "a caller with the right token is not limited"


def test_log_contains_no_link(desk: Desk, caplog: pytest.LogCaptureFixture, capfd: Any) -> None:
    made = desk.assign("Cy")
    token = made["people"][0]["link"].partition("#")[2]
    with caplog.at_level("DEBUG"):
        bearer = Bearer(desk, made["people"][0]["link"])
        bearer.get("assignment")
        bearer.edit(0, "e1", {"op": "burn"})
    out = capfd.readouterr()
    assert token not in caplog.text + out.out + out.err
    assert token.rpartition(".")[2] not in caplog.text + out.out + out.err


@pytest.mark.parametrize(
    "bad",
    [
        {"title": " "},
        {"title": "a\nb"},
        {"layers": []},
        {"layers": [ASKED[0], ASKED[0]]},
        {"layers": [{**ASKED[0], "labels": ["a", "a"]}]},
        {"layers": [{**ASKED[0], "kind": "clouds"}]},
        {"utterances": []},
        {"utterances": ["f" * 12]},
        {"annotators": []},
        {"annotators": ["a", "a"]},
        {"annotators": [" a"]},
        {"annotators": [f"a{n}" for n in range(33)]},
        {"task": "x" * 4001},
    ],
)
def test_invalid_assignment_is_refused(desk: Desk, bad: dict[str, Any]) -> None:
    before = len(desk.owner("assignments").json())
    whole = {"title": "a", "task": "", "layers": ASKED, "utterances": desk.names[:1], "annotators": ["a"]}
    assert desk.owner("assignments", **(whole | bad)).status_code in (404, 422)
    assert len(desk.owner("assignments").json()) == before


def test_deleted_utterance_is_reported(desk: Desk) -> None:
    library = Library(desk.folder / "library")
    gone = library.add(wav_bytes(pcm(7), RATE_HZ), "soon gone")
    made = desk.assign("Di", utterances=[gone.name, desk.names[0]])
    library.remove(gone)
    library.close()
    bearer = Bearer(desk, made["people"][0]["link"])
    assert [one["is_gone"] for one in bearer.get("assignment").json()["utterances"]] == [True, False]
    assert said(bearer.get("marks/0")) == (404, "bad_file")
    assert bearer.get("marks/1").status_code == 200


def test_import_export_and_agreement(desk: Desk) -> None:
    name = desk.names[1]
    for who in ("in", "out"):
        desk.edit(name, "e1", LAYER, mark("m1", 100, 500), mark("m2", 900, 1200, label="seam"), annotator=who)
    desk.edit(name, "e2", mark("m2", 901, 1200, was=1, label="click"), annotator="in")
    headers = desk.served.owner
    found = desk.http.get(f"/library/annotations/agreement/{name}", headers=headers).json()
    assert "faults" in found["layers"]
    wanted = {"layer": "faults", "collar_ms": 5}
    found = desk.http.get(f"/library/annotations/agreement/{name}", params=wanted, headers=headers).json()
    (pair,) = (one for one in found["pairs"] if {one["one"], one["other"]} == {"in", "out"})
    assert (pair["f1"]["value"], pair["matched"]) == (1.0, 2)
    assert found["alpha_marks"]["value"] < 1.0, "one label differs"
    for kind in ("textgrid", "csv", "eaf", "labelstudio", "audacity"):
        asked = {"annotator": "out", "format": kind}
        file = desk.http.get(f"/library/annotations/file/{name}", params=asked, headers=headers)
        assert file.status_code == 200 and "attachment" in file.headers["content-disposition"]
        about = {"X-Studio-Name": name, "X-Studio-Annotator": f"copy%20{kind}", "X-Studio-Format": kind}
        taken = desk.http.post("/library/annotations/import", content=file.content, headers=headers | about).json()
        assert taken["annotator"] == f"copy {kind}"
        (layer,) = taken["layers"]
        within = RATE_HZ // 1000 if kind == "eaf" else 0
        for got, (start, end, label) in zip(layer["marks"], [(100, 500, "click"), (900, 1200, "seam")], strict=True):
            assert abs(got[2] - start) <= within and abs(got[3] - end) <= within and got[4] == label
        again = desk.http.post("/library/annotations/import", content=file.content, headers=headers | about).json()
        assert len({one["name"] for one in again["layers"]}) == 2, "a used name gets a number"
    about = {"X-Studio-Name": name, "X-Studio-Annotator": "bad", "X-Studio-Format": "textgrid"}
    assert said(desk.http.post("/library/annotations/import", content=b"x", headers=headers | about)) == (
        422,
        "bad_message",
    )
    about["X-Studio-Format"] = "fire"
    assert said(desk.http.post("/library/annotations/import", content=b"x", headers=headers | about)) == (
        422,
        "bad_option",
    )
    bad = desk.http.get(f"/library/annotations/agreement/{name}", params={"layer": "nobody's"}, headers=headers)
    assert said(bad) == (422, "bad_option")


def test_utterances_are_read_in_the_trace_process(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    """When it is their turn: requests that wait for it hold no file in memory."""
    bearer = Bearer(desk, desk.assign("ann")["people"][0]["link"])
    for module in ("entries", "library"):
        monkeypatch.setattr(f"studio.library.{module}.read_bounded", None)  # here, not in the process
    for part in ("view", "prosody"):
        assert bearer.get(f"{part}/0").status_code == desk.owner(f"{part}/{desk.names[0]}").status_code == 200


def test_journals_are_compared_in_the_trace_process(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    name = desk.names[1]
    for who in ("early", "late"):
        desk.edit(name, "e1", LAYER, mark("m1", 100, 500), annotator=who)
    monkeypatch.setattr(exchange, "agreement", None)  # here, not in the process
    address = f"/library/annotations/agreement/{name}"
    found = desk.http.get(address, params={"layer": "faults"}, headers=desk.served.owner)
    assert found.status_code == 200 and found.json()["pairs"]
    monkeypatch.setattr("studio.serve.library.annotation.MAX_COMPARED_MARKS", 1)
    refused = desk.http.get(address, params={"layer": "faults"}, headers=desk.served.owner)
    assert said(refused) == (422, "bad_option") and "too many marks" in refused.json()["message"]


@pytest.mark.parametrize("error", [errno.ENOSPC, errno.EIO, errno.EDQUOT, errno.EROFS])
def test_failing_disk_is_a_retryable_503(desk: Desk, monkeypatch: pytest.MonkeyPatch, error: int) -> None:
    """Never a 404 or 422, which a page would treat as final; no server path is revealed."""
    name = desk.names[0]
    who = f"disk{error}"
    people = desk.assign(who)["people"]
    bearer = Bearer(desk, people[0]["link"])
    assert bearer.get("marks/0").status_code == 200

    def fails(*_: object) -> None:
        raise OSError(error, os.strerror(error), str(desk.folder))

    trace = wav_bytes(pcm(20) + np.int16(error), RATE_HZ)
    with monkeypatch.context() as patch:
        for function in ("append", "replace", "publish", "remove", "sync_folder"):
            patch.setattr(durable, function, fails)
        answers = [
            desk.edit(name, "e1", LAYER, annotator=f"{who} too"),
            bearer.edit(0, "e2", mark("m1", 1, 2, layer=bearer.get("marks/0").json()["layers"][0]["id"])),
            desk.owner("note", name=name, title="t", tags=[]),
            desk.owner("annotations/remove", name=name, annotator=who),
            desk.owner("assignments/remove", id=desk.owner("assignments").json()[0]["id"]),
            desk.http.post("/library/files", content=trace, headers=desk.served.owner),
        ]
        for answer in answers:
            assert answer.status_code == 503, answer.text
            assert answer.headers["Retry-After"] and str(desk.folder) not in answer.text
    assert desk.edit(name, "e1", LAYER, annotator=f"{who} too").status_code == 200
