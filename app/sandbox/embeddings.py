"""Embeddings: unit vectors of hashed words and character trigrams. Equal texts have equal vectors, similar texts similar ones."""

import base64
import re
from array import array
from collections.abc import Iterator, Sequence
from itertools import pairwise
from math import sqrt
from sys import byteorder
from typing import Any
from zlib import crc32

from app.sandbox.protocol.errors import ContextLengthExceeded, InvalidRequest
from app.sandbox.protocol.request_schema import EmbeddingBody
from app.sandbox.text.tokens import count_tokens

DIMENSIONS = 384
MAX_INPUTS = 2048
MAX_INPUT_TOKENS = 8192
MAX_REQUEST_TOKENS = 150_000
"""Of all inputs together, which take half a second of the one process."""

MAX_REQUEST_NUMBERS = 2_097_152
"""Of all vectors together, which take a third of a second."""


def create_embeddings(body: EmbeddingBody) -> dict[str, Any]:
    """The response. Raises InvalidRequest or ContextLengthExceeded with the index of the invalid input."""
    inputs = read_inputs(body.input)
    size = body.dimensions or DIMENSIONS
    tokens = count_inputs(inputs)
    if len(inputs) * size > MAX_REQUEST_NUMBERS:
        message = f"dimensions: {len(inputs)} vectors of {size} numbers are more than {MAX_REQUEST_NUMBERS} numbers"
        raise InvalidRequest(f"{message}, the most that the sandbox takes in a request", "dimensions")
    vectors = [embed_item(each, size) for each in inputs]
    encode = write_base64 if body.encoding_format == "base64" else list[float]
    return {
        "object": "list",
        "model": body.model,
        "data": [{"object": "embedding", "index": index, "embedding": encode(each)} for index, each in enumerate(vectors)],
        "usage": {"prompt_tokens": tokens, "total_tokens": tokens},
    }


def read_inputs(raw_input: str | Sequence[str | int | Sequence[int]]) -> list[str | Sequence[int]]:
    """Texts or lists of token ids, from any of OpenAI's four shapes: a text, texts, token ids, lists of token ids."""
    if isinstance(raw_input, str):
        return [raw_input]
    ids = [each for each in raw_input if isinstance(each, int)]
    if ids and len(ids) < len(raw_input):
        raise InvalidRequest("input: mixes token ids with other things", "input")
    inputs: list[str | Sequence[int]] = [ids] if ids else [each for each in raw_input if not isinstance(each, int)]
    if not 1 <= len(inputs) <= MAX_INPUTS:
        raise InvalidRequest(f"input: has {len(inputs)} texts, where 1 to {MAX_INPUTS} are possible", "input")
    return inputs


def count_inputs(inputs: Sequence[str | Sequence[int]], field: str = "input") -> int:
    """The tokens of all inputs. Raises InvalidRequest or ContextLengthExceeded, as soon as they are too many."""
    tokens = 0
    for index, each in enumerate(inputs):
        tokens += check_length(index, each)
        if tokens > MAX_REQUEST_TOKENS:
            raise InvalidRequest(f"{field}: has more than {MAX_REQUEST_TOKENS} tokens, the most that the sandbox takes in a request", field)
    return tokens


def check_length(index: int, item: str | Sequence[int]) -> int:
    tokens = count_tokens(item) if isinstance(item, str) else len(item)
    if tokens == 0:
        raise InvalidRequest(f"input[{index}]: is empty", "input")
    if tokens > MAX_INPUT_TOKENS:
        raise ContextLengthExceeded(f"input[{index}] has {tokens} tokens; sandbox-embed takes {MAX_INPUT_TOKENS}.", "input")
    return tokens


def embed_item(item: str | Sequence[int], size: int) -> "array[float]":
    sums = array("d", bytes(8 * size))
    # Features may cancel each other out, but not this one, so no vector is zero.
    sums[0] = 0.5
    for feature in hash_features(item):
        code = crc32(feature)
        sums[(code >> 1) % size] += 1.0 if code & 1 else -1.0
    length = sqrt(sum(each * each for each in sums))
    return array("f", [each / length for each in sums])


def hash_features(item: str | Sequence[int]) -> Iterator[bytes]:
    if not isinstance(item, str):
        yield from (b"id %d" % each for each in item)
        yield from (b"ids %d %d" % pair for pair in pairwise(item))
        return
    words = re.findall(r"\w+|[^\w\s]", item.lower())
    for word in words:
        yield word.encode()
        bounded = f"^{word}$"
        yield from (bounded[start : start + 3].encode() for start in range(len(bounded) - 2))
    yield from (f"{left} {right}".encode() for left, right in pairwise(words))
    # The complete text, so that texts that differ only in case, spaces or order rarely have the same vector.
    yield item.encode()


def write_base64(numbers: "array[float]") -> str:
    """Little-endian 32-bit floats, as OpenAI's clients read them."""
    if byteorder == "big":
        numbers = array("f", numbers)
        numbers.byteswap()
    return base64.b64encode(numbers.tobytes()).decode()
