"""A whole rater session, from the link to the completion code, through a reload and a crash."""

import io
import json
import wave
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import numpy as np
from ui.rate_page import RatePage, Ratings
from ui.rate_server import SYSTEMS


def _short_stereo() -> bytes:
    """A tenth of a second in stereo, so that the check's six sounds do not take half a minute."""
    file = io.BytesIO()
    with wave.open(file, "wb") as wav:
        wav.setparams((2, 2, 44_100, 0, "NONE", ""))
        wav.writeframes(np.full(2 * 4_410, 500, "<i2").tobytes())
    return file.getvalue()


def _crash(browser: Any) -> None:
    """Kill the browser with all unsaved state."""
    with suppress(Exception):  # the connection breaks before it answers
        browser.new_browser_cdp_session().send("Browser.crash")


def _check_headphones(rating: RatePage) -> None:
    rating.page.route(
        "**/mos/headphones/*", lambda route: route.fulfill(body=_short_stereo(), content_type="audio/wav")
    )
    for n in range(6):
        rating.wait_text(f"Sound {n + 1} of 6", ".count")
        rating.page.wait_for_selector(".play")
        assert rating.page.get_by_role("button", name="Continue", exact=True).is_disabled()
        rating.key("Space", "2")
        rating.heard(1)
        rating.key("Enter")


def test_environment_test_by_keyboard(rate: Callable[..., RatePage], ratings: Ratings) -> None:
    """Four pairs, both sounds of each played; answers are stored with the number correct."""
    rating = rate("environment", who="pairs")
    rating.wait("consent")  # a route that is set while a page loads can hold one of its requests for ever
    rating.page.route(
        "**/mos/environment/*", lambda route: route.fulfill(body=_short_stereo(), content_type="audio/wav")
    )
    rating.press("I agree")
    rating.wait("instructions")
    rating.press("Continue")
    rating.wait("environment")
    for n, key in enumerate("abta", start=1):
        rating.wait_text(f"Pair {n} of 4", ".count")
        rating.page.wait_for_selector(".play >> nth=1")
        assert rating.page.locator(".sound .name").all_text_contents() == ["A", "B"]
        for heard in (1, 2):
            assert rating.page.get_by_role("button", name="Continue", exact=True).is_disabled()
            rating.key("Space", key)
            rating.heard(heard)
        rating.key("Enter")
    rating.trial()
    [(verdict, data)] = ratings.ask(
        "select verdict, data from passage join rater on rater.id = rater_id where passage.stage = 'environment' "
        "and campaign_id = (select id from campaign where name = 'environment') and passage.data != '{}'"
    )
    kept = json.loads(data)
    assert kept["answers"] == [0, 1, 2, 0]
    assert verdict == ("ok" if kept["right"] >= 2 else "fail")


def test_pairs_follow_scores_in_one_session(rate: Callable[..., RatePage], ratings: Ratings) -> None:
    """Two kinds, one consent, one code at the end; a reload returns to the second."""
    rating = rate("scores", who="scores")
    rating.wait("consent")
    assert rating.text(".rate-part") == "Part 1 of 2"
    first = rating.begin()
    _answer(rating, "4")
    rating.wait("instructions")
    assert rating.text(".rate-part") == "Part 2 of 2"
    rating.press("Continue")
    second = rating.trial(after=first)
    rating.key("Space")
    rating.heard(1)
    rating.page.reload()
    assert rating.trial() == second and rating.text(".rate-part") == "Part 2 of 2"
    rating.heard(1)
    rating.key("ArrowRight", "Space")
    rating.heard(2)
    rating.key("b", "Enter")
    rating.wait("comments")
    rating.press("Finish")
    rating.wait("done")
    assert "B0TH-42" in rating.text()
    assert ratings.outcome(second) == "b" and ratings.scores(first) == [(1, 1, 4)]
    names = ratings.ask("select pseudonym, part from rater where panel like ? order by part", f"%{rating.who}%")
    assert len({name for name, _ in names}) == 1 and [part for _, part in names] == [1, 2]


def _answer(rating: RatePage, *keys: str) -> str:
    """Play the only sound of a screen and answer by keys; returns its trial."""
    trial = rating.trial()
    rating.key("Space")
    rating.heard(1)
    rating.key(*keys, "Enter")
    return trial


def test_session_survives_a_reload_and_a_crash(
    rate: Callable[..., RatePage], ratings: Ratings, launch: Callable[..., Any]
) -> None:
    doomed = launch(any_time=False)
    rating = rate("whole", browser=doomed)
    rating.wait("welcome")
    rating.press("Begin")
    rating.wait("consent")
    assert "<img src=x onerror=" in rating.text()
    assert not rating.page.locator(".code-card").is_visible() and not rating.page.locator(".leave").is_visible()
    rating.press("I agree")
    rating.wait("screening")
    code = rating.text(".code-card code")
    assert "Your <b>first</b> language?" in rating.text()
    rating.press("Continue")
    rating.wait_text("Answer every question", ".missing")
    rating.page.locator("label", has_text="English").click()
    rating.press("Continue")
    rating.wait("instructions")
    assert "<script>" in rating.text()
    rating.press("Continue")
    rating.wait("level")
    rating.wait_text("Press the play button first", ".actions ~ .hint")
    rating.key("Space")  # as on every page with a sound
    rating.page.get_by_role("button", name="The volume is comfortable").click()  # waits until it is enabled
    rating.wait("headphones")
    _check_headphones(rating)
    rating.wait("trials")
    assert "Practice" in rating.text(".count")
    assert "Text of <b>practice</b> & more" in rating.text("blockquote")
    first = _answer(rating, "4", "3")

    # A reload in the middle: the same screen with its plays and ratings.
    second = rating.trial(after=first)
    rating.key("Space")
    rating.heard(1)
    rating.key("5")
    rating.open()
    assert rating.trial() == second
    assert rating.checked() == ["5"]
    rating.heard(1)
    assert "Answer every question" in rating.text(".missing")

    # A crash, then another browser with the resume code.
    _crash(doomed)
    rating = rate("whole")
    rating.wait("welcome")
    rating.page.locator("summary").click()
    rating.page.locator("#rate-code").fill("0000-0000-0000")
    rating.key("Enter")
    rating.wait_text("This code is not right", ".missing")
    rating.page.locator("#rate-code").fill(code.lower().replace("-", " "))
    rating.key("Enter")
    assert rating.trial() == second
    assert _answer(rating, "2", "5") == second
    rating.wait("break")
    rating.press("Continue")
    third = _answer(rating, "1", "1")
    fourth = rating.trial(after=third)
    assert _answer(rating, "3", "4") == fourth
    rating.wait("comments")
    rating.page.locator("textarea").fill("<b>=1+1</b>")
    rating.press("Finish")
    rating.wait("done")
    assert "C0DE-42" in rating.text()
    assert "Thanks <b>a lot</b>." in rating.text()
    assert code in rating.text()

    assert [ratings.scores(trial) for trial in (first, second, third, fourth)] == [
        [(1, 1, 4), (1, 1, 3)],
        [(1, 1, 2), (1, 1, 5)],
        [(1, 1, 1), (1, 1, 1)],
        [(1, 1, 3), (1, 1, 4)],
    ]
    sql = "select data from passage where stage = 'comments' and data like '%=1+1%'"
    assert json.loads(ratings.ask(sql)[0][0])["comment"] == "<b>=1+1</b>"
    assert rating.page.evaluate("document.body.dataset.hacked") is None


def test_panel_rater_resumes_in_another_browser_and_is_redirected(
    rate: Callable[..., RatePage], ratings: Ratings
) -> None:
    trial = rate("back", who="pid-1").begin()
    rating = rate("back", who="pid-1")
    assert rating.trial() == trial
    assert rating.page.locator(".code-card").is_hidden()
    rating.key("Space")
    rating.heard(1)
    rating.key("4", "Enter")
    rating.wait("comments")
    rating.press("Finish")
    rating.page.wait_for_url("**/health?finished=1")
    assert ratings.scores(trial) == [(1, 1, 4)]


def test_preview_is_labelled_and_repeatable(rate: Callable[..., RatePage], ratings: Ratings) -> None:
    rating = rate("back", role="preview")
    trial = rating.begin()
    assert "Preview" in rating.text(".preview")
    rating.key("Space")
    rating.heard(1)
    rating.key("4", "Enter")
    rating.wait("comments")
    rating.press("Finish")
    rating.wait("done")
    assert "health?finished=1" in rating.text()
    assert ratings.ask("select rater.role from rater join trial on rater.id = rater_id where trial.id = ?", trial) == [
        ("preview",)
    ]


def test_leaving_is_confirmed(rate: Callable[..., RatePage], ratings: Ratings) -> None:
    rating = rate("mos", who="leaver")
    trial = rating.begin()
    rating.press("Leave the test")
    rating.press("Stay")
    assert rating.trial() == trial
    rating.press("Leave the test")
    rating.press("Leave")
    rating.wait("withdrawn")
    assert ratings.ask("select stage from rater join trial on rater.id = rater_id where trial.id = ?", trial) == [
        ("withdrawn",)
    ]


def test_browser_receives_no_system_name(rate: Callable[..., RatePage]) -> None:
    rating = rate("scale", who="curious")
    rating.begin()
    shown = [rating.page.content().encode()]
    for answer in rating.responses:
        headers = answer.all_headers()
        streamed = headers.get("content-type", "").startswith("text/event-stream")  # it has no end to wait for
        shown += [answer.url.encode(), json.dumps(headers).encode(), b"" if streamed else answer.body()]
    assert sum(b"/mos/clip/" in part for part in shown) >= len(SYSTEMS)
    for part in shown:
        assert not [name for name in SYSTEMS if name.encode() in part]


def test_rating_page_does_not_link_to_the_studio(rate: Callable[..., RatePage]) -> None:
    rating = rate("mos")
    rating.wait("welcome")
    rating.page.wait_for_load_state("load")
    rating.page.wait_for_timeout(1_000)  # include late requests; heartbeats keep the network busy
    assert rating.page.locator("a:visible").count() == 0
    assert rating.page.locator("nav:visible").count() == 0
