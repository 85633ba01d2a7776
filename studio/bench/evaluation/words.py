"""How written texts are read: numbers, signs and short forms against readings that a person wrote down.

A text is right if its spoken words and marks equal one of the readings; case and "and" do not count. Each text is also
read one character at a time, which must give the same words and spans. The readings were written before the rules; the
half "held" was not used while the rules were written.
"""

import json
import time
from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from studio.bench.evaluation.settings import WordsSetting
from studio.core.errors import BadFile
from studio.core.files import read_bounded
from studio.core.text.words import WordChanges, WordStream
from studio.measure.report import print_table
from studio.text.normalise import english

_MAX_BYTES = 4_000_000


def eval_words(setting: WordsSetting) -> dict[str, Any]:
    """Figures by kind and by half, the texts that are read otherwise, and milliseconds of CPU time a word.

    Raises:
        BadFile: the file holds no such lines.
        NeedsPackage: num2words is not installed.
    """
    rows = read_rows(setting.texts)
    kinds, right, halves, right_halves = Counter[str](), Counter[str](), Counter[str](), Counter[str]()
    wrong: list[dict[str, Any]] = []
    uneven: list[str] = []
    for row in rows:
        whole = read_in_parts([row["input"]])
        spoken = " ".join(one.word for one in whole.words)
        is_right = comparable(spoken) in map(comparable, row["right"])
        kinds[row["kind"]] += 1
        halves[row["half"]] += 1
        right[row["kind"]] += is_right
        right_halves[row["half"]] += is_right
        if not is_right:
            wrong.append({"input": row["input"], "said": spoken, "right": row["right"]})
        if read_in_parts(row["input"]) != whole:
            uneven.append(row["input"])
    began_s, words = time.process_time(), 0
    for row in rows:
        words += len(read_in_parts([row["input"]]).words)
    ms_a_word = 1000.0 * (time.process_time() - began_s) / max(1, words)
    return {
        "texts": setting.texts.name,
        "n": len(rows),
        "right": sum(right.values()),
        "share": sum(right.values()) / len(rows),
        "halves": {half: {"n": halves[half], "right": right_halves[half]} for half in halves},
        "kinds": {kind: {"n": kinds[kind], "right": right[kind]} for kind in kinds},
        "wrong": wrong,
        "failures": [f"read otherwise one character at a time: {text!r}" for text in uneven],
        "ms_a_word": ms_a_word,
    }


def show(figures: dict[str, Any]) -> None:
    """Print the figures."""
    halves = [(f"half: {half}", one["n"], one["right"]) for half, one in figures["halves"].items()]
    table = [("all", figures["n"], figures["right"]), *halves]
    table += [(kind, one["n"], one["right"]) for kind, one in figures["kinds"].items()]
    note = f"{figures['ms_a_word']:.3f} ms a word; read otherwise one character at a time: {len(figures['failures'])}"
    print_table("Texts read as a person would", ("kind", "texts", "right"), table, note)
    for one in figures["wrong"]:
        print_table(one["input"], ("", ""), [("said", one["said"]), ("right", one["right"][0])])


def comparable(spoken: str) -> str:
    """Spoken words without case and without the optional "and"."""
    return " ".join(word for word in spoken.lower().split() if word != "and")


def read_in_parts(parts: Iterable[str]) -> WordChanges:
    """The words of a text that arrives in parts."""
    stream, changes = WordStream(english()), WordChanges()
    for part in parts:
        changes.extend(stream.push(part))
    changes.extend(stream.end())
    return changes


def read_rows(path: Path) -> list[dict[str, Any]]:
    """The lines of a file of texts with readings. Raises BadFile."""
    try:
        rows = [json.loads(line) for line in read_bounded(path, _MAX_BYTES).decode("utf-8").splitlines() if line]
        assert rows and all(isinstance(row["input"], str) and row["right"] and row["kind"] for row in rows)
    except (OSError, ValueError, TypeError, KeyError, AssertionError) as error:
        shape = 'every line must be {"kind": "...", "half": "...", "input": "...", "right": ["..."]}'
        raise BadFile(f"{path} holds no texts with readings", shape) from error
    return [{"half": "", **row} for row in rows]
