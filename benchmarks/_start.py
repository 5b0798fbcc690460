"""Start a benchmark, which finds our modules; what it starts does not, or else it would not be measured as a user starts it.

python benchmarks/_start.py benchmarks/reduce.py --count 100
"""

from __future__ import annotations

import runpy
import sys
from pathlib import Path


def start(arguments: list[str], name: str) -> None:
    """Run the file that the first argument names, as the module ``name``."""
    root = Path(__file__).resolve().parents[1]
    # Behind this folder, which has the modules that benchmarks share.
    sys.path[1:1] = [str(root / "tools"), str(root / "tests")]
    sys.argv[:] = arguments
    runpy.run_path(arguments[0], run_name=name)


if __name__ == "__main__":
    start(sys.argv[1:], "__main__")
