"""The papers' tests: each is a campaign that its kind accepts, with the papers' own figures and words."""

import pytest

from studio.core.errors import BadOption
from studio.mos.config import from_json, to_json
from studio.mos.kinds.registry import kind_of
from studio.mos.templates import labels, template, template_names

NAMES = ["dsm-quality", "dsm-similarity", "incremental-mos", "s5-preference", "speakstream-mos"]


def test_there_are_five():
    assert template_names() == NAMES


@pytest.mark.parametrize("name", NAMES)
def test_each_is_whole(name):
    config = template(name)
    kind_of(config.kind).check(config)
    assert from_json(to_json(config)) == config
    texts = config.texts
    for text in (texts.title, texts.consent, texts.instructions, texts.thanks):
        assert text == text.strip() and len(text) > 10
    for said in ("kept", "pseudonym", "deleted", "stop at any time", "18 years"):
        assert said in texts.consent
    assert texts.language == "en" and texts.consent_version == 1
    assert config.break_after < config.trials_per_sitting


def test_speakstream_asks_two_questions_of_seven_raters():
    config = template("speakstream-mos")
    assert (config.kind, config.raters_per_stimulus) == ("acr", 7)
    assert [(q.id, q.low, q.high) for q in config.questions] == [("naturalness", 1, 5), ("coherence", 1, 5)]
    assert config.questions[0].labels == {"1": "Bad", "2": "Poor", "3": "Fair", "4": "Good", "5": "Excellent"}


def test_s5_has_pairs_for_twenty_speakers_of_english():
    config = template("s5-preference")
    assert (config.kind, config.raters_per_stimulus, config.trials_per_sitting) == ("ab", 20, 50)
    (native,) = config.gates.screening
    assert set(native.accept) < set(native.options)


def test_dsm_has_pages_and_forced_choices():
    pages, choices = template("dsm-quality"), template("dsm-similarity")
    assert pages.kind == "scale" and [(q.low, q.high) for q in pages.questions] == [(1, 100)]
    assert pages.questions[0].prompt.startswith("How would you rate the overall quality of these audio clips?")
    assert choices.kind == "similarity" and choices.choices == ["a", "b"] and choices.pairs == "all"
    assert choices.prompt.endswith("Which voices sound more like the speakers in the reference?")


def test_incremental_is_a_mos():
    config = template("incremental-mos")
    assert config.kind == "acr" and [(q.low, q.high) for q in config.questions] == [(1, 5)]


@pytest.mark.parametrize("language", ["en", "de", "fr", "es", "ja"])
def test_labels_name_every_score_once(language):
    found = labels(language)
    assert list(found) == ["1", "2", "3", "4", "5"] and len(set(found.values())) == 5
    found["1"] = "changed"
    assert labels(language)["1"] != "changed"


def test_what_is_not_there_is_said_with_what_is():
    with pytest.raises(BadOption, match=r"no template 'mos'; there are dsm-quality, .*speakstream-mos"):
        template("mos")
    for name in ("shared", "../config", "presets/speakstream-mos"):
        with pytest.raises(BadOption):
            template(name)
    with pytest.raises(BadOption, match="labels in en, de, fr, es, ja"):
        labels("tlh")
