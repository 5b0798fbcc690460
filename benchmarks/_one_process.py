"""The baseline: one test in a fresh process, from the framework's import to the verdict, with the same tools.

    python _one_process.py TOOLS ACTIONS.json [SITE…]

``ACTIONS.json`` lists actions in order: ``folder``, ``request`` (as in action.json) and ``copies`` (pairs of paths). Ends
where one fails, as the tests of such a chain do.
"""

from __future__ import annotations

import json
import os
import shutil
import sys


def main() -> None:
    tools, actions, *sites = sys.argv[1:]
    sys.path[:0] = [tools]
    sys.path.extend(sites)
    from mlir_matrix.actions.runtime.child import perform

    with open(actions, encoding="utf-8") as file:
        chain = json.load(file)
    outcome = {"outcome": "nothing"}
    for action in chain:
        os.makedirs(action["folder"] + "/in", exist_ok=True)
        os.chdir(action["folder"])
        for source, path in action["copies"]:
            shutil.copyfile(source, path)
        outcome = perform(action["request"])
        if outcome["outcome"] != "ok":
            break
    print(json.dumps(outcome))
    sys.stdout.flush()
    # As our workers do: no framework tidies up.
    os._exit(0)


if __name__ == "__main__":
    main()
