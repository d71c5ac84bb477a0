"""Fields that no override may set: the request itself has them, or the gateway reads, bounds, checks or writes them."""

from collections.abc import Sequence
from typing import Any, cast

from providers.fields import OUTPUT_BOUND_FIELDS
from providers.request_overrides.refusal import refuse

MAX_VALUE_DEPTH = 32

# Top-level fields, of any dialect, that the request itself has, or that are the gateway's: names without `_`, in lower case.
_OWN_FIELDS = frozenset(
    {
        *("model", "modelid", "stream", "streamoptions", "n", "bestof", "candidatecount", "numreturnsequences"),
        *("messages", "prompt", "prompts", "input", "inputs", "inputids", "tokenids", "text", "system", "systeminstruction"),
        *("systemprompt", "contents", "content", "instructions", "items", "history", "chathistory", "message", "preamble", "documents"),
        *("conversation", "previousresponseid", "background", "store", "container", "cachedcontent"),
        *("tools", "toolchoice", "toolconfig", "functions", "functioncall", "responseformat", "outputconfig", "outputformat", "format"),
        *("guardrailconfig", "promptvariables", "requestid", "rid", "raw", "template", "chattemplate"),
    }
)
# Fields at any depth: bounds on output, output formats, media, and what the host keeps for its account.
_OWN_NAMES = frozenset(
    {
        *(name.replace("_", "") for name in OUTPUT_BOUND_FIELDS),
        *("maxtokencount", "maxoutputlength", "maxlength", "maxtotaltokens", "candidatecount", "numreturnsequences"),
        *("guidedjson", "guidedregex", "guidedchoice", "guidedgrammar", "structuraltag", "structuredoutputs", "regex", "ebnf", "grammar"),
        *("jsonschema", "responseschema", "responsejsonschema", "responsemimetype", "responseformat"),
        *("imageurl", "videourl", "audiourl", "fileurl", "imagedata", "videodata", "audiodata", "inputaudio", "inputimage", "inputfile"),
        *("url", "uri", "fileuri", "serverurl", "fileid", "fileids", "vectorstoreids", "connectorid", "cachedcontent", "container"),
    }
)


def check_names(tokens: Sequence[str], value: Any, path: str) -> None:
    """Raises InvalidRequest for what the request itself has fields for."""
    if _plain(tokens[0]) in _OWN_FIELDS:
        refuse(
            f"{path}.pointer", f"{tokens[0]!r:.60} is a field that the gateway reads or writes itself. Say it in the request's own fields"
        )
    for token in tokens:
        if _plain(token) in _OWN_NAMES:
            refuse(f"{path}.pointer", f"{token!r:.60} cannot be set so: the gateway bounds and checks it. Use the request's own fields")
    check_value(value, f"{path}.value")


def check_value(value: Any, path: str) -> None:
    pending: list[tuple[Any, int]] = [(value, 0)]
    while pending:
        node, depth = pending.pop()
        if depth > MAX_VALUE_DEPTH:
            refuse(path, f"a value may be nested {MAX_VALUE_DEPTH} levels deep")
        if isinstance(node, dict):
            for key, each in cast("dict[str, Any]", node).items():
                if _plain(key) in _OWN_NAMES:
                    refuse(path, f"{key!r:.60} cannot be set so: the gateway bounds and checks it. Use the request's own fields")
                pending.append((each, depth + 1))
        elif isinstance(node, list):
            pending.extend((each, depth + 1) for each in cast("list[Any]", node))


def _plain(name: str) -> str:
    return name.replace("_", "").replace("-", "").lower()
