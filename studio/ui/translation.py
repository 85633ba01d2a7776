"""Pages in the browser's language: catalogues of texts, the choice of one, and translated markup.

A catalogue is a JSON object from English texts to those of one language. English stays in the source.
"""

import json
import re
from collections.abc import Collection, Mapping
from pathlib import Path

from fastapi import Request

ENGLISH = "en"
MAX_HEADER_CHARS = 1000  # of Accept-Language that are read; browsers send fewer than 100
# A text between tags, with the keys and buttons that it names; all white space around it stays.
_TEXT = re.compile(r"(?<=>)(\s*)((?:[^<]|<(kbd|b)>[^<]*</\3>)+?)(\s*)(?=<(?!kbd>|b>))")
_ATTRIBUTE = re.compile(r'(?<= )(aria-label|placeholder|title|alt|data-empty)="([^"]*)"')
_RANGE = re.compile(r"\s*([A-Za-z]{1,8}|\*)(?:-[A-Za-z0-9-]*)?\s*(?:;\s*q\s*=\s*(0(?:\.\d{0,3})?|1(?:\.0{0,3})?)\s*)?")


def read_catalogues(folder: Path | None) -> dict[str, dict[str, str]]:
    """The catalogues of a folder by language; English has an empty one. Without a folder, English only."""
    files = [] if folder is None else sorted(folder.glob("*.json"))
    return {ENGLISH: {}} | {file.stem: json.loads(file.read_text(encoding="utf-8")) for file in files}


def chosen_language(request: Request, languages: Collection[str]) -> str:
    """The language of ``?lang=``, else the browser's most preferred one of ours, else English."""
    if (requested := request.query_params.get("lang", "")) in languages:
        return requested
    best, best_weight = ENGLISH, 0.0
    for part in request.headers.get("accept-language", "")[:MAX_HEADER_CHARS].split(","):
        match = _RANGE.fullmatch(part)
        if match is None:
            continue
        language = ENGLISH if match[1] == "*" else match[1].lower()
        weight = 1.0 if match[2] is None else float(match[2])
        if language in languages and weight > best_weight:
            best, best_weight = language, weight
    return best


def translated(markup: str, texts: Mapping[str, str]) -> str:
    """Markup with its texts and labels translated where the catalogue has them."""

    def text(match: re.Match[str]) -> str:
        return f"{match[1]}{texts.get(' '.join(match[2].split()), match[2])}{match[4]}"

    def attribute(match: re.Match[str]) -> str:
        return f'{match[1]}="{texts.get(" ".join(match[2].split()), match[2])}"'

    return _ATTRIBUTE.sub(attribute, _TEXT.sub(text, markup)) if texts else markup
