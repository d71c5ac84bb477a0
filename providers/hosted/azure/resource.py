"""A resource on Azure: its name, its root below the URLs that people copy from the portal, and its credentials."""

import re
from collections.abc import Mapping
from typing import Any
from urllib.parse import quote

import httpx2

from providers.adapters.options import InvalidOption

RESOURCE_OPTION: Mapping[str, str] = {"resource": "the resource's name: the default of base_url is made from it"}
# Paths of base URLs as people copy them from the portal, with what clients of Anthropic's append.
_PORTAL_PATH = re.compile(r"(?:/openai(?:/v1)?|/models|/anthropic(?:/v1)?(?:/messages)?|/api/projects/[^/]+)$")
# Where Claude on Foundry is served, besides the addresses of one's own network.
_FOUNDRY_HOST = re.compile(r".+\.(?:services\.ai|openai|cognitiveservices)\.azure\.(?:com|us|cn)")


def resource_root(url: str) -> str:
    """A base URL without the path of one of its APIs."""
    return _PORTAL_PATH.sub("", url.rstrip("/"))


def serves_claude(url: str | None) -> bool:
    """Whether a base URL is that of a resource on Azure, which serves Anthropic's API for Claude alone."""
    return url is not None and _FOUNDRY_HOST.fullmatch(httpx2.URL(url).host) is not None


def check_url_option(options: Mapping[str, Any], option: str) -> None:
    """Raises InvalidOption for what a URL cannot hold as it is."""
    value = options.get(option, "x")
    if not isinstance(value, str) or not value or quote(value, safe="") != value:
        raise InvalidOption(f"Option {option} must be a name without characters that a URL escapes.")


def authorization(credential: str | None) -> list[tuple[str, str]]:
    """An Entra token is a JWT and goes into `authorization`; a key is never one and goes into `api-key`."""
    if not credential:
        return []
    is_token = credential.startswith("eyJ") and credential.count(".") == 2
    return [("authorization", f"Bearer {credential}") if is_token else ("api-key", credential)]
