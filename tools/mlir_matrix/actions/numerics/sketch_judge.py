"""Judge an output by the sketch of its golden: which blocks are wrong, and by which check.

A block is right whose elements are all the expected ones rounded, by their hash. Any other must have the same NaN and
infinities, and where a tolerance allows errors its projections, norms and kept elements must be within what errors
within their bounds can come to (:mod:`sketch`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mlir_matrix.actions.numerics import dtypes, sketch
from mlir_matrix.actions.numerics.census import CensusCounter, plain
from mlir_matrix.actions.numerics.criteria import Criteria
from mlir_matrix.actions.numerics.dtypes import FLOATS, Array, Doubles
from mlir_matrix.actions.numerics.formats import FORMATS, Format
from mlir_matrix.actions.numerics.sketch import BLOCK, FACTOR, PROJECTIONS, SAMPLES, false_alarm, missed, missed_alone
from mlir_matrix.actions.params import JudgedOutput

Mask = NDArray[np.bool_]

#: Blocks that a verdict tells of.
_SHOWN = 5
_KINDS = ("NaN", "infinite", "minus infinite")
#: Sums of 4096 doubles by halves are this exact, relative to the sum of sizes, with room to spare.
_SLACK = 2.0**-47


class SketchError(ValueError):
    """A sketch that is not one of this output: nothing can be judged by it."""


@dataclass(frozen=True, kw_only=True)
class _Check:
    """One kind of check on all blocks: which fail, the share of the allowance that is used, and a sentence on a block."""

    fails: Mask
    used: Doubles
    words: Sequence[str]


def check_sketch(rows: Doubles, elements: int, dtype: str, compare: str) -> None:
    """Raise SketchError for rows that are no sketch of such an output."""
    wanted = sketch.header(elements, dtype, compare)
    if rows.ndim != 2 or rows.shape[1] != sketch.WIDTH or not rows.size or rows[0, 0] != sketch.MAGIC:
        raise SketchError("is no sketch")
    if not np.array_equal(rows[0], wanted):
        raise SketchError(f"is a sketch of another output: its header is {_told(rows[0])}, not {_told(wanted)}")
    if len(rows) != 1 + -(-elements // BLOCK):
        raise SketchError(f"has {len(rows) - 1} blocks, not {-(-elements // BLOCK)}")
    counts = rows[1:, sketch.COUNTS]
    if not ((counts >= 0) & (counts <= BLOCK) & (counts == np.rint(counts))).all():
        raise SketchError("holds impossible numbers of elements")
    if rows[1:, 0].sum() == elements:
        raise SketchError("holds nothing but NaN")


def _told(row: Doubles) -> str:
    return str([int(value) if np.isfinite(value) and value == np.rint(value) else plain(value) for value in row[:9]])


def judge_by_sketch(spec: JudgedOutput, actual: Array, rows: Doubles, criteria: Criteria) -> dict[str, Any]:
    """Judge an output of at least one element; ``actual`` is as stored, and sorted for order-free comparison."""
    shape, dtype, compare = actual.shape, str(spec["dtype"]), str(spec["compare"])
    flat = actual.reshape(-1)
    check_sketch(rows, flat.size, dtype, compare)
    expected = rows[1:]
    with np.errstate(all="ignore"):
        found = sketch.summary(np.asarray(dtypes.decode(flat, dtype), dtype=np.float64), flat)
        census, samples = _samples(flat, expected, dtype, criteria)
        checks, seen = _checks(expected, found, flat.size, dtype, criteria)
    checks = [samples, *checks]
    fails = np.asarray(np.any([check.fails for check in checks], axis=0))
    used = max(float(np.nanmax(check.used, initial=0.0)) for check in checks)
    told = {key: census[key] for key in ("max_abs", "max_rel", "max_ulp")}
    told |= {"error_used": plain(max(used, float(census["error_used"]))), "wrong": int(np.count_nonzero(fails))}
    told["sketch"] = {
        "blocks": len(expected),
        "wrong_blocks": int(np.count_nonzero(fails)),
        "samples": len(expected) * SAMPLES,
        "seen_alone": plain(seen),
        "missed_alone": missed_alone(),
        "missed_twice_that": missed(2 * FACTOR),
        "false_alarm": false_alarm(len(expected) * PROJECTIONS),
    }
    if not fails.any():
        reason = f"like the sketch in all {len(expected)} blocks; one element off by more than {seen:.3g} would show"
        return {**told, "elements": flat.size, "outcome": "pass", "reason": reason}
    return {**told, "outcome": "mismatch", "reason": f"{spec['name']}: {_reason(checks, fails, flat.size, shape)}"}


def _samples(flat: Array, expected: Doubles, dtype: str, criteria: Criteria) -> tuple[dict[str, Any], _Check]:
    """Compare the elements that were kept."""
    places = sketch.picks(flat.size)
    kept = expected[:, sketch.PICKED]
    golden = dtypes.golden_storage(dtype)
    # Whole numbers beyond 2**53 are not kept exactly; hashes have them.
    known = (np.abs(kept) < 2.0**53) if golden.kind != "f" else np.ones(kept.shape, dtype=bool)
    whole = CensusCounter((places.size,), dtype, criteria=criteria)
    right = np.where(known, kept, 0.0).astype(golden)
    got = np.where(known, flat[places], np.zeros((), dtype=flat.dtype))
    whole.add(got.reshape(-1), right.reshape(-1))
    fails, words = np.zeros(len(kept), dtype=bool), [""] * len(kept)
    for block in range(len(kept)) if whole.wrong else ():
        census = CensusCounter((SAMPLES,), dtype, criteria=criteria)
        census.add(got[block], right[block])
        if census.wrong:
            worst = census.result()["worst"][0]
            fails[block] = True
            place = int(places[block, worst["index"][0]])
            words[block] = (
                f"element {place}: expected {worst['expected']}, actual {worst['actual']}, bound {float(worst['bound']):.3g}"
            )
    return whole.result(), _Check(fails=fails, used=np.zeros(len(kept)), words=words)


def _checks(
    expected: Doubles, found: Doubles, elements: int, dtype: str, criteria: Criteria
) -> tuple[list[_Check], float]:
    """Return all other checks, and the largest error of one element that may be missed."""
    exact = found[:, sketch.EXACT] == expected[:, sketch.EXACT]
    special = _special(expected, found)
    if dtype not in FLOATS or not (criteria.atol or criteria.rtol or criteria.max_ulp):
        unequal = _Check(
            fails=~exact,
            used=np.where(exact, 0.0, np.inf),
            words=["not equal, by the hash of all elements"] * len(exact),
        )
        return [special, unequal], 0.0
    atol, rtol = _reach(criteria, FORMATS[dtype])
    count = np.full(len(expected), float(BLOCK))
    count[-1] = elements - BLOCK * (len(expected) - 1)
    count -= expected[:, sketch.COUNTS].sum(axis=1)
    l1, l2, largest = (expected[:, column] for column in (sketch.L1, sketch.L2, sketch.LARGEST))
    slack = _SLACK * (found[:, sketch.L1] + l1)
    norm = atol * np.sqrt(count) + rtol * l2
    seen = FACTOR * norm + slack
    checks = [
        _projections(expected, found, seen),
        _norm("L2 norm", expected, found, sketch.L2, norm + slack),
        _norm("L1 norm", expected, found, sketch.L1, atol * count + rtol * l1 + slack),
        _norm("largest size", expected, found, sketch.LARGEST, (atol + rtol * largest) * (1 + _SLACK)),
    ]
    # Nothing else tells where NaN and infinities are others, or where all is equal.
    skip = special.fails | exact
    rest = [_Check(fails=each.fails & ~skip, used=np.where(skip, 0.0, each.used), words=each.words) for each in checks]
    return [special, *rest], float(seen.max())


def _reach(criteria: Criteria, format: Format) -> tuple[float, float]:
    """Return absolute and relative bounds that hold for every right element, by any criterion.

    Whatever the tolerance, the nearest number of the dtype is right: it is within a last place, the next ones are within two and so
    on. A last place is at most 2 u of the number before it, or the least of all.
    """
    places = 1 + (criteria.max_ulp or 0)
    return (
        max(criteria.atol, places * format.least),
        max(criteria.rtol, float(np.expm1(places * np.log1p(2 * format.u))) if criteria.max_ulp else format.u),
    )


def _special(expected: Doubles, found: Doubles) -> _Check:
    counts, places = sketch.COUNTS, sketch.PLACES
    differ = (found[:, counts] != expected[:, counts]) | (found[:, places] != expected[:, places])
    words = []
    for block, kinds in enumerate(differ):
        parts = []
        for kind in np.flatnonzero(kinds):
            right, got = (int(rows[block, kind]) for rows in (expected, found))
            parts.append(
                f"{got} {_KINDS[kind]}, expected {right}"
                if right != got
                else f"{got} {_KINDS[kind]}, as expected, but elsewhere"
            )
        words.append("; ".join(parts))
    fails = differ.any(axis=1)
    return _Check(fails=fails, used=np.where(fails, np.inf, 0.0), words=words)


def _projections(expected: Doubles, found: Doubles, allowed: Doubles) -> _Check:
    apart = np.abs(found[:, sketch.SIGNED] - expected[:, sketch.SIGNED])
    beyond: Mask = ~(apart <= allowed[:, None]) | ~np.isfinite(allowed)[:, None]
    words = []
    for block, off in enumerate(apart):
        least, most = float(off.min()), float(off.max())
        alone = f", as if one element were off by {most:.3g}" if least > 0.98 * most else ""
        count = int(np.count_nonzero(beyond[block]))
        words.append(f"{count} of {PROJECTIONS} projections beyond {allowed[block]:.3g}, by up to {most:.3g}{alone}")
    return _Check(fails=np.any(beyond, axis=1), used=_share(apart.max(axis=1), allowed), words=words)


def _norm(what: str, expected: Doubles, found: Doubles, column: int, allowed: Doubles) -> _Check:
    right, got = expected[:, column], found[:, column]
    fails: Mask = ~(np.abs(got - right) <= allowed) | ~np.isfinite(allowed)
    words = [f"{what} {a:.9g}, expected {e:.9g}, bound {b:.3g}" for a, e, b in zip(got, right, allowed, strict=True)]
    return _Check(fails=fails, used=_share(np.abs(got - right), allowed), words=words)


def _share(apart: Doubles, allowed: Doubles) -> Doubles:
    return np.where(apart == 0, 0.0, np.where(np.isnan(apart), np.inf, apart / allowed))


def _reason(checks: list[_Check], fails: Mask, elements: int, shape: Sequence[int]) -> str:
    """Describe the wrong blocks; neighbours share the reason of the first."""
    wrong = np.flatnonzero(fails)
    runs = np.split(wrong, np.flatnonzero(np.diff(wrong) > 1) + 1)
    parts = []
    for run in runs[:_SHOWN]:
        first, last = int(run[0]) * BLOCK, min(elements, (int(run[-1]) + 1) * BLOCK) - 1
        begin, end = (dtypes.index_of(place, shape) for place in (first, last))
        why = next(check.words[int(run[0])] for check in checks if check.fails[run[0]])
        parts.append(f"elements {first} to {last} ({begin} to {end}): {why}")
    more = f"; and {len(runs) - _SHOWN} more ranges" if len(runs) > _SHOWN else ""
    return f"{wrong.size} of {fails.size} blocks of {BLOCK} elements are not like the sketch; {'; '.join(parts)}{more}"
