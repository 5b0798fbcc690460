"""Load a catalog in a process of its own, and list the tests of its suite ``all``: CATALOG [--list]."""

from __future__ import annotations

import sys
from pathlib import Path

from mlir_matrix.catalog.load import load
from mlir_matrix.expand.checks.validate import validate
from mlir_matrix.expand.suite import expand

found = validate(load([Path(sys.argv[1])]))
if sys.argv[2:] == ["--list"]:
    sys.stdout.write("\n".join(expand(found, found.suites["all"]).ids()) + "\n")
