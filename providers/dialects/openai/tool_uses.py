"""The uses of tools billed by the use, as hosts that speak OpenAI's dialects report them."""

from collections.abc import Mapping, Sequence

import msgspec
from msgspec import Raw, Struct

from providers.canonical.raw_json import DECODE_ERRORS, NULL
from providers.canonical.tool_uses import (
    CODE_INTERPRETER,
    FILE_SEARCH,
    SEARCH_CONTEXTS,
    SEARCH_QUERY,
    WEB_SEARCH,
    X_SEARCH,
    count_uses,
)


class _ServerTools(Struct):
    """OpenRouter counts requests, xAI calls; xAI's searches in documents and in files cost the same.

    Sources: https://openrouter.ai/docs/use-cases/usage-accounting, read 2026-11; recording xai/18.
    """

    web_search_requests: int | None = None
    web_search_calls: int | None = None
    x_search_calls: int | None = None
    code_interpreter_calls: int | None = None
    file_search_calls: int | None = None
    document_search_calls: int | None = None


_server_tools_decoder = msgspec.json.Decoder(_ServerTools)
_text_decoder = msgspec.json.Decoder(str)
_number_decoder = msgspec.json.Decoder(int)


def read_tool_uses(search_context_size: Raw, search_queries: Raw, server_tools: Sequence[Raw]) -> Mapping[str, int] | None:
    """Returns None if no use was reported, or in another shape: that must not cost the token counts.

    `search_context_size` and `search_queries` are Perplexity's, whose models have a fee for each request, which depends on the
    former, or for each query. `server_tools` are objects of counts, of which the first that counts anything is read.
    """
    if search_context_size is NULL and search_queries is NULL and not any(each is not NULL for each in server_tools):
        return None
    try:
        counts: list[tuple[str, int | None]] = []
        if search_context_size != NULL:
            counts.append((SEARCH_CONTEXTS.get(_text_decoder.decode(search_context_size), ""), 1))
        if search_queries != NULL:
            counts.append((SEARCH_QUERY, _number_decoder.decode(search_queries)))
        for raw in server_tools:
            if raw != NULL:
                uses = _read_server_tools(_server_tools_decoder.decode(raw))
                counts += uses
                if any(count for _, count in uses):
                    break
    except DECODE_ERRORS:
        return None
    return count_uses([(name, count) for name, count in counts if name])


def _read_server_tools(tools: _ServerTools) -> list[tuple[str, int | None]]:
    return [
        (WEB_SEARCH, tools.web_search_requests if tools.web_search_calls is None else tools.web_search_calls),
        (X_SEARCH, tools.x_search_calls),
        (CODE_INTERPRETER, tools.code_interpreter_calls),
        (FILE_SEARCH, tools.file_search_calls),
        (FILE_SEARCH, tools.document_search_calls),
    ]
