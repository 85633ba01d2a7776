"""Files of answers in the shapes of forms, tools and data frames hold the same answers as a plain table."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import statsmodels.api as sm
from scipy import stats

from studio.core.errors import BadFile, BadOption
from studio.mos.import_export.answer_files import FileAnswers, FileOptions, file_results, read_answers

SCORES = [("r1", "s1", "heron", 4), ("r2", "s1", "teal", 2)]
RECORDS = [dict(zip(("rater", "item", "system", "score"), one, strict=True)) for one in SCORES]
COLUMNS = {key: [one[key] for one in RECORDS] for key in RECORDS[0]}


def read(folder: Path, text: str, end: str = "csv") -> FileAnswers:
    path = folder / f"v.{end}"
    path.write_text(text, encoding="utf-8")
    return read_answers(path)


def scores(found: FileAnswers) -> list[tuple[str, str, str, float]]:
    return [(a.rater, a.item, a.systems[slot], score) for a in found.answers for (_, slot), score in a.scores.items()]


def votes(found: FileAnswers) -> list[tuple[str, str, str, str, str]]:
    return [(a.rater, a.item, *a.systems, a.outcomes["preference"]) for a in found.answers]  # type: ignore[misc]


@pytest.mark.parametrize(
    "text",
    [
        "session_test_id,email,age,trial_id,rating_stimulus,rating_score\nt,r1,20,s1,heron,4\nt,r2,30,s1,teal,2\n",
        "session_test_id,name,trial_id,rating_stimulus,rating_score\nt,r1,s1,heron,4\nt,r2,s1,teal,2\n",
        "session_test_id,email,session_uuid,trial_id,stimuli_rating,stimuli\nt,x,r1,s1, 4 ,heron\nt,y,r2,s1, 2 ,teal\n",
        "session_test_id,email,trial_id,stimuli_rating,stimuli,rating_time\nt,r1,s1, 4 ,heron,9\nt,r2,s1, 2 ,teal,9\n",
        "PROLIFIC_PID,STUDY_ID,item,system,rating\nr1,st,s1,heron,4\nr2,st,s1,teal,2\n",
        "prolific_id,utt_id,model_name,mos_score\nr1,s1,heron,4\nr2,s1,teal,2\n",
        "participantId,itemId,systemName,ratingValue\nr1,s1,heron,4\nr2,s1,teal,2\n",
        "utteranceId,systemId,listenerId,choice\ns1,heron,r1,4\ns1,teal,r2,2\n",
        "Timestamp,Email Address,system,item,score\n5 May,r1,heron,s1,4\n5 May,r2,teal,s1,2\n",
        "item,system,r1,r2\ns1,heron,4,\ns1,teal,NA,2\n",
        "file,r1,r2\nx/heron/s1.wav,4,\nx/teal/s1.wav,,2\n",
        "Participant Public ID,Response,Spreadsheet: system,Spreadsheet: item\nr1,4,heron,s1\nr2,2,teal,s1\n",
        "rater,item,system,mos\nr1,s1,heron,4\nr2,s1,teal,2\nr3,s1,teal,#DIV/0!\n",
        "participant,stimulus,system,rating.response,rating.rt\nr1,s1,heron,4,1.2\nr2,s1,teal,2,1.1\n",
        "rater,system,s1,s2\nr1,heron,4,3\nr2,teal,2,1\n",
        "Participant,How natural? [heron_s1],How natural? [heron_s2],How natural? [teal_s1],How natural? [teal_s2]\n"
        "r1,4,3,,\nr2,,,2,1\n",
    ],
)
def test_scores_in_other_columns(tmp_path: Path, text: str) -> None:
    assert [one for one in scores(read(tmp_path, text)) if one[1] == "s1"] == SCORES


@pytest.mark.parametrize(
    "document",
    [
        {"version": 1, "answers": RECORDS},
        COLUMNS,
        {key: dict(enumerate(column)) for key, column in COLUMNS.items()},
        {"columns": list(COLUMNS), "index": [0, 1], "data": SCORES},
        [{"rater": one["rater"], "answers": [{k: v for k, v in one.items() if k != "rater"}]} for one in RECORDS],
        [
            {
                "data": {"audio": f"/d/{system}/{item}.wav", "text": "Hello."},
                "annotations": [
                    {"was_cancelled": True, "completed_by": 3, "result": [{"type": "rating", "value": {"rating": 1}}]},
                    {"completed_by": {"id": 1, "email": rater}, "result": [{"type": "rating", "value": {"rating": n}}]},
                ],
            }
            for rater, item, system, n in SCORES
        ],
        {
            "_default": {
                str(n): {
                    "id": item,
                    "questionaire": {"uuid": rater},
                    "responses": [{"stimulus": system, "stimulusRating": str(score)}],
                }
                for n, (rater, item, system, score) in enumerate(SCORES)
            }
        },
    ],
)
def test_scores_in_other_json(tmp_path: Path, document: Any) -> None:
    assert scores(read(tmp_path, json.dumps(document), "json")) == SCORES


@pytest.mark.parametrize(
    "document",
    [
        [{"data": {}, "annotations": [3]}],
        [{"data": {"a": "x.wav"}, "annotations": [{"result": {"a": 1}}]}],
        [{"data": {"a": "x.wav"}, "annotations": [{"result": [{"value": [1]}, {"value": {"choices": "ab"}}]}]}],
        {"a": {"1": {"responses": [1, {}], "questionaire": [1]}}},
        {"rows": None},
        {"columns": [1], "data": [[1, 2]]},
        {"raters": RECORDS, "answers": RECORDS},
    ],
)
def test_json_of_another_kind_is_refused(tmp_path: Path, document: Any) -> None:
    with pytest.raises(BadFile, match=r"no list of answers|has no answers|no column"):
        read(tmp_path, json.dumps(document), "json")


@pytest.mark.parametrize("orient", ["dict", "list"])
def test_a_column_of_json_may_be_named_rows(tmp_path: Path, orient: Any) -> None:
    """An export of the studio has its answers under this name."""
    table = pd.DataFrame(RECORDS).rename(columns={"item": "rows"})
    (tmp_path / "v.json").write_text(json.dumps(table.to_dict(orient=orient)))
    found = read_answers(tmp_path / "v.json", FileOptions(columns={"item": "rows"}))
    assert scores(found) == SCORES


LABEL_STUDIO = [
    {
        "data": {"audio1": "/d/heron/s1.wav", "audio2": "/d/teal/s1.wav"},
        "annotations": [{"completed_by": rater, "result": [{"type": "pairwise", "value": {"selected": side}}]}],
    }
    for rater, side in (("r1", "left"), ("r2", "right"))
]


@pytest.mark.parametrize(
    ("text", "end"),
    [
        ("rater,audio_a,audio_b,choice\nr1,x/heron/s1.wav,x/teal/s1.wav,A\nr2,x/heron/s1.wav,x/teal/s1.wav,B\n", "csv"),
        (
            "rater,a,b,winner\nr1,heron/s1.wav,teal/s1.wav,heron/s1.wav\nr2,heron/s1.wav,teal/s1.wav,teal/s1.wav\n",
            "csv",
        ),
        ("rater,item,a,b,answer\nr1,s1,heron/7.wav,teal/8.wav,A is better\nr2,s1,heron/9.wav,teal/8.wav,B\n", "csv"),
        ("rater,item,a,b,answer\nr1,s1,heron,teal,Sample A\nr2,s1,heron,teal,B is much better.\n", "csv"),
        (
            "email,trial_id,choice_reference,choice_non_reference,choice_answer\nr1,s1,heron,teal,reference\n"
            "r2,s1,heron,teal,nonReference\n",
            "csv",
        ),
        ("rater,item,system_left,system_right,win\nr1,s1,heron,teal,left\nr2,s1,heron,teal,Right\n", "csv"),
        ("rater,item,left_model,right_model,vote\nr1,s1,heron,teal,left\nr2,s1,heron,teal,model2\n", "csv"),
        ("rater,item,a,b,answer\nr1,s1,heron,teal,I prefer the first one\nr2,s1,heron,teal,Second\n", "csv"),
        (json.dumps(LABEL_STUDIO), "json"),
    ],
)  # fmt: skip
def test_votes_in_other_shapes(tmp_path: Path, text: str, end: str) -> None:
    assert votes(read(tmp_path, text, end)) == [("r1", "s1", "heron", "teal", "a"), ("r2", "s1", "heron", "teal", "b")]


def test_a_tie_beside_winner_and_loser_counts_as_one(tmp_path: Path) -> None:
    found = read(tmp_path, "winner,loser,tie\nheron,teal,no\nteal,heron,1\n")
    assert [one.outcomes["preference"] for one in found.answers] == ["a", "tie"]
    with pytest.raises(BadFile, match=r"line 2 of v\.csv has the tie 'maybe'"):
        read(tmp_path, "winner,loser,tie\nheron,teal,maybe\n")


def test_sounds_of_one_folder_are_named_by_their_parts(tmp_path: Path) -> None:
    names = ["heron_s1", "heron_s2", "heron_s3", "teal_s1", "teal_s3"]
    rows = "".join(f"r1,https://x/data/{name}.wav?k=1,4\n" for name in names)
    found = read(tmp_path, "workerid,file,vote\n" + rows)
    assert [f"{system}_{item}" for _, item, system, _ in scores(found)] == names
    assert found.notes[0].startswith("all sounds are in one folder; their names are read as systems (heron, teal)")
    found = read(tmp_path, "rater,file,score\nr1,out/aa.wav,4\nr1,out/bb.wav,3\n")
    assert found.systems == ["out"] and found.notes[0].startswith("all sounds are in the folder 'out', which is taken")


def test_bs1116_has_a_score_of_either_sound(tmp_path: Path) -> None:
    head = "email,trial_id,rating_reference,rating_non_reference,rating_reference_score,rating_non_reference_score\n"
    found = read(tmp_path, head + "r1,s1,reference,heron,5,4.2\n")
    assert scores(found) == [("r1", "s1", "reference", 5), ("r1", "s1", "heron", 4.2)]


@pytest.mark.parametrize(
    ("given", "scale"),
    [("0.8 0.25", (0, 1)), ("1 1", (1, 5)), ("0 1", (0, 1)), ("0 9.5", (0, 10)), ("-1 2", (-3, 3)), ("80 2", (0, 100))],
)
def test_scale_is_guessed_from_scores(tmp_path: Path, given: str, scale: tuple[int, int]) -> None:
    rows = "".join(f"r{n},s1,heron,{one}\n" for n, one in enumerate(given.split()))
    [question] = read(tmp_path, "rater,item,system,score\n" + rows).config.questions
    assert (question.low, question.high) == scale


def test_scores_between_0_and_1_are_analysed(tmp_path: Path) -> None:
    rows = "".join(
        f"r{r},s{i},{s},{(r + i + k) % 3 / 4}\n" for r in range(6) for i in range(5) for k, s in enumerate("xy")
    )
    found = file_results(read(tmp_path, "rater,item,system,score\n" + rows))
    cell = found["tables"]["questions"]["score"]["systems"]["two_way"]["x"]
    assert 0 <= cell["low"] < cell["mean"] < cell["high"] <= 1


def test_anchors_are_known_by_their_names(tmp_path: Path) -> None:
    worth = {"reference": 99, "A": 75, "B": 60, "anchor35": 20, "anchor70": 45}
    rows = "".join(f"u{r},p{p},{s},{m - r - p % 2}\n" for r in range(5) for p in range(5) for s, m in worth.items())
    found = read(tmp_path, "session_uuid,trial_id,rating_stimulus,rating_score\n" + rows)
    assert found.roles == {"reference": "reference", "anchor35": "anchor", "anchor70": "anchor"}
    without = file_results(found)["rank_tests"]["score"]["systems"]
    assert without["systems"] == ["A", "B"]


def test_accents_are_one_character_and_capitals_are_reported(tmp_path: Path) -> None:
    found = read(
        tmp_path, "rater,item,system,score\nr1,s1,caf\u00e9,4\nr2,s1,cafe\u0301,2\nr1,s1,Heron,4\nr2,s1,heron,3\n"
    )
    assert found.systems == ["Heron", "caf\u00e9", "heron"]
    assert "differ in capitals only are systems of their own: Heron and heron" in " ".join(found.notes)


def test_a_numeric_vote_column_is_a_comparison(tmp_path: Path) -> None:
    found = read(tmp_path, "rater,item,a,b,vote\nr1,s1,heron,teal,-1\nr2,s1,heron,teal,3\n")
    assert found.config.kind == "ccr"
    with pytest.raises(BadFile, match="the outcome '3'"):  # of three choices, or a slider?
        read(tmp_path, "rater,item,a,b,vote\nr1,s1,heron,teal,1\nr2,s1,heron,teal,3\n")


def test_options_that_do_not_fit_the_file_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "v.csv"
    path.write_text("rater,item,system,score\nr1,s1,heron,4\nr2,s1,teal,2\n")
    with pytest.raises(BadOption, match=r"the baseline 'wren' is not one of the systems; choose heron, teal"):
        read_answers(path, FileOptions(baseline="wren"))
    with pytest.raises(BadOption, match=r"not of the kind 'abx'; choose acr, scale, mushra, dcr"):
        read_answers(path, FileOptions(kind="abx"))
    with pytest.raises(BadFile, match=r"preset webmushra: system \(rating_stimulus\), score \(rating_score\); leave"):
        read_answers(path, FileOptions(preset="webmushra"))
    assert read_answers(path, FileOptions(baseline="teal")).config.baseline == "teal"


def test_log_inside_an_answer_is_no_list_of_answers(tmp_path: Path) -> None:
    log = [{"t": 1, "event": "play"}, {"t": 9, "event": "stop"}]
    rows = [{"rater": f"r{k}", "item": "s1", "system": "heron", "score": k, "events": log} for k in (4, 2)]
    found = scores(read(tmp_path, json.dumps(rows), "json"))
    assert found == [("r4", "s1", "heron", 4), ("r2", "s1", "heron", 2)]


def test_columns_of_a_data_frame_are_joined_by_their_keys(tmp_path: Path) -> None:
    frame = {
        "rater": {"0": "r1", "1": "r2"},
        "item": {"0": "s1", "1": "s1"},
        "system": {"1": "teal", "0": "heron"},
        "score": {"1": 4, "0": 2},
    }
    found = scores(read(tmp_path, json.dumps(frame), "json"))
    assert found == [("r1", "s1", "heron", 2), ("r2", "s1", "teal", 4)]


def test_words_keep_the_sign_of_their_number(tmp_path: Path) -> None:
    found = read(tmp_path, "rater,item,a,b,score\nr1,s1,heron,teal,Much worse -3\nr2,s1,heron,teal,Better - 2\n")
    assert [list(answer.scores.values()) for answer in found.answers] == [[-3], [2]]


def test_one_pair_within_a_system_is_named(tmp_path: Path) -> None:
    lines = [f"r{k},s{k % 3},heron/s{k % 3}.wav,teal/s{k % 3}.wav,a" for k in range(6)]
    text = "\n".join(["rater,item,a,b,vote", *lines, "r7,s1,heron/s1.wav,heron/s1_quiet.wav,a"])
    with pytest.raises(BadFile, match="compares 'heron' with itself"):
        read(tmp_path, text + "\n")


def test_mushra_of_webmushra_has_the_figures_of_scipy_and_statsmodels(tmp_path: Path) -> None:
    """No public table with published values was at hand: a random one, screened and evaluated here by others' code."""
    rng, worth = np.random.default_rng(7), {"reference": 97, "anchor70": 55, "anchor35": 25, "C1": 72, "C2": 64}
    rows = [
        {"session_test_id": "t", "session_uuid": f"u{rater}", "trial_id": f"page{page}", "rating_stimulus": system}
        | {"rating_score": int(np.clip(round(mean + spread + rng.normal(0, 6)), 0, 100)), "rating_time": 1}
        for rater, spread in enumerate(rng.normal(0, 4, 9) * (np.arange(9) < 8))
        for page in range(10)
        for system, mean in (worth | {"reference": 60 if rater == 8 else 99}).items()
    ]
    table = pd.DataFrame(rows)
    table.loc[(table["rating_stimulus"] == "reference") & (table["session_uuid"] != "u8"), "rating_score"] = 96
    table.to_csv(tmp_path / "mushra.csv", index=False)
    tables = file_results(read_answers(tmp_path / "mushra.csv"))["tables"]
    assert [one["rater"] for one in tables["post_screen"]["excluded"]] == ["u8"]
    kept = table[table["session_uuid"] != "u8"]
    for system in ("anchor70", "anchor35", "C1", "C2"):
        mine, one = kept[kept["rating_stimulus"] == system], tables["questions"]["score"]["systems"]
        scores, groups = mine["rating_score"], [pd.factorize(mine[name])[0] for name in ("session_uuid", "trial_id")]
        everyone = table.loc[table["rating_stimulus"] == system, "rating_score"]
        assert tables["post_screen"]["everybody"][system]["mean"] == pytest.approx(everyone.mean())
        assert one["plain"][system]["se"] == pytest.approx(stats.sem(scores))
        low, high = stats.norm.interval(0.95, scores.mean(), stats.sem(scores))
        assert [one["plain"][system][end] for end in ("low", "high")] == pytest.approx([low, high], abs=1e-4)
        fitted = sm.OLS(scores, np.ones(len(scores))).fit(
            cov_type="cluster", cov_kwds={"groups": np.column_stack(groups), "df_correction": True}, use_t=True
        )
        found = one["two_way"][system]
        assert (found["mean"], found["se"], found["n"]) == pytest.approx((scores.mean(), fitted.bse.iloc[0], 80))
        assert [found["low"], found["high"]] == pytest.approx(fitted.conf_int().iloc[0].tolist())
