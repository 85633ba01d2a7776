"""No network, two tabs, a wrong link, unplayable sounds: nothing is lost, and the page explains."""

from collections.abc import Callable
from typing import Any

from ui.rate_page import RatePage, Ratings


def _marked(rating: RatePage, score: str) -> None:
    rating.key("Space")
    rating.heard(1)
    rating.key(score)


def test_answer_survives_an_outage_and_a_reload(rate: Callable[..., RatePage], ratings: Ratings) -> None:
    rating = rate("mos", who="offline")
    trial = rating.begin()
    _marked(rating, "3")
    rating.page.route("**/mos/answer", lambda route: route.abort())
    rating.responses.clear()
    rating.key("Enter")
    rating.wait_text("Saving", ".banner")
    rating.page.wait_for_timeout(500)
    # The next screen is not requested before the acknowledgement.
    assert not [answer.url for answer in rating.responses if answer.url.endswith("/mos/next")]
    assert rating.page.locator(".trial.sending").count() == 1
    rating.open()
    rating.wait_text("Saving", ".banner")
    assert ratings.scores(trial) == []
    rating.page.unroute("**/mos/answer")
    rating.trial(after=trial)
    assert rating.text(".banner") == ""
    assert ratings.scores(trial) == [(1, 1, 3)]


def test_lost_acknowledgement_counts_once(rate: Callable[..., RatePage], ratings: Ratings) -> None:
    rating = rate("mos", who="unlucky")
    trial = rating.begin()
    lost: list[int] = []

    def lose(route: Any) -> None:
        if lost:
            return route.continue_()
        lost.append(route.fetch().status)
        return route.abort()

    rating.page.route("**/mos/answer", lose)
    _marked(rating, "2")
    rating.key("Enter")
    rating.trial(after=trial)
    assert lost == [200]
    assert ratings.scores(trial) == [(1, 1, 2)]


def test_two_tabs_answer_once(rate: Callable[..., RatePage], ratings: Ratings) -> None:
    tabs = [rate("mos", who="twice")]
    trial = tabs[0].begin()
    tabs.append(rate("mos", who="twice"))
    assert tabs[1].trial() == trial
    _marked(tabs[0], "5")
    tabs[0].key("Enter")
    following = tabs[0].trial(after=trial)
    _marked(tabs[1], "1")
    tabs[1].key("Enter")
    assert tabs[1].trial(after=trial) == following
    assert "already answered" in tabs[1].text(".banner")
    assert ratings.scores(trial) == [(1, 1, 5), (2, 0, 1)]


def test_unplayable_check_excludes_nobody(rate: Callable[..., RatePage], ratings: Ratings) -> None:
    rating = rate("whole", who="deaf")
    rating.wait("consent")  # a route that is set while a page loads can hold one of its requests for ever
    rating.page.route("**/mos/headphones/*", lambda route: route.fulfill(body="no sound", content_type="audio/wav"))
    rating.press("I agree")
    rating.wait("screening")
    rating.page.locator("label", has_text="English").click()
    rating.press("Continue")
    rating.wait("instructions")
    rating.press("Continue")
    rating.wait("level")
    rating.page.locator(".play").click()
    rating.page.get_by_role("button", name="The volume is comfortable").click()  # waits until it is enabled
    rating.trial()
    sql = "select verdict from passage join rater on rater.id = rater_id where panel like ? and passage.stage = ?"
    assert ratings.ask(sql, "%deaf%", "headphones") == [("unknown",)]


def test_wrong_link_is_reported(rate: Callable[..., RatePage]) -> None:
    rating = rate("mos", who="forger")
    rating.wait("consent")
    rating.page.goto(f"{rating.ratings.url}rate?campaign=mos&key=AAAAAAAAAAAAAAAAAAAAAAAA")
    rating.wait("bad_link")
    assert "This link does not work" in rating.text()
