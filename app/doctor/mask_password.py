"""Masks the password of an address, so that it can be shown."""

import re


def mask_password(url: str) -> str:
    """The address with "..." for the password, between user and host or as a query parameter, also of Sentinels or a certificate."""
    return re.sub(r"(?<=//)([^/@:]*):.*@", r"\1:...@", re.sub(r"([?&](?:\w+_)?password=)[^&]*", r"\1...", url))
