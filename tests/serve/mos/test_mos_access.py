"""Access: tokens, links, limits, and what refused callers see."""

from functools import partial
from pathlib import Path

import httpx
import pytest
from serve.mos_serving import Browser, ServedTests

from studio.core.errors import BadFile, Busy, NeedsPackage, StudioError
from studio.mos.store.access import Forbidden, RateLimit
from studio.mos.store.tables import Rater
from studio.serve import auth
from studio.serve.responses import status_of
from studio.serve.trace_store import TraceStore

RATERS = [
    ("GET", "next"),
    ("POST", "stage"),
    ("POST", "answer"),
    ("POST", "withdraw"),
    ("GET", "headphones/0"),
    ("GET", "environment/0"),
]
OWNERS = [
    ("GET", "owner/campaigns"),
    ("GET", "owner/campaigns/first"),
    ("POST", "owner/campaigns/first/state"),
    ("POST", "owner/campaigns/first/utterances"),
    ("POST", "owner/campaigns/first/remove"),
    ("GET", "owner/drafts"),
    ("POST", "owner/drafts"),
    ("GET", "owner/drafts/first"),
    ("GET", "owner/drafts/first/preview"),
    ("GET", "owner/drafts/first/settings.toml"),
    ("GET", "owner/drafts/first/sound"),
    ("POST", "owner/drafts/first/plan"),
    ("POST", "owner/drafts/first/settings"),
    ("POST", "owner/drafts/first/sounds"),
    ("POST", "owner/drafts/first/speak"),
    ("POST", "owner/drafts/first/speak/stop"),
    ("POST", "owner/drafts/first/systems"),
    ("POST", "owner/drafts/first/systems/drop"),
    ("POST", "owner/drafts/first/texts"),
    ("POST", "owner/sounds"),
    ("GET", "owner/templates"),
    ("GET", "owner/settings"),
]


@pytest.mark.parametrize(("method", "path"), [*RATERS, *OWNERS, ("GET", "clip/x/0/y")])
def test_nothing_works_without_a_token(tests_served: ServedTests, method: str, path: str) -> None:
    rater = tests_served.join()
    wrong = ["", "Bearer", "Bearer x", "Basic eDp5", "Bearer 1.é", f"{rater.headers['Authorization']}x"]
    if path.startswith("owner"):
        wrong.append(rater.headers["Authorization"])
    for header in wrong[:9]:
        answer = tests_served.http.request(method, path, headers=[(b"Authorization", header.encode("latin-1"))])
        assert (answer.status_code, answer.json()["code"]) == (403, "forbidden")


@pytest.mark.filterwarnings("ignore:Duplicate Operation ID")  # GET and HEAD of a clip are one function
def test_route_list_is_complete(tests_served: ServedTests, tmp_path: Path) -> None:
    """A new route has to be added above or need no token."""
    from fastapi import FastAPI

    from studio.serve.mos.draft_routes import add_drafts
    from studio.serve.mos.routes import add_listening

    app = FastAPI()
    listening = tests_served.world.listening
    door = add_listening(app, listening, TraceStore(tmp_path / "traces", 1, 1))
    add_drafts(app, listening, door, tests_served.engine)
    paths = {path.replace("{name}", "first") for path in app.openapi()["paths"]}
    open_to_all = {"/mos/greet", "/mos/join", "/mos/owner/session"}
    known = {f"/mos/{path}" for _, path in [*RATERS, *OWNERS]} | {"/mos/clip/{trial}/{slot}/{key}"}
    assert {p.replace("{index}", "0") for p in paths} == known | open_to_all


def test_visitor_learns_no_campaign(tests_served: ServedTests) -> None:
    tests_served.world.campaign(name="secret plans")
    for link in (
        {"campaign": "first", "key": "x"},
        {"campaign": "none", "key": "x"},
        {"campaign": "secret plans", "key": tests_served.link()["key"]},
        {"campaign": "first", "key": "é"},
    ):
        greeting = tests_served.http.get("greet", params=link)
        joining = tests_served.http.post("join", json=link)
        for answer in (greeting, joining):
            assert (answer.status_code, answer.json()["code"]) == (403, "forbidden")
            assert "secret" not in answer.text.replace(link["campaign"], "")


def test_link_of_a_closed_campaign_is_answered_without_its_stimuli(
    tests_served: ServedTests, monkeypatch: pytest.MonkeyPatch
) -> None:
    """They are read once for an open campaign, and would be for each such call."""
    before = tests_served.http.get("greet", params=tests_served.link()).json()
    tests_served.world.set_state("closed")
    tests_served.world.listening.clear_campaign_cache()
    monkeypatch.setattr("studio.mos.service.load_campaign", None)
    assert tests_served.http.get("greet", params=tests_served.link()).json() == {**before, "open": False}


def test_forged_tokens_are_limited_by_address_and_valid_ones_are_not(tests_served: ServedTests) -> None:
    forged = {"campaign": "first", "key": "forged"}
    statuses = [tests_served.http.get("greet", params=forged).status_code for _ in range(12)]
    assert statuses == [403] * 10 + [429] * 2
    refused = tests_served.http.post("join", json=forged)
    assert (refused.status_code, refused.headers["retry-after"], refused.json()["code"]) == (429, "6", "too_many")
    assert tests_served.http.get("next", headers={"Authorization": "Bearer 1.x"}).status_code == 429
    assert Browser(tests_served.http, tests_served.join().headers["Authorization"][7:]).next()["stage"] == "consent"
    for n in range(30):
        tests_served.join(f"of one class {n}")


def test_rater_is_limited_by_token(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(auth, "RateLimit", partial(RateLimit, clock=lambda: 0.0))
    served = ServedTests(tmp_path)
    served.world.campaign()
    try:
        eager, other = served.join("eager").agree(), served.join("other")
        answers = [eager.get("headphones/9") for _ in range(100)]
        assert [a.status_code for a in answers] == [422] * 80 + [429] * 20
        assert all(a.headers["retry-after"] == "1" for a in answers[80:])
        assert other.next()["stage"] == "consent"
    finally:
        served.stop()


def test_unknown_callers_are_refused_by_the_middleware(tests_served: ServedTests) -> None:
    for path in ("greet", "next", "owner/campaigns", "clip/x/0/y"):
        for header in ({"Host": "evil.example"}, {"Origin": "https://evil.example"}):
            answer = httpx.get(f"{tests_served.url}/mos/{path}", headers=header)
            assert answer.status_code == 403
            assert "is not allowed here" in answer.text


def test_new_token_replaces_the_old_one(tests_served: ServedTests) -> None:
    assert tests_served.http.get("owner/campaigns", headers=tests_served.owner).status_code == 200
    token = tests_served.world.listening.access.new_owner_token()
    assert tests_served.http.get("owner/campaigns", headers=tests_served.owner).status_code == 403
    headers = {"Authorization": f"Bearer {token}"}
    assert tests_served.http.get("owner/campaigns", headers=headers).status_code == 200


def test_log_contains_no_token_or_key(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    served = ServedTests(tmp_path, log_level="info")  # created here, so that it writes where this test reads
    served.world.campaign()
    try:
        rater = served.join("panel person")
        shown = rater.to_trials()
        rater.get(shown["trial"]["slots"][0]["url"])
        served.http.get("greet", params=served.link())
        served.http.get("owner/campaigns", headers=served.owner)
        served.http.get("greet", params={"campaign": "first", "key": "forged"})
    finally:
        served.stop()
    log = "".join(capsys.readouterr())
    assert "Uvicorn running" in log
    secrets = [rater.headers["Authorization"][7:], served.owner["Authorization"][7:], "panel person", "forged"]
    assert not [secret for secret in [*secrets, shown["trial"]["slots"][0]["url"], "/mos"] if secret in log]


@pytest.mark.parametrize(
    ("error", "status"),
    [(Forbidden("a"), 403), (BadFile("a"), 404), (Busy("a"), 503), (NeedsPackage("a"), 501), (StudioError("a"), 400)],
)
def test_every_error_has_a_status(error: StudioError, status: int) -> None:
    class Another(type(error)):
        """An unknown error, answered like its base class."""

    assert status_of(error) == status_of(Another("a")) == status


def test_joins_per_address_are_limited(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("studio.serve.auth.JOINS_BURST", 5)
    monkeypatch.setattr("studio.serve.auth.JOINS_PER_S", 0.001)
    served = ServedTests(tmp_path)
    served.world.campaign()
    panels = [{"PROLIFIC_PID": f"P{n}"} for n in range(7)]
    answers = [served.http.post("join", json={**served.link(), "panel": panel}) for panel in panels]
    assert [answer.status_code for answer in answers] == [200] * 5 + [429] * 2
    assert not served.world.all(Rater), "nobody has consented"
    served.stop()
