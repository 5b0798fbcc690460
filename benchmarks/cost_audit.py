"""``matrix cost audit`` with 500 comparisons on this machine, beside the recorded ones: how often a comparison of times errs.

benchmarks/run cost_audit

Not a time but counts: of equal kernels that are called slower or faster, and of planted slowdowns that are not found.
"""

from __future__ import annotations

import json
import sys

from _matrix import matrix
from _timing import verdict

LIVE = 500


def main() -> int:
    """Print the counts; exit code 1 where they are not what is wanted."""
    document = json.loads(matrix("cost", "audit", "--live", str(LIVE), "--format", "json"))
    summary = document["summary"]
    (live,) = (each for each in document["comparisons"] if each["load"] == "live")
    print(f"     live: {live['words']}, {live['pairs']} pairs a comparison")
    holds = [
        verdict("equal programs called different", summary["false"] / summary["equal"], 0.001, at_most=True),
        verdict("of them after confirmation, and live", summary["confirmed_false"], 0, at_most=True),
        verdict("planted slowdowns found", summary["found_quiet"] / summary["planted_quiet"], 0.95, at_most=False),
        verdict("planted slowdowns called the same", summary["planted_same"], 0, at_most=True),
    ]
    return 0 if all(holds) else 1


if __name__ == "__main__":
    sys.exit(main())
