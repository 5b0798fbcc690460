"""Sketches of arrays, float64 and two-dimensional; what a sketch detects and what it misses, with proofs.

Row 0 is the header (:func:`header`). Each other row sums up a block of 4096 elements in C order, after sorting for order-free
comparison:

- how many elements are NaN, infinite and minus infinite, and for each a hash of their places;
- a hash of the elements, rounded to the output's dtype, by which equal blocks are recognised;
- of the finite ones, as doubles: L1 and L2 norm, the largest size, and 32 projections, which are sums with random signs;
- 8 elements at random places.

Random numbers come from :mod:`prng`, and sums are taken by halves, so that equal outputs have equal sketches on every machine.

A block has n <= 4096 elements, expected e and actual a, d = a - e. Element i may be off by b_i = atol + rtol abs(e_i), so that
by the triangle inequality norm(b) <= B = atol sqrt(n) + rtol norm(e), all norms Euclidean. A projection is r.d for random
signs r_i, each as likely as the other and independent of the errors: they are fixed before any program is compiled.

*False alarms.* Where every element is within its bound, Hoeffding's inequality gives P(abs(r.d) > 8 B) <= 2 exp(-32), that is
2.5e-14 for each projection. Norms and elements that are kept are never off without reason: abs(norm(a) - norm(e)) <= norm(d).

*One wrong element.* If one element is off by delta and the others are right, r.d is delta or -delta plus something that is as
likely positive as negative, so that abs(r.d) >= abs(delta) in each projection with a probability of at least 1/2: where delta
is more than 8 B, all of 32 projections miss it with at most 2**-32. Where the others are exact abs(r.d) = abs(delta): it is
always seen. What is smaller is seen where it is kept: 8 of 4096.

*Errors all over.* Let norm(d) >= k B with k > 8, and Z = (r.d)**2. Then E Z = norm(d)**2 and E Z**2 <= 3 norm(d)**4. Paley and
Zygmund: P(Z > t E Z) >= (1 - t)**2 (E Z)**2 / E Z**2 >= (1 - t)**2 / 3. With t = (8 / k)**2 a projection shows it with at least
p = (1 - t)**2 / 3, and all of 32 miss it with at most (1 - p)**32: 1.3e-3 for k = 16, 1.6e-5 for k = 32, never less than
2.3e-6 by this proof. Where many elements are off alike projections are nearly normal, and it is 5e-14 for k = 16.

*Equal or not.* Where elements must be equal, and for NaN and infinities, hashes of 53 bits decide: 1e-16.
"""

from __future__ import annotations

import math
import zlib

import numpy as np
from numpy.typing import NDArray

from mlir_matrix.actions.numerics import dtypes, prng
from mlir_matrix.actions.numerics.dtypes import FLOATS, Array, Doubles

#: Elements that are summed up together, projections of each block, elements of it that are kept.
BLOCK, PROJECTIONS, SAMPLES = 4096, 32, 8
#: How many times the norm of its bounds a projection may be off.
FACTOR = 8.0
_SEED = 4
#: What the first number of a sketch says, and which form of it this is.
MAGIC, VERSION = float(0x6D6C6972), 1.0
_SIGNS, _PLACES, _PICKS, _VALUES = (prng.stream_key(_SEED, stream) for stream in range(4))

#: Columns of a block's row.
COUNTS, PLACES, EXACT = slice(0, 3), slice(3, 6), 6
L1, L2, LARGEST = 7, 8, 9
SIGNED = slice(10, 10 + PROJECTIONS)
PICKED = slice(10 + PROJECTIONS, 10 + PROJECTIONS + SAMPLES)
WIDTH = PICKED.stop
#: Blocks that are summed up at a time: their signs take 8 MiB.
_AT_ONCE = 8
_SIGN = np.uint64(1 << 63)
_NAN_WORD = np.uint64(0x7FF8_0000_0000_0000)


def false_alarm(projections: int = 1) -> float:
    """Bound the probability that any of these projections exceeds its bound although all elements are within theirs."""
    return min(1.0, 2 * math.exp(-(FACTOR**2) / 2) * projections)


def missed(k: float, projections: int = PROJECTIONS) -> float:
    """Bound the probability of missing a block whose errors have at least ``k`` times the norm of their bounds."""
    if k <= FACTOR:
        return 1.0
    return float((1 - (1 - (FACTOR / k) ** 2) ** 2 / 3) ** projections)


def missed_alone(projections: int = PROJECTIONS) -> float:
    """Bound the probability of missing one element that is off by more than ``FACTOR`` times that norm."""
    return 2.0**-projections


def sketch(expected: Array, dtype: str, compare: str) -> Doubles:
    """Return the sketch of a golden, which is sorted for order-free comparison."""
    flat = expected.reshape(-1)
    stored = dtypes.rounded(flat, dtype) if dtype in FLOATS else flat
    held = np.asarray(dtypes.decode(stored, dtype), dtype=np.float64)
    rows = summary(np.where(np.isinf(held), held, flat.astype(np.float64)), stored)
    return np.vstack([header(flat.size, dtype, compare), rows])


def header(elements: int, dtype: str, compare: str) -> Doubles:
    """Return row 0: which output the sketch is of, and how it was made."""
    ordered = float(compare == "order-free")
    told = (MAGIC, VERSION, elements, BLOCK, PROJECTIONS, SAMPLES, _SEED, zlib.crc32(dtype.encode()), ordered)
    row = np.zeros(WIDTH)
    row[: len(told)] = told
    return row


def summary(values: Doubles, stored: Array) -> Doubles:
    """Return a row for each block of a flat output, given as doubles and as stored."""
    step = _AT_ONCE * BLOCK
    # What overflows shows: no bound is infinite.
    with np.errstate(over="ignore", under="ignore", invalid="ignore"):
        starts = range(0, values.size, step)
        rows = [_rows(values[start : start + step], stored[start : start + step], start) for start in starts]
    return np.concatenate(rows) if rows else np.zeros((0, WIDTH))


def picks(elements: int) -> NDArray[np.int64]:
    """Return the linear indices of the elements to keep, by block."""
    blocks = -(-elements // BLOCK)
    starts = np.arange(blocks, dtype=np.uint64) * np.uint64(BLOCK)
    sizes = np.minimum(np.uint64(elements) - starts, np.uint64(BLOCK))
    index = np.arange(blocks * SAMPLES, dtype=np.uint64).reshape(blocks, SAMPLES)
    return (starts[:, None] + prng.below(_PICKS, index, sizes[:, None])).astype(np.int64)


def _rows(values: Doubles, stored: Array, start: int) -> Doubles:
    size = values.size
    index = np.arange(start, start + size, dtype=np.uint64)
    blocks = -(-size // BLOCK)
    rows = np.zeros((blocks, WIDTH))
    places = prng.bits(_PLACES, index)
    for column, special in enumerate((np.isnan(values), values == np.inf, values == -np.inf)):
        rows[:, column] = _folded(special.astype(np.float64))
        rows[:, PLACES.start + column] = _hash(np.where(special, places, np.uint64(0)))
    rows[:, EXACT] = _hash(prng.mix(_words(values, stored) + prng.bits(_VALUES, index)))
    finite = np.where(np.isfinite(values), values, 0.0)
    sizes = np.abs(finite)
    rows[:, L1] = _folded(sizes)
    rows[:, LARGEST] = _blocks(sizes).max(axis=-1)
    rows[:, L2] = _norms(_blocks(sizes), rows[:, LARGEST])
    words, plain = prng.bits(_SIGNS, index), finite.view(np.uint64)
    for number in range(PROJECTIONS):
        flipped = (words << np.uint64(63 - number)) & _SIGN
        rows[:, SIGNED.start + number] = _folded((plain ^ flipped).view(np.float64))
    whole = picks(start + size)[start // BLOCK :] - start
    rows[:, PICKED] = values[whole]
    return rows


def _words(values: Doubles, stored: Array) -> NDArray[np.uint64]:
    """Return the bits of stored elements, with one word for both zeros and one for all NaN."""
    width = stored.dtype.itemsize
    words = np.ascontiguousarray(stored).view(f"<u{width}").astype(np.uint64)
    return np.where(np.isnan(values), _NAN_WORD, np.where(values == 0, np.uint64(0), words))


def _blocks(flat: Array) -> Array:
    """Reshape [elements] to [blocks, 4096], padded with 0."""
    blocks = -(-flat.size // BLOCK)
    filled = np.zeros(blocks * BLOCK, dtype=flat.dtype)
    filled[: flat.size] = flat
    return filled.reshape(blocks, BLOCK)


def _folded(flat: Array) -> Array:
    """Return the sum of each block, by halves: in the same order on every machine."""
    return _halved(_blocks(flat))


def _halved(parts: Array) -> Array:
    while parts.shape[-1] > 1:
        half = parts.shape[-1] // 2
        parts = parts[..., :half] + parts[..., half:]
    return parts[..., 0]


def _hash(words: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """Return the sum of each block's words modulo 2**64, of which a double holds 53 bits."""
    return (_folded(words) >> np.uint64(11)).astype(np.float64)


def _norms(sizes: Doubles, largest: Doubles) -> Doubles:
    """Return L2 norms, scaled so that no square overflows or underflows."""
    scale = np.where(largest > 0, largest, 1.0)
    return np.sqrt(_halved((sizes / scale[:, None]) ** 2)) * scale
