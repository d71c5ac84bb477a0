"""PrefixIndex: which endpoints have seen the beginning of a prompt, as far as this worker has sent it there. An approximation."""

from collections.abc import Iterable, Sequence
from typing import cast

import msgspec

from providers.canonical.raw_json import Body

_LEAST_BLOCK_BYTES = 64
_MAX_BLOCKS = 128
_GROWTH = 0.064  # the last of 128 blocks ends at 1 MB
# A worker's index takes some 150 bytes for each block.
_MAX_BLOCKS_KEPT = 131_072
_MIN_BLOCKS_OF_TEAM = 1_024
_MAX_TEAMS = 256

# What a prompt consists of, in every caller's API, in the order in which chat templates write it. `token_ids` (vLLM's generate) and
# `input_ids` are prompts of callers that tokenize themselves.
_PROMPT_FIELDS = ("tools", "system", "instructions", "messages", "prompt", "input", "token_ids", "input_ids")


def _block_ends() -> Iterable[int]:
    end = 0
    for _ in range(_MAX_BLOCKS):
        end += max(_LEAST_BLOCK_BYTES, int(end * _GROWTH))
        yield end


BLOCK_ENDS = tuple(_block_ends())
"""Where the blocks of a prompt end, in bytes. Blocks grow, so that a long prompt has as few as a short one needs."""


def prompt_of(body: Body) -> bytes:
    """The prompt in a caller's request, as far as blocks cover it: its JSON, which begins alike in all turns of a conversation."""
    room = BLOCK_ENDS[-1]
    pieces: list[bytes] = []
    for field in _PROMPT_FIELDS:
        value = body.get(field)
        if value is None:
            continue
        # The pipeline has replaced the value by a decoded one where it extended it (the history of a conversation, for example).
        piece = bytes(memoryview(value)[:room]) if isinstance(value, msgspec.Raw) else _encode(value, room)
        pieces.append(piece)
        room -= len(piece)
        if room <= 0:
            break
    return pieces[0] if len(pieces) == 1 else b"".join(pieces)


def _encode(value: object, room: int) -> bytes:
    """The first `room` bytes of a value's JSON: of a list, no more items are encoded than that takes."""
    if not isinstance(value, list):
        return msgspec.json.encode(value)[:room]
    out = bytearray(b"[")
    for item in cast("list[object]", value):
        if len(out) > 1:
            out += b","
        out += msgspec.json.encode(item)
        if len(out) > room:
            break
    return bytes(out[:room])


def block_keys(seed: object, prompt: bytes) -> list[int]:
    """A key for each complete block, which stands for it and all blocks before it. Keys of another `seed` are different ones.

    Python's hash of bytes is keyed by a secret of the process: no caller can construct two prompts with the same keys.
    """
    keys: list[int] = []
    length, start, key = len(prompt), 0, hash(seed)
    for end in BLOCK_ENDS:
        if end > length:
            break
        key = hash((key, prompt[start:end]))
        keys.append(key)
        start = end
    return keys


class _TeamBlocks:
    """Endpoints by block key, as bit sets: the newer blocks, and those that will be forgotten next."""

    __slots__ = ("newer", "older")

    def __init__(self) -> None:
        self.newer: dict[int, int] = {}
        self.older: dict[int, int] = {}


class PrefixIndex:
    """The endpoints to which one worker sent the blocks of prompts.

    The blocks used least recently are forgotten first, and no team's push out another's. Endpoints are bits:
    `1 << Endpoint.slot`.
    """

    def __init__(self) -> None:
        self._teams: dict[str, _TeamBlocks] = {}

    def find_holders(self, team_id: str, keys: Sequence[int], among: int) -> list[tuple[int, int]]:
        """Returns how many blocks from the first the endpoints of the set `among` hold.

        They are pairs of a set and its number, the largest last. Endpoints that hold none are left out.
        """
        blocks = self._teams.get(team_id)
        found: list[tuple[int, int]] = []
        if blocks is None:
            return found
        newer, older, held, number = blocks.newer.get, blocks.older.get, among, 0
        for key in keys:
            still_held = (newer(key, 0) | older(key, 0)) & held
            if still_held != held:
                if number:
                    found.append((held & ~still_held, number))
                held = still_held
                if not held:
                    return found
            number += 1
        if number:
            found.append((held, number))
        return found

    def add(self, team_id: str, keys: Sequence[int], slot: int) -> None:
        """Notes that a prompt is sent to the endpoint of a slot."""
        teams = self._teams
        blocks = teams.pop(team_id, None)
        if blocks is None:
            if len(teams) >= _MAX_TEAMS:
                del teams[next(iter(teams))]
            blocks = _TeamBlocks()
        teams[team_id] = blocks  # the last is the one used most recently
        bit, newer, older = 1 << slot, blocks.newer, blocks.older
        for key in keys:
            newer[key] = newer.get(key, 0) | older.get(key, 0) | bit
        if len(newer) > max(_MIN_BLOCKS_OF_TEAM, _MAX_BLOCKS_KEPT // (2 * len(teams))):
            blocks.older, blocks.newer = newer, {}
