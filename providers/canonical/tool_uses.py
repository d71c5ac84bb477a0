"""Uses that hosts bill by the use, and not by the token: searches, tools that the host runs, requests.

A name that ends in `_request` counts once for a request that used something at all, however often: Google bills its older models so.
Uses that no host bills (Anthropic's web fetch) are not counted.
"""

from collections.abc import Iterable, Mapping

from providers.canonical.token_counts import plausible_count

WEB_SEARCH = "web_search"
WEB_SEARCH_REQUEST = "web_search_request"
X_SEARCH = "x_search"
FILE_SEARCH = "file_search"
CODE_INTERPRETER = "code_interpreter"
MAPS_REQUEST = "maps_request"
# Perplexity's fee of a request, by how much of the web it may read.
SEARCH_CONTEXTS: Mapping[str, str] = {size: f"search_{size}" for size in ("low", "medium", "high")}
SEARCH_QUERY = "search_query"

KNOWN_TOOL_USES = (
    *(WEB_SEARCH, WEB_SEARCH_REQUEST, X_SEARCH, FILE_SEARCH, CODE_INTERPRETER, MAPS_REQUEST),
    *(*SEARCH_CONTEXTS.values(), SEARCH_QUERY),
)


def count_uses(counts: Iterable[tuple[str, int | float | None]]) -> Mapping[str, int] | None:
    """The uses by name, without those that were not reported, or reported as none; None: nothing was used."""
    uses: dict[str, int] = {}
    for name, reported in counts:
        count = plausible_count(reported)
        if count:
            uses[name] = uses.get(name, 0) + count
    return uses or None
