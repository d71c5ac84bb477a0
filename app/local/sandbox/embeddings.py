"""Embeddings: unit vectors of hashed character trigrams and words. Equal texts are equal, similar ones near, at no cost."""

import base64
import re
from array import array
from collections.abc import Iterator, Sequence
from itertools import pairwise
from math import sqrt
from sys import byteorder
from typing import Any
from zlib import crc32

from app.local.sandbox.bodies import EmbeddingBody
from app.local.sandbox.errors import Malformed, TooLong
from app.local.sandbox.tokens import count

DIMENSIONS = 384
MOST_INPUTS = 2048
LONGEST_INPUT = 8192


def embed(body: EmbeddingBody) -> dict[str, Any]:
    """The whole answer. Raises Malformed or TooLong with the place of the input at fault."""
    inputs = read_inputs(body.input)
    size = body.dimensions or DIMENSIONS
    tokens = sum(check_length(place, each) for place, each in enumerate(inputs))
    vectors = [vector(each, size) for each in inputs]
    encode = write_base64 if body.encoding_format == "base64" else list[float]
    return {
        "object": "list",
        "model": body.model,
        "data": [{"object": "embedding", "index": index, "embedding": encode(each)} for index, each in enumerate(vectors)],
        "usage": {"prompt_tokens": tokens, "total_tokens": tokens},
    }


def read_inputs(given: str | Sequence[str | int | Sequence[int]]) -> list[str | Sequence[int]]:
    """A text, texts, token ids, or lists of token ids."""
    if isinstance(given, str):
        return [given]
    ids = [each for each in given if isinstance(each, int)]
    if ids and len(ids) < len(given):
        raise Malformed("input: mixes token ids with other things", "input")
    inputs: list[str | Sequence[int]] = [ids] if ids else [each for each in given if not isinstance(each, int)]
    if not 1 <= len(inputs) <= MOST_INPUTS:
        raise Malformed(f"input: has {len(inputs)} texts, where 1 to {MOST_INPUTS} are possible", "input")
    return inputs


def check_length(place: int, given: str | Sequence[int]) -> int:
    tokens = count(given) if isinstance(given, str) else len(given)
    if tokens == 0:
        raise Malformed(f"input[{place}]: is empty", "input")
    if tokens > LONGEST_INPUT:
        raise TooLong(f"input[{place}] has {tokens} tokens; sandbox-embed takes {LONGEST_INPUT}.", "input")
    return tokens


def vector(given: str | Sequence[int], size: int) -> "array[float]":
    sums = array("d", bytes(8 * size))
    # Features may cancel each other; this one no other can cancel, so no vector is zero.
    sums[0] = 0.5
    for feature in features(given):
        code = crc32(feature)
        sums[(code >> 1) % size] += 1.0 if code & 1 else -1.0
    length = sqrt(sum(each * each for each in sums))
    return array("f", [each / length for each in sums])


def features(given: str | Sequence[int]) -> Iterator[bytes]:
    if not isinstance(given, str):
        yield from (b"id %d" % each for each in given)
        yield from (b"ids %d %d" % pair for pair in pairwise(given))
        return
    words = re.findall(r"\w+|[^\w\s]", given.lower())
    for word in words:
        yield word.encode()
        framed = f"^{word}$"
        yield from (framed[at : at + 3].encode() for at in range(len(framed) - 2))
    yield from (f"{left} {right}".encode() for left, right in pairwise(words))
    # Case, spaces and order of the text in full, so that texts that differ do not often coincide.
    yield given.encode()


def write_base64(numbers: "array[float]") -> str:
    """Little-endian 32-bit floats, as OpenAI's clients read them."""
    if byteorder == "big":
        numbers = array("f", numbers)
        numbers.byteswap()
    return base64.b64encode(numbers.tobytes()).decode()
