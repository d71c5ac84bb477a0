"""Masks credentials and account names in the messages of hosts, by what they look like.

The secrets that the gateway itself sent are masked by providers/credentials/masking.py, whatever they look like.
"""

import re

# Credentials and account names in the messages of hosts ("Incorrect API key provided: sk-ab**12", "organization org-...").
_CREDENTIAL_PATTERN = re.compile(
    r"(?<![A-Za-z0-9])(?:(?P<account>sk|pk|rk|nx[bcs]?|gsk|xai|hf|fw|csk|pplx|nvapi|org|proj|acct)[-_]|(?P<cloud>AIza|AKIA|ASIA|ya29))"
    r"(?P<rest>[A-Za-z0-9*_\-.]{3,}[A-Za-z0-9*_\-])"
    r"|(?i:\bbearer)\s+(?P<bearer>[A-Za-z0-9*_\-.~+/=]{7,}[A-Za-z0-9*_\-~+/=])"
    r"|(?P<long>[A-Za-z0-9_\-]{32,})"
)
# Two changes from lower to upper case within a word: rare in names, and nearly certain in keys.
_MIXED_CASE = re.compile(r"[a-z][A-Z].*[a-z][A-Z]")
_MAX_CHARS = 2000


def mask_credentials(text: str) -> str:
    """The text with everything replaced that looks like a credential or an account, cut to 2,000 characters."""
    return _CREDENTIAL_PATTERN.sub(_mask_match, text[: 4 * _MAX_CHARS])[:_MAX_CHARS]


def _mask_match(match: re.Match[str]) -> str:
    """Keeps words that people write, such as `org-level`, `Bearer authentication` and names of models; masks random characters."""
    candidate = match["rest"] or match["bearer"] or match["long"]
    longest = max(re.split(r"[^A-Za-z0-9]", candidate), key=len)
    numbered = any(each.isdigit() for each in candidate)
    if match["long"]:
        secret = numbered and len(longest) >= (20 if len(candidate) >= 40 else 32)
    elif match["cloud"]:
        secret = len(candidate) >= 12
    else:
        secret = (
            "*" in candidate
            or len(candidate) >= 40
            or (len(candidate) >= 8 and (numbered or len(longest) >= 16 or _MIXED_CASE.search(candidate) is not None))
        )
    return "[masked]" if secret else match[0]
