"""Column names and words in answer files of programs, toolkits and labs."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class Preset:
    """Column names of a program's files, and the scale and reference, which the files do not contain."""

    columns: Mapping[str, tuple[str, ...]]  # by field; the first one in the file is used
    about: str
    scale: tuple[int, int] | None = None
    reference: str = ""


_RATERS = (
    "rater", "participant", "subject", "listener", "worker", "user", "judge", "voter", "annotator", "assessor",
    "evaluator", "respondent", "prolific", "prolific_pid", "participant_public", "participant_private",
    "session_uuid", "email", "email_address", "listenerinfo",
)  # fmt: skip
_ITEMS = (
    "item", "script", "sentence", "utterance", "utt", "text_id", "stimulus", "sample", "clip", "page", "trial",
    "prompt_id",
)  # fmt: skip
_SYSTEMS = ("system", "model", "method", "condition", "algorithm", "codec")
_SCORES = (
    "score", "rating", "vote", "mos", "cmos", "smos", "dmos", "value", "opinion", "answer", "response", "votes",
    "choice", "mos_score", "rating_value", "rating_score", "score_value",
)  # fmt: skip
_FILES = (
    "file", "filename", "file_name", "file_url", "url", "path", "file_path", "audio", "audio_path", "audio_file",
    "audio_url", "wav", "wav_file", "wav_path", "clip_url",
)  # fmt: skip


def _with_ids(names: Sequence[str]) -> tuple[str, ...]:
    return (*names, *(f"{name}{end}" for name in names for end in ("_id", "id", "_name", "_uuid")))


def _either(*words: str) -> tuple[str, ...]:
    return tuple(
        f"{a}{b}"
        for word in words
        for a, b in ((word, ""), ("model_", word), (word, "_model"), ("system_", word), (word, "_system"))
    )


_HEARD = "system model option sample stimulus candidate method condition audio clip".split()
# Columns of the two systems of a vote; an outcome may also be the name of such a column.
_SIDES = {
    side: tuple(
        name
        for word in _HEARD
        for one in (side, number, where)
        for name in (f"{word}_{one}", f"{word}{one}", f"{one}_{word}")
    )
    for side, number, where in (("a", "1", "left"), ("b", "2", "right"))
}
# webMUSHRA's columns about raters depend on its configuration; newer versions add the session.
_WEBMUSHRA_RATERS = ("session_uuid", "questionaire_uuid", "uuid", *_with_ids(_RATERS), "name", "participant_email")
_PAIRED = {"rater": _with_ids(_RATERS), "item": _with_ids(_ITEMS), "tags": ("tags",)}
_CHOSEN = (
    "outcome", "winner", "choice", "preference", "preferred", "judgment", "judgement", "selected", "vote", "win",
    "result", "label", "better", "verdict", "decision", "response", "answer",
)  # fmt: skip
PRESETS: Mapping[str, Preset] = {
    "webmushra": Preset(
        {
            "rater": _WEBMUSHRA_RATERS,
            "item": ("trial_id",),
            "system": ("rating_stimulus",),
            "score": ("rating_score",),
        },
        "mushra.csv of webMUSHRA",
        (0, 100),
        "reference",
    ),
    "paired": Preset(
        {
            "rater": _WEBMUSHRA_RATERS,
            "item": ("trial_id", "wm_id"),
            "a": ("choice_reference", "responses_reference"),
            "b": ("choice_non_reference", "responses_nonreference"),
            "outcome": ("choice_answer", "responses_answer"),
        },
        "paired_comparison.csv of webMUSHRA",
    ),
    "likert": Preset(
        {
            "rater": _WEBMUSHRA_RATERS,
            "item": ("trial_id", "wm_id"),
            "system": ("stimuli", "stimulus", "responses_stimulus"),
            "score": ("stimuli_rating", "stimulus_rating", "responses_stimulusrating"),
        },
        "lms.csv, lss.csv and bs1116.csv of webMUSHRA",
    ),
    "pymushra": Preset(
        {
            "rater": ("questionaire_uuid", "questionaire.uuid", "uuid"),
            "item": ("wm_id", "trial_id"),
            "system": ("responses_stimulus", "responses.stimulus"),
            "score": ("responses_score", "responses.score"),
        },
        "tables of pymushra, CSV or JSON, and its database",
        (0, 100),
        "reference",
    ),
    "p808": Preset(
        {
            "rater": ("workerid",),
            "file": ("file",),
            "score": ("vote",),
            "question": ("question_type",),
            "system": ("condition", "system", "model"),
        },
        "votes_per_worker and raw answers of the P.808 toolkit; system and item are the last two parts of the address",
        (1, 5),
    ),
    "arena": Preset(
        {
            **_PAIRED,
            "item": (*_PAIRED["item"], "question_id", "prompt"),
            "a": ("model_a",),
            "b": ("model_b",),
            "outcome": ("winner",),
        },
        "votes with model_a, model_b, winner",
    ),
    "counts": Preset(
        {
            "a": ("a", "player1", "system_a", "model_a", "home.team", "home"),
            "b": ("b", "player2", "system_b", "model_b", "away.team", "away"),
            "wins_a": ("wins_a", "win1", "winner_model_a", "home.wins"),
            "wins_b": ("wins_b", "win2", "winner_model_b", "away.wins"),
            "ties": ("ties", "winner_tie"),
        },
        "counts of votes per pair: a, b, wins_a, wins_b, as BradleyTerry2 has them",
    ),
    "votes": Preset(
        {
            **_PAIRED,
            "a": ("a", *_SIDES["a"], "first", "left"),
            "b": ("b", *_SIDES["b"], "second", "right"),
            "outcome": _CHOSEN,
        },
        "a, b, outcome, and rater and item where known",
    ),
    "winners": Preset(
        {
            **_PAIRED,
            "a": _either("winner", "chosen", "preferred"),
            "b": _either("loser", "rejected"),
            "ties": ("tie", "is_tie", "draw", "is_draw"),
        },
        "the winner and the loser of each vote",
    ),
    "comparisons": Preset(
        {
            **_PAIRED,
            "a": ("a", "system_a", "first"),
            "b": ("b", "system_b", "second"),
            "score": (*_SCORES, "comparison", "preference"),
            "question": ("question",),
        },
        "a, b, score: the second against the first (CMOS)",
    ),
    "scores": Preset(
        {
            **_PAIRED,
            "system": _with_ids(_SYSTEMS),
            "score": _SCORES,
            "question": ("question", "question_type", "scale", "attribute"),
            "file": _FILES,
        },
        "rater, item, system, score, and question where there are several",
    ),
}
_OUTCOMES = {
    "a": (*_SIDES["a"], "a", "left", "first", "1", "a_wins", "a wins", "player1", "reference"),
    "b": (*_SIDES["b"], "b", "right", "second", "2", "b_wins", "b wins", "player2", "non_reference", "nonreference",
          "non-reference"),
    "tie": ("tie", "draw", "equal", "same", "no preference", "no difference", "none", "0", "x", "=", "neutral",
            "undecided", "both", "about the same", "equally good"),
    "both_bad": ("both_bad", "bothbad", "both bad", "tie (bothbad)", "tie (both bad)", "tie_bothbad", "neither"),
}  # fmt: skip
OUTCOME_OF = {word: outcome for outcome, words in _OUTCOMES.items() for word in words}
# Cells that mean "no score".
UNKNOWN = frozenset("na n/a #n/a nan null nil missing - -- . ? #div/0! #value! #ref! #name? #num! #null!".split())
# Scores in words: ACR, DCR and CCR of ITU-T P.800, in this order.
_WORDS = (
    (1, "bad poor fair good excellent".split()),
    (1, "very annoying|annoying|slightly annoying|perceptible but not annoying|imperceptible".split("|")),
    (-3, "much worse|worse|slightly worse|about the same|slightly better|better|much better".split("|")),
)
SCORE_OF = {word: lowest + at for lowest, words in _WORDS for at, word in enumerate(words)}
