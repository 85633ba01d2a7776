"""Validation of a card's JSON form, with readable messages."""

import re
from collections.abc import Callable, Mapping
from dataclasses import MISSING, fields
from typing import Any, cast

from studio.core.checks import escape_unprintable, is_number, is_printable
from studio.core.errors import BadVoice

Check = Callable[[Any], bool]

COMPARE = "compare it with a shipped card.json"
_MAX_DEPTH = 16  # of nested lists and objects: the JSON encoder recurses
_MAX_FILES = 64


def is_file_name(value: Any) -> bool:
    """Whether this names a card's file or a voice's folder: letters, digits, ``_``, ``-`` and dots, without a path."""
    return isinstance(value, str) and re.fullmatch(r"\w[\w.-]{0,79}", value) is not None


def check_keys(what: str, data: Any, form: Any) -> None:
    """Raises BadVoice unless ``data`` is an object with the keys of a dataclass; those with a default are optional."""
    if not isinstance(data, dict):
        raise BadVoice(f"{what} is not an object", COMPARE)
    keys = cast("dict[str, Any]", data).keys()
    known = {one.name: one for one in fields(form)}
    if unknown := sorted(keys - known.keys()):
        names = escape_unprintable(", ".join(unknown))
        raise BadVoice(f"{what} has unknown keys: {names:.200}", f"known are {', '.join(sorted(known))}")
    required = [name for name, one in known.items() if one.default is MISSING and one.default_factory is MISSING]
    if missing := [name for name in required if name not in keys]:
        raise BadVoice(f"{what} is not complete: it has no {', '.join(missing)}", COMPARE)


def check_values(card: Mapping[str, Any]) -> None:
    """Raises BadVoice where a value of a card's JSON form is invalid; ``check_option`` checks its options."""
    if not _is_shallow(card, _MAX_DEPTH):
        raise BadVoice(f"lists and objects of the card are nested more than {_MAX_DEPTH} deep", COMPARE)
    for name, (check, expected) in _CHECKS.items():
        if name in card and not check(card[name]):
            raise BadVoice(f"{name} of the card is {card[name]!r:.80}", f"it is {expected}; {COMPARE}")
    speaker, speakers = card.get("default_speaker"), card["speakers"]
    if speaker and speaker not in speakers:
        raise BadVoice(f"default_speaker of the card is {speaker!r:.80}", f"it is one of {', '.join(speakers)}")


def check_option(option: Mapping[str, Any]) -> None:
    """Raises BadVoice where an option of a card is invalid, or its default lies outside of its range."""
    values: dict[str, Any] = {"help": "", "low": None, "high": None, "choices": (), **option}
    name, kind, default, low, high = (values[key] for key in ("name", "kind", "default", "low", "high"))
    for key, (check, expected) in _OPTION_CHECKS.items():
        if not check(values[key]):
            raise BadVoice(f"{key} of the card's option {name!r:.80} is {values[key]!r:.80}", f"it is {expected}")
    if (low is None) != (high is None):
        raise BadVoice(f"the card's option {name!r} has only one of low and high", "give both or neither")
    if kind == "choice":
        fits, expected = default in values["choices"], f"one of {', '.join(values['choices']) or 'its choices'}"
    else:
        is_whole = kind == "int"
        fits = is_number(default) and (type(default) is int or not is_whole) and (low is None or low <= default <= high)
        expected = ("a whole number" if is_whole else "a number") + ("" if low is None else f" from {low} to {high}")
    if not fits:
        raise BadVoice(f"default of the card's option {name!r} is {default!r:.80}", f"it is {expected}")


def _is_shallow(value: Any, levels: int) -> bool:
    if not isinstance(value, dict | list | tuple):
        return True
    parts = cast("dict[Any, Any]", value).values() if isinstance(value, dict) else cast("list[Any]", value)
    return levels > 0 and all(_is_shallow(part, levels - 1) for part in parts)


def _is_name(value: Any) -> bool:
    return is_printable(value) and 0 < len(value) <= 80 and not set(value) & set("/\\:")


def _is_digest(value: Any) -> bool:
    return isinstance(value, str) and len(value) == 64


def _is_limit(value: Any) -> bool:
    return value is None or is_number(value)


def _is_object(value: Any) -> bool:
    return isinstance(value, dict)


def _is_one_of(*names: str) -> Check:
    return lambda value: isinstance(value, str) and value in names


def _is_whole(low: int, high: int) -> Check:
    return lambda value: type(value) is int and low <= value <= high


def _is_between(low: float, high: float) -> Check:
    return lambda value: is_number(value) and low <= value <= high


def _is_object_of(names: Check, values: Check, limit: int = _MAX_FILES) -> Check:
    return lambda value: (
        _is_object(value) and len(value) <= limit and all(map(names, value)) and all(map(values, value.values()))
    )


def _is_list_of(check: Check) -> Check:
    return lambda value: isinstance(value, list | tuple) and all(map(check, cast("list[Any]", value)))


def _are_speakers(value: Any) -> bool:
    return _is_list_of(_is_name)(value) and 0 < len(value) == len(set(value))


_NAME, _WHOLE, _TEXT = (_is_name, "a name without / and :"), "a whole number", (is_printable, "text")
_CHECKS: Mapping[str, tuple[Check, str]] = {
    **dict.fromkeys(("name", "family", "vocoder", "alphabet", "number_format"), _NAME),
    **dict.fromkeys(("title", "licence", "learned_from", "notes", "default_speaker"), _TEXT),
    "config": (_is_object, "an object"),
    "vocoders": (_is_object_of(_is_name, _is_object), "an object of objects by the names of vocoders"),
    "sample_rate_hz": (_is_whole(8_000, 192_000), _WHOLE),
    "frame_samples": (_is_whole(1, 192_000), _WHOLE),
    "phase": (_is_whole(0, 192_000), _WHOLE),
    "speakers": (_are_speakers, "a list of different names"),
    "temperature": (_is_between(0.0, 2.0), "a number from 0 to 2"),
    "look_ahead_words": (_is_whole(0, 1000), _WHOLE),
    "delay_frames": (_is_whole(0, 10_000), _WHOLE),
    "options": (_is_list_of(_is_object), "a list of options with name, kind, default and label"),
    "stored_in": (_is_one_of("bfloat16", "int8"), "bfloat16 or int8"),
    "parameters": (_is_object_of(_is_name, _is_whole(0, 2**63 - 1)), "an object of whole numbers by names"),
    "sha256": (
        _is_object_of(is_file_name, _is_digest),
        f"an object of up to {_MAX_FILES} digests by the names of files in the voice's folder",
    ),
    "figures": (_is_object, "an object"),
}
_OPTION_CHECKS: Mapping[str, tuple[Check, str]] = {
    **dict.fromkeys(("name", "label", "help"), _TEXT),
    "kind": (_is_one_of("int", "float", "choice"), "int, float or choice"),
    "choices": (_is_list_of(is_printable), "a list of texts"),
    "low": (_is_limit, "a number or null"),
    "high": (_is_limit, "a number or null"),
}
