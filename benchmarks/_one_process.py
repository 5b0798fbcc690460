"""The baseline: tests in a fresh process, from the framework's import to the verdict, with the same tools.

    python _one_process.py TOOLS ACTIONS.json PREFIXES [SITE…]

``PREFIXES`` is a JSON object: the folder of each prefix, and its release.
``ACTIONS.json`` lists the tests, each a list of actions in order: ``folder``, ``request`` (as in action.json) and ``copies`` (pairs
of paths). A test ends where one fails. Prints the outcome of each, and the CPU seconds that it took.
"""

from __future__ import annotations

import json
import os
import resource
import shutil
import sys
from typing import Any


def main() -> None:
    tools, actions, prefixes, *sites = sys.argv[1:]
    sys.path[:0] = [tools]
    sys.path.extend(sites)
    from mlir_matrix.actions import contract

    contract.prefixes.update(json.loads(prefixes))

    with open(actions, encoding="utf-8") as file:
        chains = json.load(file)
    for chain in chains:
        before = cpu_s()
        outcome = perform_all(chain)
        print(json.dumps({**outcome, "cpu_s": cpu_s() - before}))
    sys.stdout.flush()
    # As our workers do: no framework tidies up.
    os._exit(0)


def perform_all(chain: list[dict[str, Any]]) -> dict[str, str]:
    """Perform the actions of a test and return the last outcome."""
    from mlir_matrix.actions.runtime.child import perform

    outcome = {"outcome": "nothing"}
    for action in chain:
        os.makedirs(action["folder"] + "/in", exist_ok=True)
        os.chdir(action["folder"])
        for source, path in action["copies"]:
            shutil.copyfile(source, path)
        outcome = perform(action["request"])
        if outcome["outcome"] != "ok":
            break
    return outcome


def cpu_s() -> float:
    """Return the CPU seconds of this process and of those that it started."""
    used = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(each.ru_utime + each.ru_stime for each in used)


if __name__ == "__main__":
    main()
