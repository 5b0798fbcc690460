"""The program ``matrix``: installed, or straight from a checkout by ``python tools/mlir_matrix``."""

import os
import sys

# Looking for plug-ins of pydantic reads the metadata of every installed package: 15 ms for nothing.
os.environ.setdefault("PYDANTIC_DISABLE_PLUGINS", "1")
_here = os.path.dirname(os.path.realpath(__file__))
if __name__ == "__main__":
    # Python put this folder first: our modules, ``select`` among them, would then stand for the standard library's.
    sys.path[:] = [entry for entry in sys.path if os.path.realpath(entry) != _here]
    if (_folder := os.path.dirname(_here)) not in sys.path:
        sys.path.insert(0, _folder)
if sys.pycache_prefix is None and not os.path.isdir(f"{_here}/cli/__pycache__"):
    # Installed without bytecode, perhaps where nothing can be written.
    sys.dont_write_bytecode = True
    from mlir_matrix.actions.runtime import bytecode
    from mlir_matrix.base.paths import find_home

    bytecode.keep_in(str(find_home().bytecode))

from mlir_matrix.cli.main import main  # noqa: E402

if __name__ == "__main__":
    main()
