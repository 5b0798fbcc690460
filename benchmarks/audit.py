"""``matrix golden audit`` over all workloads and 50 draws of their inputs: how many planted miscompiles that matter are caught.

benchmarks/run audit

Not a time but two shares, which are wanted to be 99 % at least, and 0.
"""

from __future__ import annotations

import json
import sys

from _matrix import matrix
from _timing import verdict

DRAWS = 50


def main() -> int:
    """Print the counts; exit code 1 where they are not what is wanted."""
    summary = json.loads(matrix("golden", "audit", "--seeds", str(DRAWS), "--format", "json"))["summary"]
    print(
        f"     {summary['planted']} planted, of which {summary['mattered']} matter and {summary['not_mattering']} do not; "
        f"{summary['allowed']} runs of what is allowed; {summary['weak']} weak tests, {summary['slack']} slack layers"
    )
    holds = [
        verdict("caught / mattered", summary["caught"] / summary["mattered"], 0.99, at_most=False),
        verdict("allowed variations flagged", summary["allowed_flagged"], 0, at_most=True),
    ]
    return 0 if all(holds) else 1


if __name__ == "__main__":
    sys.exit(main())
