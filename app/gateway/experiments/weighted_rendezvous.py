"""Weighted rendezvous hashing: which arm a unit gets, the same on every worker, with no state.

Each arm draws a number by hashing it with the unit, exponentially distributed with its weight as the rate; the smallest wins. So an arm
wins its weight's share of units, raising one weight moves units into that arm alone, and the order of the rest is drawn by weight too.
Weights are absolute: they need not sum to anything.

Source: https://datatracker.ietf.org/doc/draft-ietf-bess-weighted-hrw/, read 2026-11.
"""

import hashlib
import math
from collections.abc import Iterable


def order_arms(arms: Iterable[tuple[bytes, float]], salt: bytes, unit: bytes) -> list[int]:
    """The positions of the arms in this unit's order, without those of weight 0.

    Each of `arms` is a name that no other has, and its weight. `salt` belongs to what is drawn: draws with different salts are independent.
    """
    hashed = hashlib.blake2b(_field(salt) + _field(unit), digest_size=8)
    drawn: list[tuple[float, bytes, int]] = []
    for position, (name, weight) in enumerate(arms):
        if weight > 0:
            of_arm = hashed.copy()
            of_arm.update(name)
            # Between 0 and 1 and neither of them, exact in a float: dividing all 64 bits by 2**64 would round up to 1.
            uniform = ((int.from_bytes(of_arm.digest()) >> 12) + 0.5) * 2**-52
            drawn.append((-math.log(uniform) / weight, name, position))
    drawn.sort()
    return [position for _, _, position in drawn]


def _field(value: bytes) -> bytes:
    """Returns the value after its length, so that no two fields together are the same as two others."""
    return len(value).to_bytes(4, "big") + value
