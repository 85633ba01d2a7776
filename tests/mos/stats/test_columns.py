"""Columns of answers, their validation, and votes from CSV files."""

import csv
from pathlib import Path

import numpy as np
import pytest

from studio.core.errors import BadFile, BadOption
from studio.mos.import_export.export import DICTIONARY
from studio.mos.stats.columns import (
    BOTH_BAD,
    EXPORTED,
    TIE,
    A,
    B,
    Ratings,
    ScoreScale,
    Vote,
    Votes,
    ratings_from_rows,
    votes_from_csv,
    votes_from_rows,
)


def test_rows_become_columns_with_sorted_names():
    ratings = ratings_from_rows([("zoe", "i2", "s2", 4), ("al", "i1", "s1", 5)])
    assert ratings.raters == ["al", "zoe"]
    assert ratings.rater.tolist() == [1, 0]
    assert ratings.system.tolist() == [1, 0]
    assert ratings.score.dtype == np.float64
    assert ratings_from_rows([("r", "i", "s1", 4)], systems=["s2", "s1"]).systems == ["s2", "s1"]
    assert len(ratings.where(ratings.score > 4)) == 1


ONE = np.array([0], np.int64)


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"score": np.array([np.nan])}, "not a finite number"),
        ({"rater": np.array([0, 0])}, "column rater has 2 rows of 1"),
        ({"item": np.array([1])}, "column item points outside"),
        ({"system": np.array([-1])}, "column system points outside"),
        ({"raters": ["r", "r"]}, "two names of rater are the same"),
        ({"scale": ScoreScale(2, 5)}, "outside the scale; it ranges from 2 to 5"),
    ],
)
def test_bad_ratings(change, said):
    good = {"score": np.array([1.0]), "rater": ONE, "item": ONE, "system": ONE}
    names = {"raters": ["r"], "items": ["i"], "systems": ["s"]}
    with pytest.raises(BadOption, match=said):
        Ratings(**{**good, **names, **change})


def test_bad_votes():
    outcome = np.array([A], np.uint8)
    with pytest.raises(BadOption, match="vote 1 compares x with itself"):
        Votes(ONE, ONE, outcome, None, ["x", "y"], [])
    with pytest.raises(BadOption, match="code 4"):
        Votes(ONE, ONE + 1, outcome + 4, None, ["x", "y"], [])
    with pytest.raises(BadOption, match="column item points outside"):
        Votes(ONE, ONE + 1, outcome, None, ["x", "y"], [], ONE, [])
    with pytest.raises(BadOption, match="'draw' is not an outcome"):
        votes_from_rows([("x", "y", "draw", None)])
    with pytest.raises(BadOption, match="1 votes have no rater"):
        votes_from_rows([("x", "y", "a", "r"), ("x", "y", "a", None)])
    with pytest.raises(BadOption, match="1 votes have no item"):
        votes_from_rows([Vote("x", "y", "a", "r", "i"), Vote("x", "y", "a", "r")])
    with pytest.raises(BadOption, match="'y' is not among"):
        votes_from_rows([("x", "y", "a", "r")], systems=["x"])


def test_votes_keep_their_scripts():
    votes = votes_from_rows([Vote("x", "y", "a", "r", "one"), Vote("y", "x", "b", "r", "two")])
    assert [votes.items[i] for i in votes.item] == ["one", "two"]
    assert votes.where(votes.item == 1).item.tolist() == [1]
    assert votes_from_rows([("x", "y", "a", "r")]).item is None


def test_long_scale_has_steps_of_a_twentieth():
    assert (ScoreScale(1, 5).step, ScoreScale(-3, 3).step, ScoreScale(0, 100).step) == (1.0, 1.0, 5.0)
    assert ScoreScale(1, 5).difference_scale == ScoreScale(-4, 4)


def written(path, text):
    path.write_text(text, encoding="utf-8")
    return path


def test_votes_from_a_file(tmp_path):
    text = "\ufeffrater,a,b,outcome,note\nr1,x,y,a,hi\nr2,y,x,b,\nr1,x,z,tie,\nr2,z,y,both_bad,\n"
    votes, left_out = votes_from_csv(written(tmp_path / "v.csv", text))
    assert votes.systems == ["x", "y", "z"]
    assert votes.outcome.tolist() == [A, B, TIE, BOTH_BAD]
    assert votes.a.tolist() == [0, 1, 0, 2]
    assert votes.b.tolist() == [1, 0, 2, 1]
    assert votes.rater is not None
    assert [votes.raters[r] for r in votes.rater] == ["r1", "r2", "r1", "r2"]
    assert left_out == {} and votes.item is None
    bare, _ = votes_from_csv(written(tmp_path / "w.csv", "a,b,outcome\nx,y,a\n"))
    assert bare.rater is None


def test_quoted_comma_in_a_name(tmp_path):
    with (tmp_path / "v.csv").open("w", newline="") as file:
        csv.writer(file).writerows([["a", "b", "outcome"], ["x, new", "y", "a"]])
    assert votes_from_csv(tmp_path / "v.csv")[0].systems == ["x, new", "y"]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("a,b\nx,y\n", "no column outcome"),
        ("", "no column a, b, outcome"),
        ("a,b,outcome\n", "has no votes"),
        ("a,b,outcome\nx,y,a\nx,y,A\n", "line 3 of v.csv has the outcome 'A'"),
        ("a,b,outcome\nx,y\n", "line 2 of v.csv has the outcome None"),
        ("a,b,outcome\nx,x,a\n", "line 2 of v.csv compares 'x' with itself"),
        ("a,b,outcome\n,x,a\n", "line 2 of v.csv does not name two systems"),
        ("a,b,outcome,rater\nx,y,a,r\nx,y,a,\n", "line 3 of v.csv has no rater"),
        ("a,b,outcome,item\nx,y,a,\n", "line 2 of v.csv has no item"),
        ("system_a,system_b,outcome\nx,y,a\n", "has no column role, counted, use"),
        ('a,b,outcome\n"x,y,a\n', "cannot be read as CSV"),
    ],
)
def test_bad_file_is_named(tmp_path, text, said):
    with pytest.raises(BadFile, match=said):
        votes_from_csv(written(tmp_path / "v.csv", text))


def test_other_bad_files(tmp_path):
    with pytest.raises(BadFile, match="there is no file"):
        votes_from_csv(tmp_path / "none.csv")
    (tmp_path / "v.csv").write_bytes(b"a,b,outcome\n\xff,y,a\n")
    with pytest.raises(BadFile, match="cannot be read as CSV"):
        votes_from_csv(tmp_path / "v.csv")


def exported(path: Path, *rows: dict[str, str]) -> Path:
    plain = {"campaign": "c", "rater": "r1", "item": "i1", "role": "test", "counted": "True", "use": "ok"}
    plain |= {"question": "preference", "system_a": "x", "system_b": "y", "outcome": "a"}
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, list(plain))
        writer.writeheader()
        writer.writerows(plain | row for row in rows)
    return path


def test_export_is_read_as_the_analysis_counts(tmp_path):
    """Practice, repeats, second attempts, excluded raters and other questions are left out."""
    path = exported(
        tmp_path / "e.csv",
        {"item": "i1"},
        {"item": "i2", "use": "unknown"},
        {"role": "training"},
        {"role": "repeat"},
        {"role": "trap", "outcome": "b"},
        {"counted": "False"},
        {"use": "fail"},
        {"question": "match"},
        {"question": "naturalness", "outcome": "", "system_a": "", "system_b": ""},
    )
    votes, left_out = votes_from_csv(path)
    assert len(votes) == 2 and votes.items == ["i1", "i2"] and votes.raters == ["r1"]
    assert list(left_out.values()) == [1] * 7 and sum(left_out.values()) == 7
    with pytest.raises(BadFile, match=r"no votes that count \(1 left out: answers to practice\)"):
        votes_from_csv(exported(tmp_path / "none.csv", {"role": "training"}))


def test_campaigns_are_not_mixed(tmp_path):
    path = exported(tmp_path / "e.csv", {}, {"campaign": "d"}, {"campaign": "d", "item": "i2"})
    with pytest.raises(BadFile, match=r"several campaigns \(c, d\)"):
        votes_from_csv(path)
    votes, left_out = votes_from_csv(path, "d")
    assert (len(votes), left_out) == (2, {"of another campaign": 1})


def test_expected_columns_of_an_export():
    assert set(EXPORTED) <= {column.name for column in DICTIONARY}
