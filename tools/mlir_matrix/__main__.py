"""Run the command line straight from a checkout: ``python tools/mlir_matrix``."""

from __future__ import annotations

import os
import sys
from pathlib import Path

if __name__ == "__main__":
    # Looking for plug-ins of pydantic reads the metadata of every installed package: 15 ms for nothing.
    os.environ.setdefault("PYDANTIC_DISABLE_PLUGINS", "1")
    sys.path.insert(0, str(Path(__file__).resolve().parent.parent))
    from mlir_matrix.cli import main

    main()
