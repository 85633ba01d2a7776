"""The listening tests that the papers ran, and those of ITU-T and ITU-R, as settings to begin a campaign with."""

import re
import tomllib
from pathlib import Path
from typing import Any, cast

from studio.core.errors import BadFile, BadOption
from studio.core.files import MAX_SETTINGS_BYTES, read_bounded
from studio.mos.campaign.config import CampaignConfig, from_json, to_json

_FOLDER = Path(__file__).parents[1] / "presets"
_SHARED = "shared"


def template_names() -> list[str]:
    """The names that ``template`` takes."""
    return sorted(path.stem for path in _FOLDER.glob("*.toml") if path.stem != _SHARED)


def template(name: str) -> CampaignConfig:
    """A test: its file in ``presets``, with the consent that all share.

    P.800's words of quality stand on ACR's 1 to 5 where the question is P.800's: one of quality.

    Raises:
        BadOption: there is no such template.
    """
    if name not in template_names():
        raise BadOption(f"there is no template {name!r}", f"there are {', '.join(template_names())}")
    data = _read(name)
    data["texts"] = {**_read(_SHARED)["texts"], **data["texts"]}
    data["texts"] = {key: text.strip() for key, text in data["texts"].items()}
    for question in data.get("questions", []):
        if data["kind"] == "acr" and question["id"] == "quality" and (question["low"], question["high"]) == (1, 5):
            question.setdefault("labels", labels("en"))
    return from_json(data)


def with_settings(name: str, path: Path | None) -> CampaignConfig:
    """A template with the settings of a TOML file in place of its own; tables are merged, lists replaced.

    Raises:
        BadFile: the file cannot be read.
        BadOption: there is no such template, or a setting is not known or out of its range.
    """
    config = template(name)
    return config if path is None else replaced(config, path)


def replaced(config: CampaignConfig, path: Path) -> CampaignConfig:
    """Settings with those of a TOML file in their place; tables are merged, lists replaced. Raises as above."""
    try:
        own = tomllib.loads(read_bounded(path, MAX_SETTINGS_BYTES).decode("utf-8"))
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise BadFile(f"the settings {path} cannot be read: {error}", "give a TOML file with settings") from error
    return from_json(_merged(to_json(config), own))


def labels(language: str) -> dict[str, str]:
    """The words of the five-point listening-quality scale (ITU-T P.800, B.4.5), by score "1" to "5".

    Raises:
        BadOption: the language is not there.
    """
    known = _read(_SHARED)["labels"]
    if language not in known:
        raise BadOption(
            f"there are no labels in {language!r}", f"there are labels in {', '.join(known)}; or write your own"
        )
    return dict(known[language])


def check_language(config: CampaignConfig) -> None:
    """Raises BadOption for a test in another language whose consent is still ours, in English."""
    language = config.texts.language
    if re.split("[-_]", language.lower())[0] == "en":
        return
    texts = [template(name).texts for name in template_names()]
    same = [name for name in _TRANSLATED if getattr(config.texts, name) in {getattr(t, name) for t in texts}]
    if "consent" in same:
        raise BadOption(
            f"the test is in {language!r:.40}, and its consent in English",
            f"write {' and '.join(f'texts.{name}' for name in same)} in that language",
        )


_TRANSLATED = ("title", "consent", "instructions", "thanks")


def _read(name: str) -> dict[str, Any]:
    return tomllib.loads((_FOLDER / f"{name}.toml").read_text(encoding="utf-8"))


def _merged(base: dict[str, Any], own: dict[str, Any]) -> dict[str, Any]:
    out = dict(base)
    for key, value in own.items():
        known = base.get(key)
        both = isinstance(value, dict) and isinstance(known, dict)
        out[key] = _merged(cast("dict[str, Any]", known), cast("dict[str, Any]", value)) if both else value
    return out
