"""Counter-based random numbers: element *i* of a stream is a pure function of the stream's key and *i*.

All arithmetic is on 64-bit integers (modulo 2**64) or exactly rounded, hence the same everywhere. The mixing function
is the finalizer of SplitMix64 (Steele, Lea, Flood: Fast splittable pseudorandom number generators, 2014), applied twice
with the key in between, so that neighbouring seeds and neighbouring elements have nothing in common.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

Words = NDArray[np.uint64]
Doubles = NDArray[np.float64]

_MASK = 2**64 - 1
_STEP = 0x9E3779B97F4A7C15  # 2**64 divided by the golden ratio
_FIRST = 0xBF58476D1CE4E5B9
_SECOND = 0x94D049BB133111EB
_ROUNDS = 8


def _word(value: int) -> np.uint64:
    return np.uint64(value & _MASK)


def mix(words: Words) -> Words:
    """Permute 64-bit words so that each input bit flips each output bit half of the time."""
    words = (words ^ (words >> np.uint64(30))) * np.uint64(_FIRST)
    words = (words ^ (words >> np.uint64(27))) * np.uint64(_SECOND)
    return words ^ (words >> np.uint64(31))


def stream_key(seed: int, stream: int) -> Words:
    """Return the key of one stream of a seed, as an array of one word. Seeds count modulo 2**64."""
    start = np.array([_word(seed + _STEP)], dtype=np.uint64)
    return mix(mix(start) + _word((stream + 1) * _STEP))


def bits(key: Words, index: Words) -> Words:
    """Return 64 random bits for each index."""
    return mix(mix(index * np.uint64(_STEP) + key) ^ key)


def uniform(key: Words, index: Words) -> Doubles:
    """Return multiples of 2**-53 in [0, 1)."""
    return (bits(key, index) >> np.uint64(11)).astype(np.float64) * 2.0**-53


def normal(key: Words, index: Words) -> Doubles:
    """Return nearly normal numbers within ±3.47 (mean 0, standard deviation 1): sums of four uniform ones (Irwin-Hall).

    The sum of four 32-bit integers is exact; its variance is 4/12, so the square root of 3 scales it.
    """
    low = np.uint64(0xFFFFFFFF)
    shift = np.uint64(32)
    total = np.zeros(index.shape, dtype=np.uint64)
    for part in (bits(key, index), bits(mix(key), index)):
        total = total + (part & low) + (part >> shift)
    # Each integer stands for the middle of its interval: add 4 halves, subtract the mean of 2.
    return (total.astype(np.float64) + 2.0 - 2.0**33) * 2.0**-32 * math.sqrt(3.0)


def below(key: Words, index: Words, span: Words) -> Words:
    """Return integers in [0, span); a span of at most 2**54 leaves a bias below 2**-10 of one count."""
    return bits(key, index) % span


def permutation(key: Words, index: Words, length: int) -> Words:
    """Return the position that a random permutation of its row, of ``length``, gives each linear index.

    A Feistel network permutes [0, 4**h), the least such range that holds the row; what lands outside walks on until it
    is inside, which is a permutation of the row. So each element can be computed without its row.
    """
    row, position = np.divmod(index, np.uint64(length))
    row_key = bits(key, row)
    half = max(1, math.ceil((length - 1).bit_length() / 2))
    outside = np.ones(index.shape, dtype=bool)
    while outside.any():
        position[outside] = _feistel(row_key[outside], position[outside], half)
        outside = position >= np.uint64(length)
    return position


def _feistel(key: Words, value: Words, half: int) -> Words:
    width, mask = np.uint64(half), np.uint64(2**half - 1)
    left, right = value >> width, value & mask
    for number in range(_ROUNDS):
        mixed = mix(key + _word((number + 1) * _STEP) + right * np.uint64(_SECOND))
        left, right = right, left ^ (mixed >> np.uint64(64 - half))
    return (left << width) | right
