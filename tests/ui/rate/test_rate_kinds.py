"""Every kind of rating screen by keyboard, and what counts as heard."""

from collections.abc import Callable

import pytest
from mos.recommended import named_in
from ui.rate_page import RatePage, Ratings
from ui.rate_server import clip_s
from ui.waits import comes_to, until

from studio.ui.bundle import bundle

# One sound counts up and one down: the output tells which was played, and at which sample.
SWITCHED = """async (base) => {
  const { Deck } = await import(`${base}/deck.js`);
  const rate = 24000, count = 12000;
  const context = new OfflineAudioContext(1, count, rate);
  const ramp = (sign, length) => {
    const buffer = new AudioBuffer({ length, numberOfChannels: 1, sampleRate: rate });
    buffer.getChannelData(0).forEach((_, t, all) => (all[t] = (sign * (t + 1)) / 32768));
    return buffer;
  };
  const on = { changed() {}, silent() {} };
  const deck = new Deck(context, [ramp(1, 10000), ramp(-1, 9000)], { together: true, on });
  deck.begin(0, 0);
  const starts = Math.round(deck.startedS * rate);
  context.suspend(4096 / rate).then(() => { deck.switch(1); context.resume(); });
  const out = (await context.startRendering()).getChannelData(0);
  clearInterval(deck.timer);
  return { starts, samples: Array.from(out, (v) => Math.round(v * 32768)) };
}"""

# The screen's draft says that the sound was played to its end.
ENDED = """() => {
  const name = Object.keys(localStorage).find((key) => key.startsWith('studio-rate|') && key.endsWith('|draft'));
  const [[, end] = []] = JSON.parse(localStorage.getItem(name)).sounds[0].spans;
  return end > 0.59 && !document.querySelector('.sound.on');
}"""


def test_switching_loses_and_repeats_no_sample(rate: Callable[..., RatePage]) -> None:
    rating = rate("scale")
    rating.wait("welcome")
    script = bundle("rate/deck.js")  # the page's own bundle has it inside
    rating.page.route("**/bundled/deck.js", lambda route: route.fulfill(body=script, content_type="text/javascript"))
    got = rating.page.evaluate(SWITCHED, f"{rating.page.url.partition('/rate')[0]}/bundled")
    starts, samples = got["starts"], got["samples"]
    switched, faded = 4096, 4096 + 128 + 120  # a block of the context, then 5 ms
    assert samples[starts:switched] == [t - starts + 1 for t in range(starts, switched)]
    assert samples[faded : starts + 9000] == [-(t - starts + 1) for t in range(faded, starts + 9000)]


def test_pair_by_keyboard_only(rate: Callable[..., RatePage], ratings: Ratings) -> None:
    rating = rate("ab", who="keys")
    trial = rating.begin()
    for key, outcome in (("t", "tie"), ("x", "both_bad"), ("b", "b")):
        rating.key("Space")
        rating.heard(1)
        rating.key("ArrowRight", "Space")
        rating.heard(2)
        rating.key("a", key)
        assert rating.checked() == [outcome]
        rating.key("Enter")
        if outcome != "b":
            before, trial = trial, rating.trial(after=trial)
            assert ratings.outcome(before) == outcome
    rating.wait("comments")
    assert ratings.outcome(trial) == "b"
    plays = ratings.ask(
        "select plays, heard_ms from play join answer on answer.id = answer_id where trial_id = ?", trial
    )
    assert [count for count, _ in plays] == [1, 1]
    assert all(600.0 <= heard_ms <= 640.0 for _, heard_ms in plays)


def test_similarity_starts_with_the_reference(rate: Callable[..., RatePage], ratings: Ratings) -> None:
    rating = rate("similarity", who="likeness")
    trial = rating.begin()
    assert rating.page.locator(".sound .name").all_text_contents() == ["Reference", "A", "B"]
    assert "more like the reference" in rating.text(".answers legend")
    for count in (1, 2, 3):
        rating.key("Space")
        rating.heard(count)
        rating.key("ArrowDown")
    rating.key("t", "a", "Enter")
    rating.trial(after=trial)
    assert ratings.outcome(trial) == "a"


def test_page_of_sounds_with_sliders_and_numbers(rate: Callable[..., RatePage], ratings: Ratings) -> None:
    rating = rate("scale", who="slider")
    trial = rating.begin()
    for count, letter in enumerate("abc", start=1):
        rating.key(letter)
        rating.heard(count)
        # It rewinds before the next is played.
        rating.page.wait_for_selector(".sound.on", state="detached")
    slider = rating.page.locator(".slide input[type=range]").nth(0)
    faint = "node => getComputedStyle(node).opacity < 1"  # its knob is hidden, which no computed style tells
    assert (slider.get_attribute("aria-valuetext"), slider.evaluate(faint)) == ("not set", True)
    rating.page.locator(".slide input[type=number]").nth(0).fill("101")
    assert "From 1 to 100" in rating.text(".missing")
    rating.page.locator(".slide input[type=number]").nth(0).fill("81")
    assert (slider.get_attribute("aria-valuetext"), slider.evaluate(faint)) == ("81", False)
    assert "Not yet scored: B, C" in rating.text(".missing")
    rating.page.locator(".play").nth(1).focus()
    rating.page.keyboard.type("100")
    rating.page.locator(".slide input[type=range]").nth(2).focus()
    rating.key("ArrowRight", "ArrowRight")
    rating.key("Enter")
    rating.trial(after=trial)
    assert [value for _, _, value in ratings.scores(trial)] == [81, 100, 53]


def test_skipped_sound_was_not_heard(rate: Callable[..., RatePage], ratings: Ratings) -> None:
    rating = rate("mos", who="hasty")
    trial = rating.begin()
    rating.key("4", "Enter")
    assert "Listen to the sound to the end first" in rating.text(".missing")
    track = rating.page.locator(".track")
    track.click(position={"x": 0.6 * track.bounding_box()["width"], "y": 4})
    rating.key("Space")
    rating.page.wait_for_function(ENDED)
    rating.key("Enter")
    assert "Listen to the sound to the end first" in rating.text(".missing")
    assert ratings.scores(trial) == []
    rating.key("Space")
    rating.heard(1)
    rating.key("Enter")
    rating.trial(after=trial)
    assert ratings.scores(trial) == [(1, 1, 4)]
    # The second play was complete, so the earlier part added nothing.
    sql = "select plays, heard_ms from play join answer on answer.id = answer_id where trial_id = ?"
    [(plays, heard_ms)] = ratings.ask(sql, trial)
    assert plays == 2
    assert 600.0 <= heard_ms <= 640.0


def drag(rating: RatePage, track: int, start: float, end: float) -> None:
    """Drag a region over a track, between two shares of its length."""
    box = rating.page.locator(".track").nth(track).bounding_box()
    rating.page.mouse.move(box["x"] + start * box["width"], box["y"] + 4)
    rating.page.mouse.down()
    rating.page.mouse.move(box["x"] + end * box["width"], box["y"] + 4, steps=3)
    rating.page.mouse.up()


def regions(rating: RatePage) -> list[float]:
    """Width of the repeated region on each track, as a share of the track."""
    script = "all => all.map((one) => one.offsetWidth / one.parentElement.offsetWidth)"
    return rating.page.eval_on_selector_all(".track .region", script)


def test_too_short_region_is_dropped(rate: Callable[..., RatePage]) -> None:
    rating = rate("mushra", who="short")
    rating.begin()
    drag(rating, 1, 0.1, 0.9)
    comes_to(lambda: regions(rating), pytest.approx([0.8] * 6, abs=0.1))
    for _ in range(2):  # over a region, and elsewhere
        drag(rating, 2, 0.4, 0.6)
        comes_to(lambda: regions(rating), [0.0] * 6)


# The playhead went back by itself and the sound still plays.
REPEATED = """() => {
  const atS = parseFloat(document.querySelector('.sound.on .time')?.textContent);
  const isBack = atS < (window.lastS ?? 0);
  window.lastS = atS;
  return isBack;
}"""


def slots(ratings: Ratings, trial: str) -> dict[int, str]:
    """The systems that play on a screen."""
    sql = (
        "select slot, system.name from slot join stimulus on stimulus.id = stimulus_id "
        "join system on system.id = system_id where trial_id = ?"
    )
    return dict(ratings.ask(sql, trial))


def unplayed(rating: RatePage) -> list[int]:
    """Sources started by each button so far, by slot."""
    script = "() => JSON.parse(localStorage.getItem(Object.keys(localStorage).find((k) => k.endsWith('|draft'))))"
    return [sound["plays"] for sound in rating.page.evaluate(script)["sounds"]]


def test_comparison_plays_the_first_before_the_second(rate: Callable[..., RatePage], ratings: Ratings) -> None:
    rating = rate("ccr", who="compares")
    trial = rating.begin()
    assert rating.page.locator(".sound .name").all_text_contents() == ["A", "B"]
    assert "The quality of B, compared with the quality of A" in rating.text(".answers legend")
    steps = rating.page.locator(".options label").all_text_contents()
    assert steps[0] == "\u22123Much worse" and steps[3] == "0About the same" and steps[6] == "+3Much better"
    rating.page.locator(".play").nth(1).click()
    assert "Not yet heard to the end: A, B" in rating.text(".missing")
    assert unplayed(rating) == [0, 0]
    rating.page.locator(".play").nth(0).click()
    rating.heard(1)
    assert rating.page.locator("blockquote").is_hidden(), "this campaign shows the text after listening"
    rating.page.locator(".play").nth(1).click()
    rating.heard(2)
    assert rating.page.locator("blockquote").is_visible()
    rating.key("2")
    assert rating.checked() == ["2"]
    rating.key("-", "3")
    assert rating.checked() == ["-3"]
    rating.key("Enter")
    rating.trial(after=trial)
    assert ratings.scores(trial) == [(1, 1, -3)]
    assert ratings.ask(
        "select slot, low, high from score join answer on answer.id = answer_id where trial_id = ?", trial
    ) == [(1, -3, 3)]


def test_degradation_starts_with_the_reference_in_the_raters_language(
    rate: Callable[..., RatePage], ratings: Ratings
) -> None:
    rating = rate("dcr", who="degrade")
    rating.wait("consent")
    rating.press("J\u2019accepte")
    rating.wait("instructions")
    rating.press("Continuer")
    trial = rating.trial()
    assert rating.page.locator(".sound .name").all_text_contents() == ["R\u00e9f\u00e9rence", "Son"]
    assert rating.page.locator(".options small").all_text_contents()[-1] == "D\u00e9gradation inaudible"
    rating.page.locator(".play").nth(1).click()
    assert unplayed(rating) == [0, 0]
    rating.page.locator(".play").nth(0).focus()
    for count in (1, 2):
        rating.key("Space")
        rating.heard(count)
        rating.key("ArrowDown")
    rating.key("4", "Enter")
    rating.trial(after=trial)
    assert ratings.scores(trial) == [(1, 1, 4)]
    assert slots(ratings, trial)[1] == "velvet-otter"


def test_sound_is_played_again_for_every_scale(rate: Callable[..., RatePage], ratings: Ratings) -> None:
    """P.835: one question at a time in this rater's order; a reload returns to the same one."""
    rating = rate("p835", who="noise")
    trial = rating.begin()
    [(asked,)] = ratings.ask("select asked from trial where id = ?", trial)
    shown = {"SIG": "Not distorted", "BAK": "Not noticeable", "OVRL": "Excellent"}
    page = rating.page
    for place, scale in enumerate(asked.split(), start=1):
        assert page.locator(".answers legend:visible").count() == 1
        assert page.locator(".options small:visible").all_text_contents()[-1] == shown[scale]
        assert f"Question {place} of 3" in rating.text(".answers")
        rating.key(str(place + 1), "Enter")
        assert ("once more" if place > 1 else "to the end first") in rating.text(".missing")
        rating.key("Space")
        rating.heard(1)
        page.wait_for_function(ENDED)  # its check mark appears some milliseconds before its last sample
        if place == 2:
            page.reload()
            rating.trial()
            assert rating.checked() == ["2", "3"] and f"Question {place} of 3" in rating.text(".answers")
        assert ratings.scores(trial) == []
        rating.key("Enter")
    rating.trial(after=trial)
    given = dict(
        ratings.ask("select question, value from score join answer on answer.id = answer_id where trial_id = ?", trial)
    )
    assert given == {scale: place + 1 for place, scale in enumerate(asked.split(), start=1)}
    [(plays, heard_ms)] = ratings.ask(
        "select plays, heard_ms from play join answer on answer.id = answer_id where trial_id = ?", trial
    )
    [system] = slots(ratings, trial).values()
    assert (plays, heard_ms) == (3, 3 * round(1000 * clip_s(system)))


def test_x_is_one_of_the_two(rate: Callable[..., RatePage], ratings: Ratings) -> None:
    rating = rate("abx", who="identify")
    trial = rating.begin()
    assert rating.page.locator(".sound .name").all_text_contents() == ["A", "B", "X"]
    assert "X is one of the two" in rating.text(".answers legend")
    times = rating.page.locator(".time").all_text_contents()
    assert len({time.split("/")[1] for time in times}) == 1  # lengths reveal nothing
    for count in (1, 2, 3):
        rating.key("Space")
        rating.heard(count)
        rating.key("ArrowDown")
    playing = slots(ratings, trial)
    assert playing[2] in (playing[0], playing[1])
    rating.key("a" if playing[2] == playing[0] else "b", "Enter")
    rating.trial(after=trial)
    assert playing[{"a": 0, "b": 1}[ratings.outcome(trial)]] == playing[2]


def test_mushra_page_with_open_and_hidden_reference(rate: Callable[..., RatePage], ratings: Ratings) -> None:
    rating = rate("mushra", who="hidden")
    trial = rating.begin()
    names = rating.page.locator(".sound .name").all_text_contents()
    assert names == ["Reference", "A", "B", "C", "D", "E"]
    assert rating.page.locator(".slide").count() == 5
    assert rating.page.locator(".bands").nth(0).locator("span").all_text_contents() == [
        "Bad",
        "Poor",
        "Fair",
        "Good",
        "Excellent",
    ]
    for count, letter in enumerate("rabcde", start=1):
        rating.key(letter)
        rating.heard(count)
        rating.page.wait_for_selector(".sound.on", state="detached")
    rating.page.locator(".play").nth(0).focus()
    rating.page.keyboard.type("100")  # the open reference has no score
    assert "Not yet scored: A, B, C, D, E" in rating.text(".missing")
    assert "R plays the reference" in rating.text(".keys")
    # A value beyond the scale is refused: neither the old one nor its last digit counts.
    rating.page.locator(".play").nth(1).focus()
    rating.page.keyboard.type("120")
    assert "From 0 to 100" in rating.text(".missing")
    assert rating.page.locator(".slide input[type=number]").nth(0).input_value() == ""
    # A region repeats for any sound until Escape; that is one play.
    before = unplayed(rating)
    drag(rating, 1, 0.1, 0.9)

    def the_region_is_drawn_over_every_track() -> None:
        drawn = regions(rating)
        assert drawn[1] == pytest.approx(0.8, rel=0.1) and min(drawn) > 0, drawn

    until(the_region_is_drawn_over_every_track)
    rating.key("a")
    rating.page.wait_for_function(REPEATED)
    rating.key("Escape")
    rating.page.wait_for_selector(".sound.on", state="detached")
    assert sum(unplayed(rating)) == sum(before) + 1
    for k in range(5):
        rating.page.locator(".slide input[type=number]").nth(k).fill(str(20 * k))
    rating.key("Enter")
    rating.trial(after=trial)
    assert [value for _, _, value in ratings.scores(trial)] == [0, 20, 40, 60, 80]
    assert sorted(slots(ratings, trial).values()).count("velvet-otter") == 2
    sounds = [r for r in rating.responses if f"/clip/{trial}/" in r.url]
    assert len(sounds) == 6
    assert len({r.headers["content-length"] for r in sounds}) == 1
    assert "etag" not in {name for r in sounds for name in r.headers}
    seen = rating.page.content() + "".join(r.url + str(r.headers) for r in rating.responses)
    assert not named_in(seen, ("velvet-otter", "anchor", "kHz"))
