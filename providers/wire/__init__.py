"""Pure functions on bytes, for what is done with each request and each chunk: in C where that was compiled, else in Python.

The two give the same results, for any bytes (tests/unit/wire). NARTHEX_WIRE=python turns the compiled ones off. Each returns
None whenever it is not sure that the usual code would do the same, which then decides.

    relay      an engine's HTTP chunks -> the caller's, for events that differ in their texts alone
    parse_response  an engine's HTTP response, where all of it is there, with a length and a body
    parse_request   a caller's POST, where all of it is there, with a length and a body
    edit_chat  an engine's whole answer to a chat -> the caller's, for one choice with a text

    count_structure, count_number_marks, holds    what is in a body, before it is decoded; these always have a result
"""

import importlib
import os
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

from providers.wire import twin

_SOURCE = Path(__file__).parent / "native.c"


def _load() -> Any:
    if os.environ.get("NARTHEX_WIRE") == "python":
        return twin
    try:
        native = importlib.import_module("providers.wire.native")
    except ImportError:  # it was not compiled, or for another machine
        return twin
    is_current = not _SOURCE.exists() or native.source_crc == zlib.crc32(_SOURCE.read_bytes())
    return native if is_current else twin


_functions = _load()
is_native = _functions is not twin

# What an engine sent, from the end of a chunk on; what is left of the content before; the data of each event up to its
# choices, and behind them; the frame of the caller up to its choices; and whether they have deltas, as chats have, or texts.
# -> HTTP chunks for the caller and the frames in them, both empty if no event is complete; what is left of the content; and
# how many bytes of UTF-8 the model wrote.
relay: Callable[[bytes, bytes, bytes, bytes, bytes, bool], tuple[bytes, bytes, bytes, int] | None] = _functions.relay

# The body, and the id, the episode's id and the model's name that the caller gets. -> The body for the caller, the tokens of the
# input and of the output, the finish reason, and the model's name as the engine has it.
edit_chat: Callable[[bytes, str, str, str], tuple[bytes, int, int, str, str] | None] = _functions.edit_chat

# A body -> how many objects and arrays it begins, and how many commas it has, those in strings included.
count_structure: Callable[[bytes], tuple[int, int]] = _functions.count_structure

# A body -> how many digits or points an e follows, as in 1e300, and how many times it has 300 digits or points in a row.
count_number_marks: Callable[[bytes], int] = _functions.count_number_marks

# A body, a part that it may hold, and the place of the byte of that part which is rarest in bodies.
holds: Callable[[bytes, bytes, int], bool] = _functions.holds

# -> The status, the reason, the header fields as they were sent, and the body. The connection may serve another request.
parse_response: Callable[[bytes], tuple[int, bytes, list[tuple[bytes, bytes]], bytes] | None] = _functions.parse_response

# -> The path, the header fields with names in lower case, and the body. There is one Host, and the connection stays open.
parse_request: Callable[[bytes], tuple[str, list[tuple[bytes, bytes]], bytes] | None] = _functions.parse_request
