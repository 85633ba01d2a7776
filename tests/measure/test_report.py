"""Reports: dated JSON that carries what is needed to repeat it."""

import json

from studio.measure.report import cell, git_sha, hardware, newest_results, plain, print_table, write_result


def test_a_result_says_on_what_and_by_which_command(tmp_path, monkeypatch):
    monkeypatch.setattr(
        "sys.argv", ["/usr/bin/studio", "bench", "latency", "--texts", "my texts.txt", "--cache", "/home/me", "--json"]
    )
    path = write_result("latency", {"rtf": 0.2, "none": float("nan"), "where": tmp_path}, tmp_path / "results")
    data = json.loads(path.read_text())
    assert path.name == f"latency-{data['date'][:10]}.json"
    assert data["command"] == "studio bench latency --texts 'my texts.txt' --json"
    assert data["rtf"] == 0.2
    assert data["none"] is None
    assert data["hardware"]["cores"] >= 1
    assert data["hardware"]["cpu"]
    assert {"python", "numpy"} <= set(data["versions"])


def test_a_command_tells_no_path_of_this_machine(tmp_path, monkeypatch):
    said = [
        "--texts",
        "/home/me/a b.txt",
        "--recogniser",
        "whisper:/opt/w",
        "--work=/var/x/",
        "--voices",
        "work/voices",
        "1:3",
    ]
    monkeypatch.setattr("sys.argv", ["/usr/bin/studio", "eval", "wer", *said])
    data = json.loads(write_result("wer", {}, tmp_path).read_text())
    told = "--texts 'a b.txt' --recogniser whisper:w --work=x --voices work/voices 1:3"
    assert data["command"] == f"studio eval wer {told}"


def test_no_voice_takes_anothers_place(tmp_path):
    today = write_result("wer", {"voice": "wren"}, tmp_path).name.removeprefix("wer-")
    assert write_result("wer", {"voice": "linnet:clara"}, tmp_path).name == f"wer-linnet-{today}"
    write_result("quality", {"voice": "wren"}, tmp_path)
    (tmp_path / "wer-2026-01-02.json").write_text("{}")
    (tmp_path / "wer-linnet-2026-01-02.json").write_text("{}")
    found = {voice: path.name for voice, path in newest_results("wer", tmp_path).items()}
    assert found == {"": f"wer-{today}", "linnet": f"wer-linnet-{today}"}


def test_no_checkout_no_sha(tmp_path):
    assert git_sha(tmp_path) == ""


def test_hardware_and_plain_values_are_json():
    json.dumps(hardware(), allow_nan=False)
    json.dumps(plain({1: (float("inf"), [float("nan")])}), allow_nan=False)


def test_tables_show_every_cell(capsys):
    print_table("A title", ["", "WER", "n"], [["teacher", 0.12345, 100], ["dMel", None, 7]], note="a note")
    out = capsys.readouterr().out
    for part in ("A title", "teacher", "0.123", "100", "dMel", "-", "a note"):
        assert part in out
    assert (cell(1.0), cell(None), cell("x")) == ("1.000", "-", "x")
