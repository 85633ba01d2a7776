"""``studio campaign elo`` on public pairwise data: the strengths that R's packages print, and intervals by rater.

The counts are tables of published comparisons. The expected values are coefficients printed by BradleyTerry2 1.1-2 and
psychotools 0.7-2 on R 4.2.2, with the command beside each. R is not needed here.
"""

import json
import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from studio.cli import cli
from studio.core.errors import BadOption

# Stigler (1994): citations between journals of statistics. R: countsToBinomial(BradleyTerry2::citations)
CITATIONS = """player1,player2,win1,win2
Biometrika,Comm Statist,730,33
Biometrika,JASA,498,320
Biometrika,JRSS-B,221,284
Comm Statist,JASA,68,813
Comm Statist,JRSS-B,17,276
JASA,JRSS-B,142,325
"""

# Choisel & Wickelmaier (2007): a listening test of reproduction modes. R: summary(psychotools::SoundQuality$preference)
SOUND_QUALITY = """a,b,wins_a,wins_b
Mono,PhantomMono,268,515
Mono,Stereo,46,737
PhantomMono,Stereo,85,698
Mono,WideStereo,94,689
PhantomMono,WideStereo,126,657
Stereo,WideStereo,468,315
Mono,Matrix,65,718
PhantomMono,Matrix,99,684
Stereo,Matrix,391,392
WideStereo,Matrix,358,425
Mono,Upmix1,65,718
PhantomMono,Upmix1,104,679
Stereo,Upmix1,443,340
WideStereo,Upmix1,394,389
Matrix,Upmix1,411,372
Mono,Upmix2,81,702
PhantomMono,Upmix2,142,641
Stereo,Upmix2,504,279
WideStereo,Upmix2,436,347
Matrix,Upmix2,458,325
Upmix1,Upmix2,432,351
Mono,Original,61,722
PhantomMono,Original,101,682
Stereo,Original,399,384
WideStereo,Original,369,414
Matrix,Original,381,402
Upmix1,Original,373,410
Upmix2,Original,333,450
"""

# Dittrich, Hatzinger & Katzenbeisser (1998): students' preferences among business schools, with ties.
# R: aggregate(cbind(win1, win2, tied) ~ school1 + school2, BradleyTerry2::CEMS$preferences, sum)
SCHOOLS = """school1,school2,win1,win2,tied
London,Barcelona,217,67,19
Milano,Barcelona,104,132,67
Paris,Barcelona,157,109,37
St.Gallen,Barcelona,144,134,25
London,Milano,221,56,26
Paris,Milano,121,59,32
London,Paris,186,91,26
London,St.Gallen,208,73,22
Milano,St.Gallen,135,140,28
Paris,St.Gallen,165,119,19
Barcelona,Stockholm,172,90,41
London,Stockholm,250,34,19
Milano,Stockholm,157,100,46
Paris,Stockholm,203,70,30
St.Gallen,Stockholm,155,98,50
"""


def ranked(path: Path, text: str, *options: str) -> dict[str, Any]:
    """The JSON of ``studio campaign elo`` on a file of this text."""
    path.write_text(text, encoding="utf-8")
    said = CliRunner().invoke(cli, ["campaign", "elo", str(path), *options, "--json"], catch_exceptions=False)
    assert said.exit_code == 0, said.output
    return json.loads(said.stdout)


def abilities(found: dict[str, Any], reference: str, digits: int) -> dict[str, float]:
    """Log strengths relative to the reference, which is left out, rounded."""
    elo = {system: row["elo"] for system, row in found["systems"].items()}
    logits = {s: (value - elo[reference]) * math.log(10) / 400 for s, value in elo.items() if s != reference}
    return {system: round(value, digits) for system, value in logits.items()}


def test_citations_of_bradleyterry2(tmp_path: Path) -> None:
    found = ranked(tmp_path / "v.csv", CITATIONS, "--method", "mle")
    # BTabilities(BTm(cbind(win1, win2), journal1, journal2, data = countsToBinomial(citations)))
    assert abilities(found, "Biometrika", 7) == {
        "Comm Statist": -2.9490725,
        "JASA": -0.4795698,
        "JRSS-B": 0.2689541,
    }


def test_sound_quality_of_psychotools(tmp_path: Path) -> None:
    found = ranked(tmp_path / "v.csv", SOUND_QUALITY, "--method", "mle")
    assert found["votes"] == 28 * 783
    # print(coef(btmodel(SoundQuality$preference, ref = "Mono")), digits = 10)
    assert abilities(found, "Mono", 10) == {
        "PhantomMono": 0.5828622256,
        "Stereo": 2.6114201526,
        "WideStereo": 2.2896917463,
        "Matrix": 2.4795668728,
        "Upmix1": 2.3536517832,
        "Upmix2": 2.1099014871,
        "Original": 2.4757488719,
    }


@pytest.mark.parametrize(
    ("method", "printed"),
    [
        # print(BTabilities(BTm(cbind(win1.adj, win2.adj), school1, school2, data = CEMS$preferences)), digits = 7)
        ("mle", (1.0595741, -0.1501385, 0.3685397, -0.0128390, -0.5379056)),
        # print(coef(btmodel(schools, undecided = TRUE, ref = "Barcelona")), digits = 7) of their paircomp
        ("davidson", (1.2098695, -0.1709603, 0.4196014, -0.0146104, -0.6129325)),
    ],
)
def test_schools_of_bradleyterry2_and_psychotools(tmp_path: Path, method: str, printed: Sequence[float]) -> None:
    """Ties as half a win each, and with a probability of their own."""
    columns = "a=school1", "b=school2", "wins_a=win1", "wins_b=win2", "ties=tied"
    mapped = [option for column in columns for option in ("--column", column)]
    found = ranked(tmp_path / "v.csv", SCHOOLS, "--method", method, *mapped)
    cities = ("London", "Milano", "Paris", "St.Gallen", "Stockholm")
    assert abilities(found, "Barcelona", 7) == dict(zip(cities, printed, strict=True))


VOTES = [
    f"heron,teal,{'b' if (rater * 3 + script * 5) % 7 < 2 else 'a'},r{rater},s{script}"
    for rater in range(8)
    for script in range(6)
]


def test_intervals_by_rater_and_identical_rows(tmp_path: Path) -> None:
    """``--by-rater`` changes intervals and p values, never scores; rows that a file has twice are noted and counted."""
    text = "\n".join(["a,b,outcome,rater,item", *VOTES, *VOTES[:2]])
    both, by_rater = (ranked(tmp_path / "v.csv", text, *options) for options in ((), ("--by-rater",)))
    assert both["interval"].startswith("by rater and script: ")
    assert by_rater["interval"].startswith("by rater, for these scripts only: standard error times t(")
    for system, row in both["systems"].items():
        other = by_rater["systems"][system]
        assert other["elo"] == row["elo"] and other["lo"] != row["lo"]
    for found in (both, by_rater):
        assert found["votes"] == 50 and [note for note in found["notes"] if note.startswith("2 rows are identical")]
    said = CliRunner().invoke(cli, ["campaign", "elo", str(tmp_path / "v.csv"), "--by-rater"])
    assert "2 rows are identical to another one" in said.output and "for these scripts only" in said.output


@pytest.mark.parametrize(
    ("header", "options", "message"),
    [
        ("a,b,outcome,note,item", (), "the votes have no raters"),
        ("a,b,outcome,rater,item", ("--method", "dsm"), "the intervals of dsm take votes as independent"),
        ("a,b,outcome,rater,item", ("--method", "posterior"), "the intervals of posterior take votes as independent"),
    ],
)
def test_by_rater_needs_raters_and_a_method_with_clusters(
    tmp_path: Path, header: str, options: Sequence[str], message: str
) -> None:
    with pytest.raises(BadOption, match=message):
        ranked(tmp_path / "v.csv", "\n".join([header, *VOTES]), "--by-rater", *options)
