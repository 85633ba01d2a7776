"""Rater routes over HTTP: idempotent, strict, answered after the commit."""

import json
import time
from pathlib import Path

import pytest
from mos.world import ACR, SYSTEMS
from serve.mos_serving import Browser, ServedTests, reply

from studio.core.errors import BadOption
from studio.mos.campaign.config import Gates
from studio.mos.import_export.foreign_rows import check_campaigns
from studio.mos.import_export.merge import campaigns_of
from studio.mos.store.access import new_resume_code, parse_resume_code
from studio.mos.store.tables import Answer, Rater


def test_whole_session(tests_served: ServedTests) -> None:
    greeting = tests_served.http.get("greet", params=tests_served.link())
    assert greeting.json() == {"title": "Voices", "language": "en", "open": True, "preview": False, "standing": False}
    assert greeting.headers["cache-control"] == "private, no-store"
    rater = tests_served.join()
    shown = rater.next()
    assert (shown["stage"], shown["text"], shown["version"]) == ("consent", "May we?", 3)
    shown = rater.to_trials()
    seen = []
    while shown["stage"] == "trials":
        seen.append(shown["trial"]["trial"])
        kept = rater.post("answer", reply(shown))
        assert (kept.status_code, kept.json()["counted"], kept.json()["attempt"]) == (200, True, 1)
        shown = rater.next()
    assert len(set(seen)) == 4
    assert rater.post("stage", {"stage": "comments", "data": {"comment": "<b>hm</b>"}}).json()["stage"] == "done"
    assert len(tests_served.world.all(Answer)) == 4


def test_repeated_answer_and_a_different_one(tests_served: ServedTests) -> None:
    rater = tests_served.join()
    answer = reply(rater.to_trials())
    assert rater.post("answer", answer).json()["repeated"] is False
    again = rater.post("answer", answer)
    assert (again.status_code, again.json()["repeated"], again.json()["attempt"]) == (200, True, 1)
    answer["scores"][0]["value"] = 1
    other = rater.post("answer", answer)
    assert (other.status_code, other.json()["counted"], other.json()["attempt"]) == (409, False, 2)
    assert other.json()["code"] == "answered"
    assert "message" in other.json()


@pytest.mark.parametrize(
    ("change", "status"),
    [
        ({"scores": [{"question": "naturalness", "slot": 0, "value": 6}]}, 422),
        ({"scores": [{"question": "naturalness", "slot": 0, "value": "4"}]}, 422),
        ({"scores": [{"question": "naturalness", "slot": 0, "value": 4, "more": 1}]}, 422),
        ({"scores": []}, 422),
        ({"plays": []}, 422),
        ({"trial": "0" * 24}, 403),
        ({"nobody": "knows"}, 422),
        ({"response_ms": -1}, 422),
        ({"comment": "x" * 5000}, 422),
    ],
)
def test_mismatched_answers_are_refused(tests_served: ServedTests, change: dict, status: int) -> None:
    rater = tests_served.join()
    answer = rater.post("answer", {**reply(rater.to_trials()), **change})
    assert answer.status_code == status
    assert set(answer.json()) == {"code", "message"}
    assert tests_served.world.all(Answer) == []


def test_bodies_are_bounded(tests_served: ServedTests) -> None:
    rater = tests_served.join()
    rater.to_trials()
    assert rater.post("answer", {"trial": "x" * 70_000}).status_code == 413
    parts = iter([b'{"trial": "', *[b"x" * 8192] * 10])  # without a Content-Length
    chunked = tests_served.http.post("answer", content=parts, headers=rater.headers)
    assert (chunked.status_code, chunked.json()["code"]) == (413, "too_long")
    for body in (b"", b"{", b"[" * 60_000, b'"x"', b"\xff\xfe"):
        assert tests_served.http.post("answer", content=body, headers=rater.headers).status_code == 422


NUMBERS = ("1e999", "NaN", "-Infinity", "9" * 2900, "99999999999999999999")


@pytest.mark.parametrize("number", NUMBERS, ids=["1e999", "NaN", "-Infinity", "2900 digits", "beyond 64 bits"])
def test_numbers_beyond_database_range_are_refused(tests_served: ServedTests, number: str) -> None:
    link = json.dumps(tests_served.link())
    joined = tests_served.http.post("join", content=f'{link[:-1]}, "device": {{"a": {number}}}}}')
    assert (joined.status_code, joined.json()["code"]) == (422, "bad_message")
    rater = tests_served.join()
    sent = f'{{"stage": "consent", "data": {{"agreed": true, "version": 3, "more": [{number}]}}}}'
    answer = tests_served.http.post("stage", content=sent, headers=rater.headers)
    assert (answer.status_code, answer.json()["code"]) == (422, "bad_message")
    deep = {"stage": "consent", "data": {"agreed": True, "version": 3, "more": json.loads("[" * 60 + "]" * 60)}}
    assert rater.post("stage", deep).status_code == 422
    assert tests_served.world.all(Rater) == []


def test_accepted_values_can_be_merged(tests_served: ServedTests) -> None:
    """One rater must not produce a campaign that another database refuses."""
    device = {"a" * 40: "\0\u2028\U0001f600=1", "b": 1e308, "c": -(2**63) + 1, "d": None, "e": True}
    panel = {"PROLIFIC_PID": "\u202e=cmd<script>" * 8, "STUDY_ID": "\x7f", "SESSION_ID": "x" * 120}
    answer = tests_served.http.post("join", json={**tests_served.link(), "panel": panel, "device": device})
    rater = Browser(tests_served.http, answer.json()["token"])
    shown = rater.to_trials()
    while shown["stage"] == "trials":
        said = {"comment": "\0\r=1\u2028" * 800, "response_ms": 86_400_000, "plays": [{"slot": 0, "plays": 10_000}]}
        said["plays"][0]["heard_ms"] = 86_400_000
        assert rater.post("answer", reply(shown) | said).status_code == 200
        shown = rater.next()
    assert rater.post("stage", {"stage": "comments", "data": {"comment": "\0\U0001f600" * 3000}}).status_code == 200
    with tests_served.world.store.read() as session:
        check_campaigns(session, campaigns_of(session))


def test_stages_in_order(tests_served: ServedTests) -> None:
    rater = tests_served.join()
    assert rater.post("stage", {"stage": "instructions"}).json()["code"] == "not_this_stage"
    assert rater.post("stage", {"stage": "instructions"}).status_code == 409
    old = rater.post("stage", {"stage": "consent", "data": {"agreed": True, "version": 2}})
    assert (old.status_code, old.json()["code"]) == (422, "bad_message")
    rater.to_trials()
    assert rater.post("withdraw", {}).json() == {}
    assert rater.next()["stage"] == "withdrawn"


def test_closed_campaign_accepts_no_new_raters(tests_served: ServedTests) -> None:
    tests_served.join("only looked").next()
    rater = tests_served.join("first one")
    shown = rater.to_trials()
    state = tests_served.http.post("owner/campaigns/first/state", json={"state": "closed"}, headers=tests_served.owner)
    assert state.json() == {"name": "first", "state": "closed"}
    late = tests_served.http.post("join", json={**tests_served.link(), "panel": {"PROLIFIC_PID": "late"}})
    assert (late.status_code, late.json()["code"]) == (409, "not_open")
    assert tests_served.http.get("greet", params=tests_served.link()).json()["open"] is False
    assert rater.post("answer", reply(shown)).status_code == 200
    tests_served.join("looks on", role="preview")


def _slip(code: str) -> str:
    """The code with a different first letter, never valid by chance."""
    for letter in "23456789":
        slip = letter + code[1:]
        try:
            parse_resume_code(slip)
        except BadOption:
            return slip
    raise AssertionError("the checks find nothing")


def test_resume_code_works_in_another_browser(tests_served: ServedTests) -> None:
    first = tests_served.http.post("join", json=tests_served.link()).json()
    rater = Browser(tests_served.http, first["token"])
    rater.to_trials()
    token = rater.headers["Authorization"][7:]
    typed = first["code"].lower().replace("-", " ")
    again = tests_served.http.post("join", json={**tests_served.link(), "code": typed}).json()
    assert (again["token"], again["stage"], again["code"]) == (token, "trials", first["code"])
    refused = tests_served.http.post("join", json={**tests_served.link(), "code": _slip(first["code"])})
    assert (refused.status_code, refused.json()["code"]) == (422, "bad_option")
    assert len(tests_served.world.all(Rater)) == 1
    panel = tests_served.http.post("join", json={**tests_served.link(), "panel": {"PROLIFIC_PID": "p"}}).json()
    assert panel["code"] is None


def test_invalid_resume_codes() -> None:
    assert len({new_resume_code() for _ in range(50)}) == 50
    assert [len(part) for part in new_resume_code().split("-")] == [4, 4, 4]
    code = next(c for c in iter(new_resume_code, None) if "0" in c and "1" in c)
    assert parse_resume_code(code.replace("0", "o").replace("1", "l")) == code
    for wrong in ("", "AAAA", code[:-1], code + "7", "ÄÖÜ-ßßß", code[:-1] + ("A" if code[-1] != "A" else "B")):
        with pytest.raises(BadOption):
            parse_resume_code(wrong)


def test_headphone_check_is_stereo(tmp_path: Path) -> None:
    served = ServedTests(tmp_path)
    served.world.campaign(config=ACR.__class__(**{**vars(ACR), "gates": Gates(headphones="woods", level=False)}))
    try:
        rater = served.join()
        assert rater.to_trials()["stage"] == "headphones"
        sounds = {rater.get(f"headphones/{n}").content for n in range(6)}
        assert len(sounds) == 6
        assert all(s[:4] == b"RIFF" and s[22] == 2 for s in sounds)
        assert rater.get("headphones/6").status_code == 422
        passed = rater.post("stage", {"stage": "headphones", "data": {"error": "no sound came"}})
        assert passed.json()["stage"] == "trials"
    finally:
        served.stop()


def test_owner_view(tests_served: ServedTests) -> None:
    rater = tests_served.join()
    rater.post("answer", reply(rater.to_trials()))
    rows = tests_served.http.get("owner/campaigns", headers=tests_served.owner).json()
    row = {"name": "first", "kind": "acr", "state": "open", "raters": 1, "finished": 0, "answers": 1, "wanted": 24}
    assert rows == [row | {"counted": 1, "lacking": ""}]
    one = tests_served.http.get("owner/campaigns/first", headers=tests_served.owner).json()
    assert one["links"]["rater"].endswith(f"&key={tests_served.link()['key']}")
    assert one["funnel"][0] == {"stage": "consent", "raters": 1}
    assert tests_served.http.get("owner/campaigns/none", headers=tests_served.owner).status_code == 422
    settings = tests_served.http.get("owner/settings", headers=tests_served.owner).json()
    assert (settings["journal_mode"], settings["synchronous"], settings["foreign_keys"]) == ("wal", "2", "1")


def test_no_response_names_a_system(tests_served: ServedTests) -> None:
    rater = tests_served.join()
    shown = rater.to_trials()
    responses = [rater.get("next"), rater.get(shown["trial"]["slots"][0]["url"]), rater.post("answer", reply(shown))]
    responses.append(tests_served.http.get("greet", params=tests_served.link()))
    for answer in responses:
        raw = answer.content + repr(answer.headers).encode()
        assert not any(system.encode() in raw for system in SYSTEMS)


def test_cancelled_caller_does_not_block_the_writer(tests_served: ServedTests) -> None:
    import socket

    host, port = tests_served.url.removeprefix("http://").split(":")
    rater = tests_served.join()
    with socket.create_connection((host, int(port))) as raw:
        raw.sendall(f"GET /mos/next HTTP/1.1\r\nHost: {host}:{port}\r\n".encode())
        raw.sendall(f"Authorization: {rater.headers['Authorization']}\r\n\r\n".encode())
    time.sleep(0.1)
    assert rater.next()["stage"] == "consent"
