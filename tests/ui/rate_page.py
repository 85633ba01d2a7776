"""Page object of the rater's page, and access to the server's database."""

import json
import sqlite3
from pathlib import Path
from typing import Any
from urllib.parse import urlencode


class Ratings:
    """A server with campaigns (rate_server.py) and its database."""

    def __init__(self, url: str, folder: Path) -> None:
        self.url, self.folder = url, folder
        self.keys = json.loads((folder / "links.json").read_text(encoding="utf-8"))

    def ask(self, sql: str, *values: Any) -> list[tuple[Any, ...]]:
        """Rows of a query."""
        with sqlite3.connect(f"file:{self.folder / 'studio.sqlite'}?mode=ro", uri=True) as database:
            return database.execute(sql, values).fetchall()

    def scores(self, trial: str) -> list[tuple[int, int, int]]:
        """(attempt, counted, value) of every score of a screen, by slot."""
        sql = "select attempt, counted, value from answer join score on answer.id = answer_id where trial_id = ?"
        return self.ask(sql + " order by attempt, question desc, slot", trial)

    def outcome(self, trial: str) -> str:
        """The counted choice of a screen."""
        sql = "select outcome from answer join choice on answer.id = answer_id where trial_id = ? and counted = 1"
        return self.ask(sql, trial)[0][0]


class RatePage:
    """One tab of a rater; ``who`` is the panel id, without it there is a resume code."""

    def __init__(self, page: Any, ratings: Ratings, campaign: str, role: str, who: str) -> None:
        self.page, self.ratings, self.who, self.campaign = page, ratings, who, campaign
        wanted = {"campaign": campaign, "key": ratings.keys[campaign][role]}
        if who:
            wanted |= {"PROLIFIC_PID": who, "STUDY_ID": "study", "SESSION_ID": "session"}
        self.address = f"{ratings.url}rate?{urlencode(wanted)}"
        self.errors: list[str] = []
        self.foreign: list[str] = []
        self.responses: list[Any] = []
        page.on("response", lambda response: self.responses.append(response))  # noqa: PLW0108 - playwright marks it
        page.on("pageerror", lambda error: self.errors.append(str(error)))
        page.on("request", lambda request: self._seen(request.url))

    def _seen(self, url: str) -> None:
        if not url.startswith((self.ratings.url, "data:", "blob:")):
            self.foreign.append(url)

    def open(self) -> None:
        self.page.goto(self.address)

    def wait(self, stage: str) -> None:
        self.page.wait_for_selector(f'.rate[data-stage="{stage}"]')

    def press(self, name: str) -> None:
        """Press a button by its text."""
        self.page.get_by_role("button", name=name, exact=True).click()

    def begin(self) -> str:
        """From the link to the first screen of a campaign without gates; returns its trial."""
        is_arena = self.campaign == "arena"  # consent and instructions on one screen
        if not self.who and not is_arena:
            self.wait("welcome")
            self.press("Begin")
        self.wait("consent")
        self.press("I agree: begin with voice A" if is_arena else "I agree")
        if not is_arena:
            self.wait("instructions")
            self.press("Continue")
        return self.trial()

    def trial(self, after: str = "") -> str:
        """Wait for a screen other than ``after``; returns its id."""
        script = "after => { const t = document.querySelector('.rate')?.dataset.trial; return t && t !== after && t; }"
        return self.page.wait_for_function(script, arg=after).json_value()

    def key(self, *keys: str) -> None:
        for key in keys:
            self.page.keyboard.press(key)

    def heard(self, count: int) -> None:
        """Wait until so many sounds are marked as heard."""
        script = "count => document.querySelectorAll('.tick[data-on=\"1\"]').length >= count"
        self.page.wait_for_function(script, arg=count)

    def text(self, selector: str = ".rate-stage") -> str:
        return self.page.locator(selector).inner_text()

    def wait_text(self, part: str, selector: str = ".rate") -> None:
        script = "([selector, part]) => document.querySelector(selector)?.textContent.includes(part)"
        self.page.wait_for_function(script, arg=[selector, part])

    def checked(self) -> list[str]:
        """The values of the selected radio buttons."""
        return self.page.eval_on_selector_all(".rate input:checked", "all => all.map((one) => one.value)")
