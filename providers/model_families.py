"""All families of models whose rules go by version: what a name says, and whether a row of rules names its version.

A version without a row gets the rules of the newest row before it (rules_by_version.py). That is right for a model that came out since
yesterday; for a model that we ship a price for, tests/unit/profiles/test_model_families.py demands a row.
"""

from collections.abc import Callable, Sequence

from providers.profiles.chat_models import CHAT_MODELS
from providers.profiles.claude import models as claude
from providers.profiles.gemini import GEMINI
from providers.profiles.gpt import models as gpt
from providers.profiles.model_family import ModelVersion


def _find_claude(model: str) -> ModelVersion | None:
    parsed = claude.parse_name(model)
    if parsed is None:
        return None
    line, version = parsed
    return ModelVersion("Claude", line, version, version is None or claude.states_known_version(model))


def _find_gpt(model: str) -> ModelVersion | None:
    stated = gpt.read_version(model)
    return None if stated is None else ModelVersion("GPT", "", *stated)


_FINDERS: Sequence[Callable[[str], ModelVersion | None]] = (_find_claude, _find_gpt, GEMINI.find, *(family.find for family in CHAT_MODELS))


def find_model(model: str) -> ModelVersion | None:
    """The family, line and version of a model's name, as any host spells it; None: no family has rules for it."""
    return next((found for find in _FINDERS if (found := find(model)) is not None), None)
