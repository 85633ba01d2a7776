"""Library routes: owner only, bounded, consistent under concurrent calls."""

import json
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any
from urllib.parse import quote

import httpx
import numpy as np
import pytest
from inspection.spoken import RATE_HZ, pcm, story
from inspection.test_timeline import unpack
from serve.middleware.test_body_limits import Client
from serve.mos_serving import ServedTests
from serve.traces.test_inspection_routes import small_zip

from studio.core.clips import wav_bytes
from studio.core.traces.trace_writer import TraceWriter
from studio.library import exchange, library
from studio.library.entries import MAX_TAGS
from studio.library.library import Library
from studio.serve.library.routes import PAGE, SHOWN_CHARS
from studio.serve.traces import MAX_FILE_BYTES

OWNERS = [
    ("GET", "entries"),
    ("GET", "view/aaaaaa"),
    ("GET", "prosody/aaaaaa"),
    ("GET", "attention/aaaaaa"),
    ("GET", "file/aaaaaa"),
    ("POST", "keep"),
    ("POST", "files"),
    ("POST", "note"),
    ("POST", "remove"),
    ("GET", "annotations/of/aaaaaa"),
    ("GET", "annotations/by/aaaaaa"),
    ("GET", "annotations/file/aaaaaa"),
    ("GET", "annotations/agreement/aaaaaa"),
    ("POST", "annotations/import"),
    ("POST", "annotations/edit"),
    ("POST", "annotations/remove"),
    ("GET", "assignments"),
    ("GET", "assignment/bbbbbb"),
    ("POST", "assignments"),
    ("POST", "assignments/remove"),
    ("GET", "voices"),
    ("POST", "voices/look"),
    ("POST", "voices/pull"),
    ("POST", "voices/stop"),
    ("GET", "voices/push"),
    ("POST", "voices/push"),
    ("POST", "voices/verify"),
    ("POST", "voices/remove"),
    ("GET", "speakers"),
    ("POST", "speakers/add"),
    ("POST", "speakers/remove"),
]


class LibraryClient:
    """The library of a served studio, as its page calls it."""

    def __init__(self, served: ServedTests) -> None:
        self.served = served
        self.traces = Path(served.world.listening.clips.root).parent / "traces"
        self.http = httpx.Client(base_url=f"{served.url}/library/", headers=served.owner, timeout=30.0)

    def get(self, path: str, **params: Any) -> httpx.Response:
        return self.http.get(path, params=params)

    def post(self, path: str, **body: Any) -> httpx.Response:
        return self.http.post(path, json=body)

    def send(self, body: bytes, text: str = "", title: str = "") -> httpx.Response:
        return self.http.post(
            "files", content=body, headers={"X-Studio-Text": quote(text), "X-Studio-Title": quote(title)}
        )

    def spoken(self, token: str) -> str:
        """Store a trace on the server."""
        writer = TraceWriter(self.traces / token, {"vocoder": "tiny"})
        writer.write(*story())
        writer.close()
        return token

    def titles(self, **params: Any) -> list[str]:
        answer = self.get("entries", **params)
        assert answer.status_code == 200, answer.text
        return [one["title"] for one in answer.json()["entries"]]


@pytest.fixture(scope="module")
def client(tmp_path_factory: pytest.TempPathFactory) -> Any:
    served = ServedTests(tmp_path_factory.mktemp("kept"))
    found = LibraryClient(served)
    yield found
    found.http.close()
    served.stop()


@pytest.fixture(autouse=True)
def empty(client: LibraryClient) -> None:
    """Empty the library before each test."""
    for one in client.get("entries").json()["entries"]:
        assert client.post("remove", name=one["name"]).status_code == 200


def said(number: int) -> bytes:
    return wav_bytes(pcm(2 + number), RATE_HZ)


@pytest.mark.parametrize(("method", "path"), OWNERS)
def test_library_needs_the_owner_token(tmp_path: Path, method: str, path: str) -> None:
    served = ServedTests(tmp_path)
    served.world.campaign()
    rater = served.join().headers
    for headers in ({}, {"Authorization": "Bearer x"}, rater):
        answer = httpx.request(method, f"{served.url}/library/{path}", headers=headers)
        assert (answer.status_code, answer.json()["code"]) == (403, "forbidden")
    assert not (tmp_path / "library").exists(), "a refused call creates nothing"
    served.stop()


def test_route_list_is_complete(client: LibraryClient) -> None:
    """A new route has to be added above."""
    paths = client.served.app.openapi()["paths"]
    found = {(method.upper(), path) for path, methods in paths.items() for method in methods}
    places = {"aaaaaa": "{name}", "bbbbbb": "{assignment}"}
    known = {
        (method, f"/library/{'/'.join(places.get(part, part) for part in path.split('/'))}") for method, path in OWNERS
    }
    assert {one for one in found if one[1].startswith("/library/")} == known


def test_utterance_is_added_by_token_and_read_back(client: LibraryClient) -> None:
    token = client.spoken("a" * 22)
    before = (client.traces / f"{token}.trace").read_bytes()
    entry = client.post("keep", trace=token, title="First", tags=["demo"]).json()
    assert (entry["kind"], entry["voice"], entry["words"], entry["text"]) == ("trace", "v", 3, "One  two 3")
    assert (client.traces / f"{token}.trace").exists(), "the trace store keeps it"
    file = client.get(f"file/{entry['name']}")
    assert file.content == before and file.headers["cache-control"] == "private, no-store"
    assert file.headers["content-disposition"] == f'attachment; filename="utterance-{entry["name"]}.trace"'
    header, arrays = unpack(client.get(f"view/{entry['name']}").content)
    assert np.array_equal(arrays["pcm"], pcm()) and len(header["timeline"]["words"]) == 3
    again = client.post("keep", trace=token, title="", tags=["seen"]).json()
    assert (again["title"], again["tags"], client.get("entries").json()["of"]) == ("First", ["demo", "seen"], 1)
    for gone in ("b" * 22, "../studio.sqlite", ""):
        assert client.post("keep", trace=gone).status_code == 404


def test_recording_is_uploaded_with_its_text(client: LibraryClient) -> None:
    entry = client.send(said(1), "Grüße, zwei", "Überschrift").json()
    assert (entry["kind"], entry["text"], entry["title"]) == ("recording", "Grüße, zwei", "Überschrift")
    header, _ = unpack(client.get(f"view/{entry['name']}").content)
    assert [word["text"] for word in header["timeline"]["words"]] == ["Grüße,", "zwei"]
    assert client.get(f"file/{entry['name']}").headers["content-disposition"].endswith('.wav"')


def test_foreign_files_are_opened_by_the_trace_process(client: LibraryClient, monkeypatch: pytest.MonkeyPatch) -> None:
    """Parsing delays no speech, and holds no lock of the library."""

    def refuse(*_: object) -> None:
        raise AssertionError("a file was parsed in the server's process")

    for module, name in ((library, "open_bytes"), (exchange, "format_of")):
        monkeypatch.setattr(module, name, refuse)
    kept = client.post("keep", trace=client.spoken("k" * 22))
    assert kept.status_code == 200 and kept.json()["words"] == 3
    assert client.send(said(3), text="Three.").json()["text"] == "Three."
    about = {"X-Studio-Name": kept.json()["name"], "X-Studio-Annotator": "Ann", "X-Studio-Format": "audacity"}
    labels = client.http.post("annotations/import", content=b"0.0\t0.1\tclick\n", headers=about)
    assert labels.status_code == 200 and len(labels.json()["layers"]) == 1, labels.text


def test_search_results_are_paged(client: LibraryClient) -> None:
    client.post("keep", trace=client.spoken("c" * 22), title="typed", tags=["demo"])
    client.send(said(1), "one two", "first")
    client.send(said(2), "two three " * SHOWN_CHARS, "second")
    assert client.titles() == ["second", "first", "typed"]
    assert client.titles(text="TWO thr") == ["second"] and client.titles(voice="v:a", tag="demo") == ["typed"]
    assert client.titles(since_s=32e9) == [] and len(client.titles(since_s=1e9, until_s=32e9)) == 3
    assert client.titles(offset=2) == ["typed"]
    answer = client.get("entries", text="first").json()
    assert (answer["of"], answer["tags"], answer["voices"]) == (1, [["demo", 1]], ["v:a"])
    assert len(client.get("entries", text="second").json()["entries"][0]["text"]) == SHOWN_CHARS + 1


def test_pages_are_bounded_and_consecutive(client: LibraryClient) -> None:
    library = Library(client.traces.parent / "library")  # another process, as `studio library add`
    for number in range(PAGE + 2):
        library.add(wav_bytes(pcm(1)[: 100 + number], RATE_HZ), title=f"{number}")
    library.close()
    first, second = client.get("entries").json(), client.get("entries", offset=PAGE).json()
    assert (first["of"], len(first["entries"]), len(second["entries"])) == (PAGE + 2, PAGE, 2)
    for one in second["entries"]:
        client.post("remove", name=one["name"])


def test_title_and_tags_are_set(client: LibraryClient) -> None:
    name = client.send(said(1), "one").json()["name"]
    client.post("note", name=name, title="then", tags=["a", "b"])
    entry = client.post("note", name=name, title="now", tags=["c", "b", "c"]).json()
    assert (entry["title"], entry["tags"], entry["text"]) == ("now", ["b", "c"], "one")
    assert client.get("entries").json()["tags"] == [["b", 1], ["c", 1]]
    assert client.post("note", name=name, title="", tags=[]).json()["tags"] == []
    assert client.post("remove", name=name).json() == {"removed": name}
    for path in (f"view/{name}", f"prosody/{name}", f"file/{name}"):
        assert client.get(path).status_code == 404
    assert client.post("note", name=name, title="", tags=[]).status_code == 404
    assert client.post("remove", name=name).status_code == 404


@pytest.mark.parametrize(
    "params",
    [
        {"since_s": "soon"},
        {"until_s": 1e300},
        {"offset": -1},
        {"offset": 2**40},
        {"offset": "x"},
        {"text": "x" * 201},
        {"tag": "x" * 201},
    ],
)
def test_invalid_search_is_refused(client: LibraryClient, params: dict[str, Any]) -> None:
    answer = client.get("entries", **params)
    assert answer.status_code == 422 and answer.json()["message"]


@pytest.mark.parametrize(
    "change",
    [
        {"title": "x" * 201},
        {"title": "two\nlines"},
        {"title": "\ud800"},
        {"tags": ["a,b"]},
        {"tags": ["x" * 61]},
        {"tags": [f"t{n}" for n in range(MAX_TAGS + 1)]},
        {"tags": "demo"},
        {"more": 1},
    ],
)
def test_invalid_note_changes_nothing(client: LibraryClient, change: dict[str, Any]) -> None:
    before = client.send(said(1), "one", "stays").json()
    body = json.dumps({"name": before["name"], "title": "new", "tags": ["new"], **change})
    answer = client.http.post("note", content=body)
    assert answer.status_code == 422 and answer.json()["message"]
    assert client.get("entries").json()["entries"] == [before]


def test_damaged_files_are_refused_with_a_reason(client: LibraryClient) -> None:
    for body, why in (
        (b"", "not a readable trace"),
        (b"PK\x03\x04", "not a readable trace"),
        (b"RIFF", "is no sound file that is read"),
        (small_zip(b"\n", 34 << 20), "unpacks to more"),
    ):
        answer = client.send(body)
        assert answer.status_code == 422 and why in answer.json()["message"]
    assert client.send(said(1), "one", "two\nlines").status_code == 422
    trace = (client.traces / f"{client.spoken('d' * 22)}.trace").read_bytes()
    assert "a trace takes no text" in client.send(trace, "one").json()["message"]
    assert client.get("entries").json()["of"] == 0
    raw = Client(int(client.served.url.rpartition(":")[2]), "POST /library/files")
    owner = f"Authorization: {client.served.owner['Authorization']}\r\n"
    raw.send(f"{owner}Content-Length: {MAX_FILE_BYTES + 1}\r\n\r\n".encode())
    assert raw.answer()[0] == 413


def test_changed_or_missing_file_is_reported(client: LibraryClient) -> None:
    entry = client.send(said(1), "one").json()
    path = next((client.traces.parent / "library" / "sounds").glob(f"*/{entry['sha256']}.wav"))
    path.write_bytes(path.read_bytes()[:-2])
    answer = client.get(f"view/{entry['name']}")
    assert answer.status_code == 404 and "is damaged" in answer.json()["message"]
    path.unlink()
    assert client.get(f"file/{entry['name']}").status_code == 404


def test_concurrent_calls_lose_nothing(client: LibraryClient) -> None:
    """Each tags the same recording: all tags are in the index and in the files."""
    sound = said(3)
    name = client.send(sound, "one").json()["name"]
    library = Library(client.traces.parent / "library")
    other = Library(library.root)  # as another process has it
    with ThreadPoolExecutor(8) as several:
        entry = library.entry(name)
        kept = [several.submit(library.add, sound, "", "", [f"keep {n}"]) for n in range(15)]
        noted = [several.submit(other.update_note, entry, add=[f"note {n}"]) for n in range(15)]
        for one in [*kept, *noted]:
            one.result()
    every = {f"{what} {n}" for what in ("keep", "note") for n in range(15)}
    assert set(library.entry(name).note.tags) == every
    library.rebuild()
    assert set(library.entry(name).note.tags) == every
    library.close()
    other.close()


def test_unusable_folder_does_not_block_the_start(tmp_path: Path) -> None:
    (tmp_path / "library").write_text("in the way")
    served = ServedTests(tmp_path)
    answer = httpx.get(f"{served.url}/library/entries", headers=served.owner)
    assert answer.status_code == 404 and "cannot be used" in answer.json()["message"]
    (tmp_path / "library").unlink()
    assert httpx.get(f"{served.url}/library/entries", headers=served.owner).json()["of"] == 0
    served.stop()
