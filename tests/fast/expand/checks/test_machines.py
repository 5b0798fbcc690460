"""What machine files say: each wrong thing with its place and sentence."""

from __future__ import annotations

from typing import Any

import pytest

from mlir_matrix.base.errors import CatalogError
from mlir_matrix.fleet.machines import find_machine

BOX = "matrix/machines/box.yaml"
RIGHT = """\
description: d
has:
  cpu: {architecture: x86_64, level: x86-64-v3}
  cores: 4
  memory-gib: 16
  devices: [/dev/kvm]
wants:
  suites: [smoke]
  require: ["*/plain/*/mlp"]
  leave-out: [{match: ["mlir/**"], reason: because}]
  budget-minutes: 10
  pins: {llvm: "19"}
  devices: [/dev/kvm]
"""


@pytest.mark.parametrize(
    ("old", "new", "error"),
    [
        ("x86-64-v3", "x86-64-v5",
         "3:31: x86_64 has no level 'x86-64-v5'; its levels are x86-64, x86-64-v2, x86-64-v3, x86-64-v4"),
        ("architecture: x86_64", "architecture: aarch64", "3:32: aarch64 has no level 'x86-64-v3'; it is of x86_64"),
        ("cores: 4", "cores: 0", "4:3: 'has.cores': must be greater than or equal to 1"),
        ("cores: 4", "cpus: 4", "4:3: unknown key 'cpus'; did you mean 'cpu'?"),
        ("[smoke]", "['*/plain/*/mpl']", "8:12: '*/plain/*/mpl' matches no test"),
        ("[smoke]", "[smok]", "8:12: there is no suite 'smok'; did you mean 'smoke'?"),
        ("*/plain/*/mlp", "*/plain/*/mpl", "9:13: '*/plain/*/mpl' matches no test: there is no workload 'mpl'; did you mean"),
        ("mlir/**", "mlir/{a/**", "10:24: '{a' has a '{' without its '}'"),
        ("match:", "tests:", "10:16: unknown key 'tests'; known: match, reason"),
        ("budget-minutes: 10", "budget-minutes: 0", "11:3: 'wants.budget-minutes': must be greater than 0"),
        ("budget-minutes: 10", "budget-minutes: -1.5", "11:3: 'wants.budget-minutes': must be greater than 0"),
        ("budget-minutes: 10", "budget-minutes: soon", "11:3: 'wants.budget-minutes': expected a number, got the text 'soon'"),
        ('llvm: "19"', 'llvm: "99"', "12:10: llvm has no release '99'"),
        ('llvm: "19"', 'lvm: "19"', "12:10: there is no component 'lvm'; did you mean 'llvm'?"),
        ("  devices: [/dev/kvm]\nwants", "wants", "12:13: it grants /dev/kvm, which it does not have; add it to has: devices"),
    ],
)  # fmt: skip
def test_each_wrong_thing_has_its_place(tree: Any, old: str, new: str, error: str) -> None:
    assert RIGHT.count(old) == 1
    tree.write(BOX, RIGHT.replace(old, new))
    tree.write(BOX.replace("box", "other"), RIGHT)
    found = tree.load()
    why = found.over["machines", "box"]
    assert f"{BOX}:{error}" in why
    assert why.endswith("; it is left out")
    assert list(found.machines) == ["other"], "a wrong file stops its machine only"
    with pytest.raises(CatalogError, match="it is left out"):
        find_machine(found, "box")


def test_a_right_machine_is_in_the_catalog(tree: Any) -> None:
    tree.write(BOX, RIGHT.replace("[smoke]", '[smoke, "*/plain/**"]'))
    assert list(tree.load().machines) == ["box"]
