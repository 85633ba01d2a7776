"""Campaign templates (the papers' tests and those of ITU-T and ITU-R) and settings files in TOML."""

import re
import tomllib
from pathlib import Path
from typing import Any, cast

import tomlkit

from studio.core.errors import BadFile, BadOption
from studio.core.files import MAX_SETTINGS_BYTES, read_bounded
from studio.mos.campaign.config import CampaignConfig, from_json, to_json

_FOLDER = Path(__file__).parents[1] / "presets"
_SHARED = "shared"


def template_names() -> list[str]:
    """Names for ``load_template``."""
    return sorted(path.stem for path in _FOLDER.glob("*.toml") if path.stem != _SHARED)


def load_template(name: str) -> CampaignConfig:
    """Load a preset, with the shared consent. Raises BadOption if it does not exist.

    Quality questions of an ACR test on 1 to 5 get the labels of P.800.
    """
    if name not in template_names():
        raise BadOption(f"there is no template {name!r}", f"there are {', '.join(template_names())}")
    data = _read(name)
    data["texts"] = {**_read(_SHARED)["texts"], **data["texts"]}
    data["texts"] = {key: text.strip() for key, text in data["texts"].items()}
    for question in data.get("questions", []):
        if data["kind"] == "acr" and question["id"] == "quality" and (question["low"], question["high"]) == (1, 5):
            question.setdefault("labels", quality_labels("en"))
    return from_json(data)


def with_settings(name: str, path: Path | None) -> CampaignConfig:
    """A template with overrides from a TOML file; tables are merged, lists replaced.

    Raises:
        BadFile: the file cannot be read.
        BadOption: the template does not exist, or a setting is unknown or out of range.
    """
    config = load_template(name)
    return config if path is None else override_settings(config, path)


def override_settings(config: CampaignConfig, path: Path) -> CampaignConfig:
    """Override settings with those of a TOML file. Raises as ``with_settings``."""
    try:
        own = tomllib.loads(read_bounded(path, MAX_SETTINGS_BYTES).decode("utf-8"))
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise BadFile(f"the settings {path} cannot be read: {error}", "give a TOML file with settings") from error
    return from_json(_merged(to_json(config), own))


def quality_labels(language: str) -> dict[str, str]:
    """Labels of the five-point listening-quality scale (ITU-T P.800, B.4.5), by score "1" to "5". Raises BadOption."""
    known = _read(_SHARED)["labels"]
    if language not in known:
        raise BadOption(
            f"there are no labels in {language!r}", f"there are labels in {', '.join(known)}; or write your own"
        )
    return dict(known[language])


def check_language(config: CampaignConfig) -> None:
    """Raises BadOption for a test in another language with the default English consent."""
    language = config.texts.language
    if re.split("[-_]", language.lower())[0] == "en":
        return
    texts = [load_template(name).texts for name in template_names()]
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


def to_toml(config: CampaignConfig) -> str:
    """All settings as TOML, so that the file is independent of its template. None is omitted: TOML has no null."""
    return tomlkit.dumps(_set(to_json(config)))  # pyright: ignore[reportUnknownMemberType]


def _set(value: Any) -> Any:
    if isinstance(value, dict):
        known = {key: _set(one) for key, one in cast("dict[str, Any]", value).items() if one is not None}
        return {key: one for key, one in known.items() if one != {}}
    if isinstance(value, list):
        return [_set(one) for one in cast("list[Any]", value)]
    return tomlkit.string(value, multiline=True) if isinstance(value, str) and "\n" in value else value
