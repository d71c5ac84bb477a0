"""Dialect name -> Dialect: the only list of them."""

from collections.abc import Mapping

from providers.dialect import Dialect
from providers.dialects.openai_chat import OpenAIChat

DIALECTS: Mapping[str, Dialect] = {each.name: each for each in (OpenAIChat(),)}
