"""``kill -9`` while annotators mark: acknowledged edits survive, and retried edits are applied once.

Annotators edit through the owner's routes, one after the other as their pages do, and retry an edit under the same id
until it is acknowledged. After each kill the server's files are read before the next server opens them: each
annotator's document must equal their acknowledged edits, with or without the pending one.
"""

import json
import shutil
import tempfile
import threading
import time
import urllib.error
import urllib.request
from dataclasses import dataclass, field
from http.client import HTTPException
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
from durability.harness.planted_server import program

from studio.annotation.edits import (
    AnnotationDocument,
    AnnotationEdit,
    Change,
    DropMark,
    PutLayer,
    PutMark,
    edit_to_dict,
)
from studio.annotation.layers import AnnotationMark
from studio.bench.durability import AnnotationKillSetting
from studio.bench.mos.server import PROGRAM, BareServer, bare_server
from studio.bench.page.browser import PageFailed
from studio.core.clips import wav_bytes
from studio.core.errors import BadOption
from studio.library.library import Library
from studio.mos.service import open_listening_tests

PLANT = "acknowledge-before-write"
RATE_HZ, SAMPLES = 24_000, 48_000
_LAYER, _LABELS = "faults", ("click", "wrong prosody")
_AGAIN_S = 0.02
_PATIENCE_S = 60.0


@dataclass
class _Annotator:
    """One annotator's page: acknowledged edits and the pending one."""

    name: str
    rng: Random
    document: AnnotationDocument = field(init=False)
    waiting: AnnotationEdit | None = None
    acknowledged: int = 0
    again: int = 0
    problem: str = ""
    lock: threading.Lock = field(default_factory=threading.Lock)

    def __post_init__(self) -> None:
        self.document = AnnotationDocument(self.name, RATE_HZ, SAMPLES)

    def next(self) -> AnnotationEdit:
        """A random edit: create, change or remove a mark."""
        number = self.document.revision
        name = f"{self.name}x{number}"
        if not number:
            return AnnotationEdit(name, (PutLayer(_LAYER, _LAYER, "regions", _LABELS),))
        layer = self.document.layers[_LAYER]
        known = sorted(layer.marks)
        chosen = self.rng.choice(known) if known and self.rng.random() < 0.6 else ""
        change: Change
        if chosen and self.rng.random() < 0.3:
            change = DropMark(_LAYER, chosen, layer.versions[chosen])
        else:
            start = self.rng.randrange(SAMPLES - 1000)
            mark = AnnotationMark(
                start, start + self.rng.randrange(1, 1000), self.rng.choice(_LABELS), "", chosen or f"m{number}"
            )
            change = PutMark(_LAYER, mark, layer.versions.get(chosen, 0))
        return AnnotationEdit(name, (change,))

    def may_be(self) -> list[Any]:
        """Documents allowed on disk, by layers and marks."""
        with self.lock:
            found = [_said(self.document)]
            if self.waiting is not None:
                found.append(_said(self.document.with_edit(self.waiting)))
            return found


def bench_annotation_kill(setting: AnnotationKillSetting) -> dict[str, Any]:
    """Lost edits; ``failures`` is empty if there are none.

    Raises:
        BadOption: an unknown fault to plant.
        PageFailed: the server does not start, or an annotator was refused.
    """
    if setting.plant not in ("", PLANT):
        raise BadOption(f"there is no fault {setting.plant!r}", f"plant {PLANT}")
    rng = Random(setting.seed)
    people = [_Annotator(f"a{n}", Random(rng.random())) for n in range(setting.annotators)]
    failures: list[str] = []
    kills = 0
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        utterance, token = _site(folder)
        ended = threading.Event()
        with bare_server(folder, program=program(setting.plant)) as server:
            server.begin()
            where = (server.url, token, utterance)
            threads = [
                threading.Thread(target=_mark, args=(one, *where, setting, ended), daemon=True) for one in people
            ]
            for one in threads:
                one.start()
            for number in range(setting.kills):
                if not all(one.is_alive() for one in threads):
                    raise PageFailed("an annotator of the bench has ended", "read what it says above")
                if number:
                    server.begin()
                _live(server, people, rng.uniform(*setting.life_s))
                kills += 1
                failures += [f"kill {kills}: {problem}" for problem in _audit(folder, utterance, people)]
                if failures:
                    break
            ended.set()
            for one in threads:
                one.join(_PATIENCE_S)
    return {
        "plant": setting.plant,
        "kills": kills,
        "annotators": setting.annotators,
        "acknowledged": sum(one.acknowledged for one in people),
        "sent_again": sum(one.again for one in people),
        "marks": sum(one.document.marks for one in people),
        "server": f"python {' '.join(PROGRAM)}",
        "failures": failures,
    }


def _site(folder: Path) -> tuple[str, str]:
    """A studio with one library utterance: its SHA-256, and the owner's token."""
    listening = open_listening_tests("", folder)
    token = listening.access.first_token
    listening.close()
    assert token is not None, "the folder is new"
    library = Library(folder / "library")
    entry = library.add(wav_bytes(np.zeros(SAMPLES, np.int16), RATE_HZ), "silence")
    library.close()
    return entry.sha256, token


def _live(server: BareServer, people: list[_Annotator], life_s: float) -> None:
    """One server process: ``kill -9`` some time after an acknowledgement. Raises PageFailed."""
    before = sum(one.acknowledged for one in people)
    until_s = time.monotonic() + _PATIENCE_S
    while sum(one.acknowledged for one in people) == before:
        if problem := next((one.problem for one in people if one.problem), ""):
            raise PageFailed(f"an edit was refused: {problem}", "read what the server says")
        if time.monotonic() > until_s:
            raise PageFailed(f"no edit was acknowledged within {_PATIENCE_S:g} s", "read what the server says")
        time.sleep(0.002)
    time.sleep(life_s)
    server.kill()
    time.sleep(0.03)  # for acknowledgements in transit


def _mark(
    one: _Annotator, url: str, token: str, utterance: str, setting: AnnotationKillSetting, ended: threading.Event
) -> None:
    while not ended.is_set():
        with one.lock:
            one.waiting = one.next()
        body = {"name": utterance, "annotator": one.name, **edit_to_dict(one.waiting)}
        del body["at"]  # the server says when
        if not _sent(one, url, token, json.dumps(body).encode(), ended):
            return
        with one.lock:
            one.document = one.document.with_edit(one.waiting)
            one.waiting = None
            one.acknowledged += 1
        time.sleep(one.rng.uniform(0.0, setting.think_s))


def _sent(one: _Annotator, url: str, token: str, body: bytes, ended: threading.Event) -> bool:
    """Send an edit until it is acknowledged; False if it was refused or the bench has ended."""
    headers = {"Authorization": f"Bearer {token}", "Content-Type": "application/json"}
    while not ended.is_set():
        try:
            request = urllib.request.Request(f"{url}library/annotations/edit", body, headers)
            with urllib.request.urlopen(request, timeout=10.0) as answer:
                return bool(json.load(answer)["revision"])
        except urllib.error.HTTPError as error:
            one.problem = f"{error.code} {error.read(300).decode(errors='replace')}"
            return False
        except (OSError, HTTPException, ValueError):  # killed, perhaps within a response, or not started yet
            one.again += 1
            time.sleep(_AGAIN_S)
    return False


def _audit(folder: Path, utterance: str, people: list[_Annotator]) -> list[str]:
    """Errors in the files of a killed server; reads a copy, so that nothing is repaired."""
    found: list[str] = []
    with tempfile.TemporaryDirectory() as name:
        copy = Path(name) / "library"
        shutil.copytree(folder / "library", copy)
        library = Library(copy)
        for one in people:
            if one.problem:
                found.append(f"an edit of {one.name} was refused: {one.problem}")
            document = library.annotations.by(utterance, one.name)
            if _said(document) not in one.may_be():
                has = document.revision if document else 0
                found.append(f"{one.name}: {one.document.revision} edits acknowledged, {has} on the disk")
        library.close()
    return found


def _said(document: AnnotationDocument | None) -> Any:
    """The document without its creation time."""
    return [] if document is None else document.to_dict()["layers"]
