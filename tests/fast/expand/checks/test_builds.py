"""What a build of sources says becomes words of command lines: what could be an option, or lie elsewhere, is refused."""

from __future__ import annotations

from typing import Any

import pytest

FILE = "toolchains/components/built.yaml"
GOOD = {
    "repository": "https://example.com/x.git",
    "folder": "llvm/tools",
    "options": "{LLVM_TARGETS_TO_BUILD: X86;AArch64, A: true}",
    "targets": "[mlir-opt]",
    "needs": '{llvm: {MLIR_DIR: "usr/lib/llvm-{major}/lib/cmake/mlir"}}',
}


def write(tree: Any, **changed: str) -> None:
    build = "".join(f"  {name}: {value}\n" for name, value in {**GOOD, **changed}.items())
    release = "releases: [{release: 1.0.0, commit: 0123456789abcdef0123456789abcdef01234567}]\n"
    tree.write(FILE, f"description: built\nprovider: source\nbuild:\n{build}{release}")


def test_valid_build_is_loaded(tree: Any) -> None:
    write(tree)
    build = tree.load().components["built"].document.build
    assert build.options == {"LLVM_TARGETS_TO_BUILD": "X86;AArch64", "A": True}


@pytest.mark.parametrize(
    ("changed", "words"),
    [
        ({"repository": "--upload-pack=x"}, "is not an address or folder that git can fetch from"),
        ({"repository": "'ext::sh -c x'"}, "is not an address or folder that git can fetch from"),
        ({"repository": '"a\\nb"'}, "is not an address or folder that git can fetch from"),
        ({"folder": "../x"}, "'../x' is no folder of the repository"),
        ({"folder": "/etc"}, "'/etc' is no folder of the repository"),
        ({"folder": "-x"}, "'-x' is no folder of the repository"),
        ({"folder": "a/.."}, "'a/..' is no folder of the repository"),
        ({"patches": "../x"}, "'../x' is no folder of the catalog"),
        ({"patches": "absent"}, "'absent' is no folder of the catalog"),
        ({"pins": "{lvm: version}"}, "there is no component 'lvm'; did you mean 'llvm'?"),
        ({"options": "{-P: x}"}, "'-P' is no variable of CMake"),
        ({"options": "{'A=1 -P': x}"}, "'A=1 -P' is no variable of CMake"),
        ({"targets": "[-f]"}, "is not a name"),
        ({"needs": "{llvm: {'A B': usr}}"}, "'A B' is no variable of CMake"),
        ({"needs": "{llvm: {A: ../../etc}}"}, "'../../etc' is no folder of a prefix, like 'usr/lib/cmake'"),
        ({"needs": "{lvm: {A: usr}}"}, "there is no component 'lvm'; did you mean 'llvm'?"),
    ],
    ids=lambda value: str(value)[:40],
)
def test_what_is_refused(tree: Any, changed: dict[str, str], words: str) -> None:
    from mlir_matrix.base.errors import CatalogError

    write(tree, **changed)
    with pytest.raises(CatalogError) as caught:
        tree.load()
    assert words in str(caught.value)
    assert FILE in str(caught.value)
