"""Advice about settings of TensorZero that our configuration does not have, from settings_advice.toml."""

import tomllib
from collections.abc import Mapping
from pathlib import Path

_TABLES = tomllib.loads(Path(__file__).with_name("settings_advice.toml").read_text(encoding="utf-8"))

SECTIONS: Mapping[str, str] = _TABLES["sections"]
GATEWAY: Mapping[str, str] = _TABLES["gateway"]
