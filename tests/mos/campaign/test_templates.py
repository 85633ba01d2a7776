"""Templates of the papers' tests: each is a campaign that its kind accepts, with the paper's figures and words."""

import json
import tomllib
from dataclasses import replace
from pathlib import Path

import pytest

from studio.core.errors import BadOption
from studio.mos.campaign import config
from studio.mos.campaign.config import (
    Completion,
    CompletionLink,
    Question,
    StopRule,
    check_language,
    from_json,
    load_template,
    quality_labels,
    template_names,
    to_json,
    to_toml,
    with_settings,
)
from studio.mos.campaign.gates import ScreeningQuestion
from studio.mos.kinds.registry import kind_of

NAMES = [
    "abx",
    "arena",
    "ccr",
    "dcr",
    "dsm-quality",
    "dsm-similarity",
    "incremental-mos",
    "live",
    "mushra",
    "p835",
    "s5-preference",
    "speakstream-mos",
]


def test_number_of_templates():
    assert template_names() == NAMES


@pytest.mark.parametrize("name", NAMES)
def test_every_template_is_complete(name):
    config = load_template(name)
    kind_of(config.kind).check(config)
    assert from_json(to_json(config)) == config
    texts = config.texts
    for text in (texts.title, texts.consent, texts.instructions, texts.thanks):
        assert text == text.strip() and len(text) > 10
    for said in ("kept", "pseudonym", "deleted", "stop at any time", "18 years"):
        assert said in texts.consent
    assert texts.language == "en" and texts.consent_version == 1
    assert config.break_after < config.trials_per_sitting


def test_typing_tests_ask_consent_to_storing_the_text():
    """Listening-only tests do not."""
    for name in NAMES:
        consent = load_template(name).texts.consent
        for said in ("everything that you type", "every key with its time", "what you delete again"):
            assert (said in consent) == (name in ("arena", "live"))


@pytest.mark.parametrize("language", ["de", "fr-CA", "pt_BR", "eo"])
def test_consent_text_is_translated_or_not_offered(language):
    texts = load_template("mushra").texts
    config = replace(load_template("mushra"), texts=replace(texts, language=language))
    with pytest.raises(BadOption, match="consent in English") as refused:
        check_language(config)
    assert refused.value.do == (
        "write texts.title and texts.consent and texts.instructions and texts.thanks in that language"
    )
    check_language(replace(config, texts=replace(config.texts, consent="Ich stimme zu.")))
    check_language(load_template("live"))
    check_language(replace(config, texts=replace(texts, language="en-GB")))


def test_speakstream_asks_two_questions_of_seven_raters():
    config = load_template("speakstream-mos")
    assert (config.kind, config.raters_per_stimulus) == ("acr", 7)
    assert [(q.id, q.low, q.high) for q in config.questions] == [("naturalness", 1, 5), ("coherence", 1, 5)]
    naturalness, coherence = (list(q.labels.values()) for q in config.questions)
    assert (naturalness[0], naturalness[-1]) == ("Completely unnatural", "Completely natural")
    assert (coherence[0], coherence[-1]) == ("Not at all", "Perfectly")
    quality = load_template("incremental-mos").questions[0]  # P.800's question in P.800's words
    assert quality.labels == {"1": "Bad", "2": "Poor", "3": "Fair", "4": "Good", "5": "Excellent"}


def test_s5_has_pairs_for_twenty_english_speakers():
    config = load_template("s5-preference")
    assert (config.kind, config.raters_per_stimulus, config.trials_per_sitting) == ("ab", 20, 50)
    (native,) = config.gates.screening
    assert set(native.accept) < set(native.options)


def test_dsm_has_pages_and_forced_choices():
    pages, choices = load_template("dsm-quality"), load_template("dsm-similarity")
    assert pages.kind == "scale" and [(q.low, q.high) for q in pages.questions] == [(1, 100)]
    assert pages.questions[0].prompt.startswith("How would you rate the overall quality of these audio clips?")
    assert choices.kind == "similarity" and choices.choices == ["a", "b"] and choices.pairs == "all"
    assert choices.prompt.endswith("Which voices sound more like the speakers in the reference?")


def test_incremental_is_a_mos_test():
    config = load_template("incremental-mos")
    assert config.kind == "acr" and [(q.low, q.high) for q in config.questions] == [(1, 5)]


def test_recommendations_use_their_own_scales():
    scales = {
        name: [(q.low, q.high) for q in load_template(name).questions] for name in ("ccr", "dcr", "abx", "mushra")
    }
    assert scales == {"ccr": [(-3, 3)], "dcr": [(1, 5)], "abx": [], "mushra": [(0, 100)]}
    assert load_template("abx").choices == ["a", "b"]
    # The labels replace the page's own in every language; none of ACR's may remain.
    assert not any(q.labels for name in scales for q in load_template(name).questions)
    words = json.loads((Path(config.__file__).parents[2] / "ui/widgets/rate/words.json").read_text("utf-8"))
    for language, said in words.items():
        for name, values in (("ccr", range(-3, 4)), ("dcr", range(1, 6)), ("mushra", range(1, 6))):
            found = [said[f"{name}_{value}"] for value in values]
            assert len(set(found)) == len(found) and all(found), language
            assert said[f"{name}_prompt"]
        for scale in ("SIG", "BAK", "OVRL"):
            assert len({said[f"p835_{scale}_{value}"] for value in range(1, 6)}) == 5, language
        assert set(said) == set(words["en"])
    assert [words["en"][f"ccr_{v}"] for v in (-3, 0, 3)] == ["Much worse", "About the same", "Much better"]
    assert words["en"]["dcr_5"] == "Degradation is inaudible"
    p835 = load_template("p835")
    assert [(q.id, q.prompt) for q in p835.questions] == [
        (scale, words["en"][f"p835_{scale}_prompt"]) for scale in ("SIG", "BAK", "OVRL")
    ]
    assert [words["en"][f"p835_BAK_{v}"] for v in range(5, 0, -1)] == [  # P.835, scale of background noise
        "Not noticeable",
        "Slightly noticeable",
        "Noticeable but not intrusive",
        "Somewhat intrusive",
        "Very intrusive",
    ]


@pytest.mark.parametrize("language", ["en", "de", "fr", "es", "ja"])
def test_every_score_is_labelled_once(language):
    found = quality_labels(language)
    assert list(found) == ["1", "2", "3", "4", "5"] and len(set(found.values())) == 5
    found["1"] = "changed"
    assert quality_labels(language)["1"] != "changed"


def test_unknown_template_is_refused_with_the_known_ones():
    with pytest.raises(BadOption, match=r"no template 'mos'; there are abx, .*speakstream-mos"):
        load_template("mos")
    for name in ("shared", "../config", "presets/speakstream-mos"):
        with pytest.raises(BadOption):
            load_template(name)
    with pytest.raises(BadOption, match="labels in en, de, fr, es, ja"):
        quality_labels("tlh")


NASTY = 'say "no"\\\n\n\'\'\' """ = [gates]\ttab 日本語 \\u0041'


@pytest.mark.parametrize("name", template_names())
def test_template_round_trips(name: str, tmp_path: Path) -> None:
    (tmp_path / "own.toml").write_text(to_toml(load_template(name)), encoding="utf-8")
    assert with_settings(name, tmp_path / "own.toml") == load_template(name)


def test_edited_settings_round_trip(tmp_path: Path) -> None:
    """On any template: the file holds all settings and nothing of the template remains."""
    config = load_template("incremental-mos")
    gates = replace(
        config.gates, screening=[ScreeningQuestion("native", NASTY, ["Ja", 'a "b"'], ["Ja"])], min_variance=0.25
    )
    mine = replace(
        config,
        questions=[Question("wärme", NASTY, -2, 2, {"-2": "kalt", "2": NASTY})],
        gates=gates,
        texts=replace(config.texts, title=NASTY, consent=NASTY, language="de"),
        completion=Completion(code="C1", full=CompletionLink(code="F", redirect_url="https://panel.example/full")),
        stop=StopRule(half_width=0.15, decided=True, looks=[10, 30], spending="pocock"),
    )
    (tmp_path / "mine.toml").write_text(to_toml(mine), encoding="utf-8")
    assert from_json(tomllib.loads(to_toml(mine))) == mine
    assert with_settings("speakstream-mos", tmp_path / "mine.toml") == mine
