"""Advice about settings of LiteLLM that our configuration does not have, from settings_advice.toml."""

import tomllib
from collections.abc import Mapping
from pathlib import Path

_TABLES = tomllib.loads(Path(__file__).with_name("settings_advice.toml").read_text(encoding="utf-8"))


def _by_key(section: str) -> Mapping[str, str]:
    return {key: str(each["advice"]) for each in _TABLES[section] for key in each["keys"]}


LITELLM_SETTINGS = _by_key("litellm_settings")
GENERAL_SETTINGS = _by_key("general_settings")
ROUTER_SETTINGS = _by_key("router_settings")
SECTIONS = _by_key("file")
ENTRY_PARAMETERS = _by_key("entry")
