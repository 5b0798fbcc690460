"""Run the command line straight from a checkout: ``python tools/mlir_matrix``."""

from __future__ import annotations

import os
import sys
from pathlib import Path

if __name__ == "__main__":
    # Looking for plug-ins of pydantic reads the metadata of every installed package: 15 ms for nothing.
    os.environ.setdefault("PYDANTIC_DISABLE_PLUGINS", "1")
    here = Path(__file__).resolve().parent
    # Python put this folder first: our modules, ``select`` among them, would then stand for the standard library's.
    sys.path[:] = [str(here.parent), *(entry for entry in sys.path if Path(entry).resolve() != here)]
    from mlir_matrix.cli import main

    main()
