"""Answers from files: exports give the same tables again; files of other programs give the published values."""

import csv
import json
import time
from dataclasses import replace
from pathlib import Path

import pytest
from mos.rated import MOS, PAIRS, rate
from mos.rated import campaign as rated_campaign
from mos.world import SQLITE_ONLY, World
from typer.testing import CliRunner

from studio.cli import cli
from studio.core.errors import BadFile, BadOption
from studio.mos.campaign.config import Gates
from studio.mos.import_export.answer_files import FileOptions, file_results, parse_scale, read_answers, read_votes
from studio.mos.import_export.export import write_export
from studio.mos.kinds.base import CountedAnswer
from studio.mos.kinds.marked import marked
from studio.mos.report.tables import latex, markdown
from studio.mos.stats.columns import BOTH_BAD, TIE, A, B
from studio.mos.stats.elo import elo_report


@SQLITE_ONLY
def test_several_campaigns_and_tags(world: World, tmp_path: Path) -> None:
    rated_campaign(world, tmp_path, MOS)
    rate(world, "one")
    world.read(write_export, "first", tmp_path / "a.csv")
    text = (tmp_path / "a.csv").read_text(encoding="utf-8")
    both = tmp_path / "both.csv"
    both.write_text(text + text.split("\n", 1)[1].replace("\nfirst,", "\nother,").replace("first,", "other,", 1))
    with pytest.raises(BadFile, match=r"several campaigns \(first, other\)"):
        read_answers(both)
    found = read_answers(both, FileOptions(campaign="other"))
    assert found.name == "other" and found.left_out == {"of another campaign": 12}
    with pytest.raises(BadFile, match="no answers that count"):
        read_answers(both, FileOptions(campaign="first", tag="none"))
    with pytest.raises(BadOption, match="needs no scale"):
        read_answers(both, FileOptions(scale=(1, 5)))


def written(path: Path, text: str) -> Path:
    path.write_text(text, encoding="utf-8")
    return path


def rated(answer: CountedAnswer) -> tuple[str, str, str, float]:
    [((_, slot), score)] = answer.scores.items()
    return answer.rater, answer.item, answer.systems[slot], score


@pytest.mark.parametrize(
    ("text", "options"),
    [
        ("rater,item,system,score\nr1,s1,heron,4\nr2,s1,teal,2\n", FileOptions()),
        ("Rater;Item;System;Score\nr1;s1;heron;4,0\nr2;s1;teal;2,0\n", FileOptions()),
        ("sep=\t\n\nparticipant\tsentence\tmodel\trating\n r1 \ts1\theron\t4\nr2\ts1\tteal\t2\n", FileOptions()),
        ("who,what,by,mark\nr1,s1,heron,4\nr2,s1,teal,2\n", FileOptions(columns=dict(zip(("rater", "item", "system", "score"), ("Who", "what", "by", "mark"), strict=True)))),  # noqa: E501
        ("HITId,workerid,file,short_file_name,vote\nh,r1,https://x/heron/s1.wav?k=1,s1.wav,4\nh,r2,https://x/teal/s1.wav,s1.wav,2\n", FileOptions()),  # noqa: E501
        ("WorkerId,Answer.q1,Answer.q1_url\nr1,4,https://x/heron/s1.wav\nr2,2,https://x/teal/s1.wav\n", FileOptions()),
        ("session_test_id,email,session_uuid,trial_id,rating_stimulus,rating_score,rating_time,rating_comment\nt,,r1,s1,heron,4,900,\nt,,r2,s1,teal,2,900,\n", FileOptions()),  # noqa: E501
        ("questionaire_uuid,wm_id,responses_stimulus,responses_score\nr1,s1,heron,4\nr2,s1,teal,2\n", FileOptions()),
        ("uuid,trial_id,responses.stimulus,responses.score\nr1,s1,heron,4\nr2,s1,teal,2\n", FileOptions()),
        ("WorkerId,Input.Q1,Input.Q2,Answer.q1,Answer.q2\nr1,https://x/heron/s1.wav,,4,\nr2,https://x/teal/s1.wav,,2,\n", FileOptions()),  # noqa: E501
        ("WorkerId,Input.audio_url,Answer.mos\nr1,heron/s1.wav,4\nr2,teal/s1.wav,2\n", FileOptions()),
        ("rater item system score\nr1 s1 heron 4\nr2 s1 teal 2\n", FileOptions()),
        ('"rater","item","system","score"\n"1","r1","s1","heron",4\n"2","r2","s1","teal",2\n', FileOptions()),
        ("rater,item,system,score\nr1,s1,heron,4 - Good\nr2,s1,teal,NA\nr2,s1,teal,Poor\n", FileOptions()),
        ("subject,audio_path,votes\nr1,wavs/heron/s1.wav,4\nr2,wavs/teal/teal_s1.wav,2\n", FileOptions()),
        ("rater,item,age,heron,teal\nr1,s1,30,4,\nr2,s1,40,nan,2\n", FileOptions()),
        ("rater,age,heron_s1,heron_s2,teal_s1,teal_s2\nr1,30,4,,,\nr2,40,,NA,2,\n", FileOptions(columns={"score": "heron_s1,heron_s2,teal_s1,teal_s2"})),  # noqa: E501
        ("rater,item,heron,teal,rank\nr1,s1,4,,1\nr2,s1,,2,2\n", FileOptions(columns={"score": "heron,teal"})),
    ],
)  # fmt: skip
def test_scores_of_other_programs(tmp_path: Path, text: str, options: FileOptions) -> None:
    found = read_answers(written(tmp_path / "v.csv", text), options)
    assert [rated(a) for a in found.answers] == [("r1", "s1", "heron", 4.0), ("r2", "s1", "teal", 2.0)]
    assert found.config.kind == "acr" and set(found.left_out) <= {"without a score"}


def test_json_of_other_programs(tmp_path: Path) -> None:
    rows = [{"rater": "r1", "item": "s1", "system": "heron", "score": 4.5}, {"rater": 2, "item": 7, "system": "teal", "score": None}]  # noqa: E501  # fmt: skip
    found = read_answers(written(tmp_path / "v.json", json.dumps(rows)))
    assert [rated(a) for a in found.answers] == [("r1", "s1", "heron", 4.5)]
    assert found.left_out == {"without a score": 1}
    responses = [{"stimulus": "reference", "score": 100, "time": 3}, {"stimulus": "anchor70", "score": 30, "time": 2}]
    trial = {"type": "mushra", "id": "piano", "responses": responses, "questionaire": {"uuid": "u1", "age": 30}}
    found = read_answers(written(tmp_path / "db.json", json.dumps({"_default": {"1": trial}})))
    assert [rated(a) for a in found.answers] == [("u1", "piano", "reference", 100.0), ("u1", "piano", "anchor70", 30.0)]
    assert found.config.kind == "mushra" and found.roles == {"reference": "reference", "anchor70": "anchor"}


def test_an_object_per_line_in_a_file_called_json(tmp_path: Path) -> None:
    text = '{"a": "x", "b": "y", "outcome": "a"}\n\n{"a": "x", "b": "y", "outcome": "b"}\n'
    votes, _ = read_votes(written(tmp_path / "v.json", text))
    assert votes.outcome.tolist() == [A, B]
    with pytest.raises(BadFile, match="cannot be read as JSON: Extra data"):
        read_votes(written(tmp_path / "w.json", text + "x"))


def test_mushra_of_webmushra_is_post_screened(tmp_path: Path) -> None:
    head = "session_test_id,session_uuid,trial_id,rating_stimulus,rating_score,rating_time,rating_comment"
    worth = {"reference": 100, "C1": 70, "anchor70": 40, "anchor35": 20}
    lines = [
        f"t,u{rater},page{page},{system},{50 if rater == 0 and system == 'reference' else score},1,"
        for rater in range(6)
        for page in range(5)
        for system, score in worth.items()
    ]
    found = file_results(read_answers(written(tmp_path / "mushra.csv", "\n".join([head, *lines]))))
    screen = found["tables"]["post_screen"]
    assert (screen["reference"], screen["mid_anchor"], screen["raters"]) == ("reference", "anchor70", 6)
    assert [one["rater"] for one in screen["excluded"]] == ["u0"]
    assert found["tables"]["questions"]["score"]["systems"]["two_way"]["C1"]["n"] == 25
    assert "u0" in markdown(found) and "reference (hidden)" in latex(found)


def test_votes_with_the_winner_in_words(tmp_path: Path) -> None:
    text = (
        "model_a,model_b,winner\nheron,teal,model_a\nheron,teal,teal\nteal,wren,tie\nwren,heron,tie (bothbad)\na,b,b\n"
    )
    votes, left_out = read_votes(written(tmp_path / "v.csv", text))
    assert votes.outcome.tolist() == [A, B, TIE, BOTH_BAD, B]
    assert votes.rater is None and votes.item is None and left_out == {}
    found = file_results(read_answers(tmp_path / "v.csv"))
    assert found["tables"]["choices"]["n"] == 5 and len(found["read_notes"]) == 2
    with pytest.raises(BadFile, match=r"line 2 of w\.csv has the outcome 'both of them'"):
        read_votes(written(tmp_path / "w.csv", "model_a,model_b,winner\nx,y,both of them\n"))


@pytest.mark.parametrize(
    "text",
    [
        "model_a,model_b,winner\nheron,teal,model_a\nheron,teal,model_b\n",
        "rater,item,a,b,outcome\nr1,s1,heron,teal,a\nr1,s2,heron,teal,b\nr5,s1,heron,teal,\n",
        "a;b;outcome\nheron;teal;a\nheron;teal;b\n",
        "sep=;\nA;B;Outcome\nheron;teal;a\nheron;teal;B\n",
        "a,b,wins_a,wins_b\nheron,teal,1,1\n",
        "model_a,model_b,winner_model_a,winner_model_b,winner_tie\nheron,teal,1,0,0\nheron,teal,0,1,0\n",
        "winner,loser\nheron,teal\nteal,heron\n",
        "participant,A,B,response\nr1,heron,teal,A\nr2,heron,teal,teal\nr3,heron,teal,NA\n",
        "home.team,away.team,home.wins,away.wins\nheron,teal,1,1\n",
        "system1,system2,preferred\nheron,teal,system1\nheron,teal,system2\n",
        "option_a,option_b,choice\nheron,teal,option_a\nheron,teal,option_b\n",
        "WorkerId,Input.sample_1,Input.sample_2,Answer.choice\nr1,heron,teal,sample_1\nr2,heron,teal,2\n",
        "# votes of May\na,b,outcome\nheron,teal,a\nheron,teal,b\n",
        '"a" "b" "outcome"\n"1" "heron" "teal" "a"\n"2" "heron" "teal" "b"\n',
        "session_uuid,trial_id,choice_reference,choice_non_reference,choice_answer\nr1,s1,heron,teal,reference\n"
        "r2,s1,heron,teal,non_reference\n",
    ],
)
def test_votes_of_any_shape_are_ranked_alike(tmp_path: Path, text: str) -> None:
    plain, _ = read_votes(written(tmp_path / "p.csv", "a,b,outcome\nheron,teal,a\nheron,teal,b\n"))
    votes, _ = read_votes(written(tmp_path / "v.csv", text))
    assert {s: r["elo"] for s, r in elo_report(votes)["systems"].items()} == {
        s: r["elo"] for s, r in elo_report(plain)["systems"].items()
    }


def test_sides_that_are_also_names_of_systems(tmp_path: Path) -> None:
    sides = "a,b,outcome\nb,a,a\nb,a,b\na,c,a\nc,d,a\n"  # nobody is called a in the last line
    votes, _ = read_votes(written(tmp_path / "s.csv", sides))
    assert votes.outcome.tolist() == [A, B, A, A]
    names = "a,b,outcome\nb,a,a\nb,a,b\na,c,a\nc,d,c\n"
    votes, _ = read_votes(written(tmp_path / "n.csv", names))
    assert votes.outcome.tolist() == [B, A, A, A]
    with pytest.raises(
        BadFile, match=r"has the outcome '[ab]', which may be a side or a system; write model_a or model_b"
    ):
        read_votes(written(tmp_path / "u.csv", "a,b,outcome\nb,a,a\na,b,b\n"))


def test_answers_given_twice_are_reported(tmp_path: Path) -> None:
    once = "rater,item,system,score\nr1,s1,heron,4\nr1,s2,heron,4\nr2,s1,heron,4\nr1,s1,teal,1\n"
    assert not any("further" in note for note in read_answers(written(tmp_path / "a.csv", once)).notes)
    twice = read_answers(written(tmp_path / "b.csv", once + "r1,s1,teal,2\nr1,s1,teal,2\n"))
    assert [note[:31] for note in twice.notes if "further" in note] == ["2 answers are further ones of a"]
    votes = "rater,item,a,b,outcome\nr1,s1,heron,teal,a\nr1,s1,teal,heron,a\n"
    assert "script and pair" in str(read_answers(written(tmp_path / "c.csv", votes)).notes)


def test_comparisons_of_a_file(tmp_path: Path) -> None:
    rows = [f"r{r},s{i},{a},{b},{2 if b == 'teal' else -2}" for r in range(6) for i in range(6) for a, b in (("heron", "teal"), ("teal", "heron"))]  # noqa: E501  # fmt: skip
    found = file_results(read_answers(written(tmp_path / "v.csv", "\n".join(["rater,item,a,b,score", *rows]))))
    [pair] = found["tables"]["comparisons"]["score"]["pairs"]
    assert (pair["a"], pair["b"], pair["cmos"]["two_way"]["mean"]) == ("heron", "teal", -2.0)
    assert found["kind"] == "ccr" and (found["questions"][0]["low"], found["questions"][0]["high"]) == (-3, 3)


def test_tables_with_a_column_per_question_and_shares_of_votes(tmp_path: Path) -> None:
    text = "rater,item,system,SIG,BAK\nr1,s1,heron,4,3\nr1,s1,teal,2,1\n"
    found = read_answers(written(tmp_path / "v.csv", text))
    assert [one.id for one in found.config.questions] == ["SIG", "BAK"] and len(found.answers) == 4
    assert found.notes[0] == "the columns SIG, BAK are read as questions; --column score=NAME,NAME chooses others"
    lines = '{"system": "heron", "score": 4}\n\n{"system": "teal", "score": 2}\n'
    assert len(read_answers(written(tmp_path / "v.jsonl", lines)).answers) == 2
    with pytest.raises(BadOption, match="no column 'bad' for score"):
        read_answers(tmp_path / "v.csv", FileOptions(columns={"score": "SIG,BAD"}))
    votes, _ = read_votes(written(tmp_path / "w.csv", "a,b,winner\nx,y,1\nx,y,0.5\nx,y,0\n"))
    assert votes.outcome.tolist() == [A, TIE, B]
    found = read_answers(written(tmp_path / "c.csv", "rater,a,b,response\nr1,x,y,-2\nr2,x,y,3\n"))
    assert found.config.kind == "ccr"
    crossed = "rater,heron_s1,heron_s2,teal_s1,teal_s2\nr1,4,3,2,1\n"
    found = read_answers(written(tmp_path / "x.csv", crossed))
    assert [rated(one) for one in found.answers][1] == ("r1", "s2", "heron", 3) and found.systems == ["heron", "teal"]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("a,b\nx,y\n", "no column that is known as outcome"),
        ("", "no answers"),
        ("a,b,outcome\n", "no answers"),
        ("a,b,outcome\nx,y,a\nx,y,C\n", "line 3 of v.csv has the outcome 'C'"),
        ("a,b,outcome\nx,y\n", r"no answers that count \(1 left out: without an outcome\)"),
        ("a,b,outcome\nx,x,a\n", "line 2 of v.csv compares 'x' with itself"),
        ("a,b,outcome\n,x,a\n", "line 2 of v.csv has no a"),
        ("a,b,outcome,rater\nx,y,a,r\nx,y,a,\n", "line 3 of v.csv has no rater"),
        ("a,b,outcome,item\nx,y,a,\n", "line 2 of v.csv has no item"),
        ('a,b,outcome\n"x,y,a\n', "line 2 of v.csv is not CSV"),
        ("rater,item,system,score\nr,i,s,fine\n", "line 2 of v.csv: 'fine' is not a number"),
        ("a,b,outcome\nx,y,0\nx,y,1\n", "only the outcomes 0 and 1"),
        ("rater,item,system,score\nr,i,s,1e9\n", "line 2 of v.csv has the score '1e9'"),
        ("rater,item,system,score\n" + "".join(f"r,i,s{k},3\n" for k in range(501)), "has 501 systems"),
        ("a,b,wins_a,wins_b\nx,y,1.5,2\n", "line 2 of v.csv has '1.5' wins_a"),
        ("a,b,wins_a,wins_b\nx,y,1e999,2\n", "line 2 of v.csv has '1e999' wins_a"),
    ],
)
def test_bad_file_is_named(tmp_path: Path, text: str, said: str) -> None:
    with pytest.raises(BadFile, match=said):
        read_answers(written(tmp_path / "v.csv", text))


def test_other_bad_files_and_options(tmp_path: Path) -> None:
    with pytest.raises(BadFile, match="there is no file"):
        read_votes(tmp_path / "none.csv")
    path = written(tmp_path / "v.csv", "rater,item,system,score\nr,i,s,3\n")
    for options, said in (
        (FileOptions(preset="excel"), "no preset"),
        (FileOptions(columns={"weight": "score"}), "no field 'weight'"),
        (FileOptions(columns={"rater": "who"}), "no column 'who' for rater"),
        (FileOptions(reference="nobody"), "no system 'nobody'"),
        (FileOptions(kind="mushra"), "a reference"),
        (FileOptions(kind="opera"), "not of the kind 'opera'"),
        (FileOptions(campaign="c"), "no export"),
    ):
        with pytest.raises(BadOption, match=said):
            read_answers(path, options)
    with pytest.raises(BadFile, match="scores, not votes"):
        read_votes(path)
    with pytest.raises(BadFile, match="a score is 3, the scale is 4 to 5"):
        read_answers(path, FileOptions(scale=(4, 5)))
    with pytest.raises(BadFile, match="cannot be read as JSON"):
        read_answers(written(tmp_path / "v.json", "[{]"))
    for text in ("5", "5:1", "1:5:9", "a:b", "0:1000", "1:2.5"):
        with pytest.raises(BadOption, match="the scale is"):
            parse_scale(text)
    assert (parse_scale("-3:3"), parse_scale("")) == ((-3, 3), None)


def exported(path: Path, *rows: dict[str, str]) -> Path:
    plain = {"campaign": "c", "rater": "r1", "item": "i1", "role": "test", "counted": "True", "use": "ok"}
    plain |= {"question": "preference", "system_a": "x", "system_b": "y", "outcome": "a"}
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, list(plain))
        writer.writeheader()
        writer.writerows(plain | row for row in rows)
    return path


def test_votes_of_an_export_are_those_that_the_analysis_counts(tmp_path: Path) -> None:
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
    votes, left_out = read_votes(path)
    assert len(votes) == 2 and votes.items == ["i1", "i2"] and votes.raters == ["r1"]
    assert list(left_out.values()) == [1] * 7 and sum(left_out.values()) == 7
    with pytest.raises(BadFile, match=r"no answers that count \(1 left out: answers to practice\)"):
        read_votes(exported(tmp_path / "none.csv", {"role": "training"}))
    path = exported(tmp_path / "e.csv", {}, {"campaign": "d"}, {"campaign": "d", "item": "i2"})
    with pytest.raises(BadFile, match=r"several campaigns \(c, d\)"):
        read_votes(path)
    votes, left_out = read_votes(path, FileOptions(campaign="d"))
    assert (len(votes), left_out) == (2, {"of another campaign": 1})


def test_commands(tmp_path: Path) -> None:
    rows = [f"r{r},s{i},{s},{1 + (r + i + len(s)) % 5}" for r in range(6) for i in range(6) for s in ("heron", "teal")]
    path = str(written(tmp_path / "v.csv", "\n".join(["WorkerId,item,system,score", *rows, "r9,s1,heron,"])))
    said = CliRunner().invoke(cli, ["campaign", "scores", path])
    assert said.exit_code == 0, said.output
    assert "Mean opinion score" in said.output and "1 rows left out: without a score" in said.output
    found = json.loads(CliRunner().invoke(cli, ["campaign", "scores", path, "--scale", "1:5", "--json"]).stdout)
    assert found["answers"] == 72 and found["tables"]["questions"]["score"]["systems"]["two_way"]["heron"]["n"] == 36
    for suffix in ("html", "tex", "md"):
        out = str(tmp_path / f"out.{suffix}")
        assert CliRunner().invoke(cli, ["campaign", "scores", path, "-o", out]).exit_code == 0
        assert "heron" in Path(out).read_text(encoding="utf-8")
    elo = ["campaign", "elo", path, "--column", "a=system", "--column", "b=item", "--column", "outcome=score"]
    assert "has the outcome" in str(CliRunner().invoke(cli, elo).exception)


@SQLITE_ONLY
def test_elo_of_an_old_export_without_kind_and_seed(world: World, tmp_path: Path) -> None:
    """Exports of older versions lack the columns of the design; the kind follows from the rows."""
    rated_campaign(world, tmp_path, replace(PAIRS, gates=Gates(level=False)))
    rate(world, "one")
    path = tmp_path / "old.csv"
    world.read(write_export, "first", path)
    rows = list(csv.reader(path.open(encoding="utf-8", newline="")))
    keep = [
        k for k, name in enumerate(rows[0]) if name not in ("kind", "seed", "baseline", "mid_anchor", "post_screen")
    ]
    with path.open("w", encoding="utf-8", newline="") as file:
        csv.writer(file).writerows([row[k] for k in keep] for row in rows)
    found = read_answers(path)
    assert found.config.kind == "ab" and found.seed == 0 and "older studio" in found.notes[0]


@SQLITE_ONLY
def test_seed_of_an_edited_export(world: World, tmp_path: Path) -> None:
    """A generator takes no negative seed, and a number may be beyond the range of a double."""
    rated_campaign(world, tmp_path, MOS)
    rate(world, "one")
    path = tmp_path / "a.csv"
    world.read(write_export, "first", path)
    names, *rows = csv.reader(path.open(encoding="utf-8", newline=""))

    def edited(column: str, cell: str) -> Path:
        with path.open("w", encoding="utf-8", newline="") as file:
            at = names.index(column)
            csv.writer(file).writerows([names, *([*row[:at], cell, *row[at + 1 :]] for row in rows)])
        return path

    assert read_answers(edited("seed", "11.0")).seed == 11
    for cell in ("-1", "-1.0", "-1e999", "9" * 5000):
        with pytest.raises(BadFile, match="seed"):
            read_answers(edited("seed", cell))
    with pytest.raises(BadFile, match="has score '1e999'"):
        read_answers(edited("score", "1e999"))


def lines_of(number: int, line: str) -> str:
    """Lines of answers by seven raters on five scripts; ``line`` has fields {n}, {two}, {three} and {score}."""
    names = (f"r{n % 7},s{n % 5}," for n in range(number))
    return "".join(
        name + line.format(n=n, two=n % 2, three=n % 3, score=n % 4 + 1) + "\n" for n, name in enumerate(names)
    )


@pytest.mark.parametrize(
    "text",
    [
        "rater,item,system,score,tags\n" + lines_of(90, "x{three},{score},t{two}"),
        "rater,item,a,b,winner,tags\n" + lines_of(90, "x,y{three},x,t{two}") + lines_of(30, "x,y1,tie,t1"),
        "rater,item,a,b,score\n" + lines_of(90, "x,y{two},{score}") + lines_of(20, "y1,x,-2"),
        "session_uuid,trial_id,rating_stimulus,rating_score\n"
        + lines_of(50, "reference,9{score}")
        + lines_of(50, "x{two},6{score}"),
    ],
)
def test_answers_that_share_marks_are_analysed_as_answers_one_by_one(tmp_path: Path, text: str) -> None:
    found = read_answers(written(tmp_path / "v.csv", text))
    one_by_one = marked(list(found.answers))
    assert len(found.answers.marks) < len(one_by_one.marks) == len(found.answers)
    assert file_results(found) == file_results(replace(found, answers=one_by_one))


@pytest.mark.parametrize("head", ["rater,item,system,score", "rater,item,a,b,outcome"])
def test_twelve_megabytes_of_answers_take_two_seconds_at_most(tmp_path: Path, head: str) -> None:
    score, vote = "P{:05},sentence_{},sys{},{}", "P{:05},sentence_{},sys{},tie{},tie"
    line = score if "score" in head else vote
    text = "\n".join([head, *(line.format(n % 5000, n % 200, n % 8, n * 7 % 5 + 1) for n in range(450_000))])
    file_results(read_answers(written(tmp_path / "few.csv", text[:9000].rsplit("\n", 1)[0])))  # imports modules
    path = written(tmp_path / "many.csv", text)
    start = time.process_time()
    file_results(read_answers(path))
    assert time.process_time() - start < 5, "2 s on a machine without other load"
