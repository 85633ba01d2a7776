"""A campaign's settings as the TOML file that ``--config`` takes."""

from typing import Any, cast

import tomlkit

from studio.mos.campaign.config import CampaignConfig, to_json


def to_toml(config: CampaignConfig) -> str:
    """Every setting, so that the file says the same on whichever template of the kind it is laid.

    What is not set (a baseline, a code) is left out, for TOML has no word for nothing.
    """
    return tomlkit.dumps(_set(to_json(config)))  # pyright: ignore[reportUnknownMemberType]


def _set(value: Any) -> Any:
    if isinstance(value, dict):
        known = {key: _set(one) for key, one in cast("dict[str, Any]", value).items() if one is not None}
        return {key: one for key, one in known.items() if one != {}}
    if isinstance(value, list):
        return [_set(one) for one in cast("list[Any]", value)]
    return tomlkit.string(value, multiline=True) if isinstance(value, str) and "\n" in value else value
