"""Loading whole catalogs: what is found, what is refused, and that nothing outside is read."""

from __future__ import annotations

import dataclasses
import os
import pickle
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from mlir_matrix.base.errors import CatalogError
from mlir_matrix.catalog.load import load
from mlir_matrix.catalog.models.toolchains import Containers
from mlir_matrix.expand.checks.validate import validate


def test_everything_is_found(tree: Any) -> None:
    catalog = tree.load()
    assert catalog.roots == (tree.path,)
    assert list(catalog.kinds) == ["linalg", "object", "torch", "tosa"]
    assert list(catalog.frameworks) == ["mlir", "pytorch"]
    assert list(catalog.steps) == ["canonical", "object", "tile", "torch-to-tosa", "tosa-to-linalg"]
    assert [list(getattr(catalog, name)) for name in ("pipelines", "targets", "suites")] == [
        ["plain"],
        ["x86_64"],
        ["releases", "smoke"],
    ]
    assert list(catalog.environments) == ["torch"]
    assert list(catalog.components) == ["iree", "llvm", "torch-mlir"]
    (known,) = catalog.known_good
    assert (known.name, known.source.file, known.root) == ("known-good", "toolchains/known-good.yaml", tree.path)


def test_later_catalogs_say_how_images_are_made(tree: Any, tmp_path: Path) -> None:
    """Key by key; without any file there are defaults."""
    assert tree.load().containers == Containers()
    tree.write("containers/images.yaml", "user: 5\nfirst: [numpy]\n")
    other = tmp_path / "other" / "containers"
    other.mkdir(parents=True)
    (other / "images.yaml").write_text("registry: registry.example.com:5000/ci\n")
    (other / "Dockerfile").write_text("FROM scratch\n")
    found = tree.load(other.parent).containers
    assert found == Containers(user=5, first=("numpy",), registry="registry.example.com:5000/ci")


def test_default_pins_are_the_known_good_ones_else_the_newest_that_stays(tree: Any) -> None:
    catalog = tree.load()
    assert catalog.default_pins("torch") == {"iree": "3.8.0", "llvm": "18.1.8", "torch-mlir": "20261001"}
    assert catalog.default_pins("any other") == {"iree": "3.8.0", "llvm": "19.1.7", "torch-mlir": "20261001"}
    tree.write("toolchains/known-good.yaml", "pins: {}\n")
    assert tree.load().default_pins("torch") == {"iree": "3.8.0", "llvm": "19.1.7", "torch-mlir": "20261001"}
    (tree.path / "toolchains/known-good.yaml").unlink()
    assert tree.load().default_pins("torch")["llvm"] == "19.1.7"
    tree.edit(
        "toolchains/components/torch-mlir.yaml", '{release: "20260901"}', '{release: "20260901", durability: rolling}'
    )
    tree.edit("toolchains/components/torch-mlir.yaml", "bindings:", "durability: rolling, bindings:")
    assert tree.load().default_pins("torch")["torch-mlir"] == "20261001"


def test_the_first_catalogs_pins_count_and_one_that_joins_pins_what_it_brings(
    tree: Any, make_tree: Callable[..., Any]
) -> None:
    other = make_tree(
        "other",
        {
            "toolchains/components/own.yaml": "description: x\nreleases: [{release: '1'}, {release: '2'}]\n",
            "toolchains/environments/own.yaml": "description: x\ncomponents: [own, llvm]\n",
            "toolchains/known-good.yaml": (
                "pins: {own: '1', llvm: 18.1.8}\n"
                "environments: {own: {llvm: 24.0.0-dev}, torch: {llvm: 24.0.0-dev, torch-mlir: '20260901'}}\n"
            ),
        },
    )
    catalog = tree.load(other.path)
    assert [entry.root for entry in catalog.known_good] == [tree.path, other.path]
    assert {name: catalog.default_pins("own")[name] for name in ("own", "llvm")} == {"own": "1", "llvm": "24.0.0-dev"}
    assert catalog.default_pins("torch") == {
        "iree": "3.8.0", "llvm": "18.1.8", "own": "1", "torch-mlir": "20260901",
    }  # fmt: skip
    assert catalog.default_pins("any other")["llvm"] == "19.1.7"


def test_a_catalog_adds_releases_to_a_component_of_another(tree: Any, make_tree: Callable[..., Any]) -> None:
    """In the order of their numbers; the default stays."""
    file = "toolchains/components/torch-mlir.yaml"
    other = make_tree("other", {file: "releases: [{release: '20260930'}, {release: '20261101'}]\n"})
    catalog = tree.load(other.path)
    entry = catalog.components["torch-mlir"]
    names = [release.release for release in entry.document.releases]
    assert names == ["20260901", "20260930", "20261001", "20261101"]
    assert (entry.root, entry.added["20260930"].root) == (tree.path, other.path)
    (tree.path / "toolchains/known-good.yaml").unlink()
    assert tree.load(other.path).default_pins("torch")["torch-mlir"] == "20261001"
    shown = other.write(file, "releases: [{release: '20260901'}]\ndescription: x\n")
    assert tree.errors(other.path) == [
        f"{shown}: it may only add 'releases': {file} defines the component torch-mlir",
        f"{shown}:2:1: unknown key 'description'; known: releases",
    ]
    other.write(file, "releases: [{release: '20260901'}]\n")
    place = catalog.components["torch-mlir"].source.position("releases", 0)
    assert tree.errors(other.path) == [
        f"{shown}:1:13: torch-mlir already has the release '20260901', at {place}; releases are added, not replaced"
    ]
    other.write(file, "releases: [{release: nightly}]\n")
    assert tree.errors(other.path) == [f"{shown}:1:13: 'nightly': a release's name begins with its number"]


def test_entries_know_their_files(tree: Any) -> None:
    catalog = tree.load()
    mlp, tile = catalog.workloads["mlp"], catalog.steps["tile"]
    folder = tree.path / "matrix" / "workloads" / "mlp"
    assert (mlp.name, mlp.root, mlp.folder) == ("mlp", tree.path, folder)
    assert mlp.files == {"pytorch.py": folder / "pytorch.py", "reference.py": folder / "reference.py"}
    assert mlp.reference == folder / "reference.py"
    assert mlp.golden == tree.path / "golden" / "mlp"
    assert mlp.source.file == "matrix/workloads/mlp/workload.yaml"
    assert mlp.source.position("inputs", "x", "shape", 1) == "matrix/workloads/mlp/workload.yaml:5:18"
    assert tile.files == {"tile.mlir": tree.path / "recipes/steps/tile/tile.mlir"}
    assert tile.cases == {"basic": tree.path / "recipes/steps/tile/tests/basic.mlir"}


def test_layers_are_general_first_and_know_their_place(tree: Any, make_tree: Callable[..., Any]) -> None:
    other = make_tree(
        "other",
        {
            "golden/tolerances.yaml": "layers: [{atol: 1, rtol: 0, rationale: theirs}]",
            "golden/mlp/tolerances.yaml": "layers: [{match: {output: y}, atol: 2, rtol: 0, rationale: theirs}]",
        },
    )
    layers = tree.load(other.path).layers
    assert [(layer.workload, layer.document.rationale) for layer in layers] == [
        (None, "the general one"),
        (None, "another"),
        (None, "theirs"),
        ("mlp", "special"),
        ("mlp", "theirs"),
    ]
    assert layers[1].position == "golden/tolerances.yaml:3:5"
    assert layers[4].position == f"{other.path}/golden/mlp/tolerances.yaml:1:10"


def test_a_catalog_is_a_value(tree: Any) -> None:
    catalog = tree.load()
    assert pickle.loads(pickle.dumps(catalog)) == catalog == tree.load()
    with pytest.raises(dataclasses.FrozenInstanceError):
        catalog.roots = ()


def test_a_folder_of_the_user_adds_to_the_repository(tree: Any, make_tree: Callable[..., Any]) -> None:
    other = make_tree(
        "other",
        {
            "matrix/workloads/own/workload.yaml": (
                "description: own\ninputs: {x: {shape: [], dtype: i64, formula: '3'}}\n"
                "outputs: {y: {shape: [], dtype: bool, compare: exact}}\n"
            ),
            "matrix/workloads/own/reference.py": "",
            "matrix/workloads/own/linalg.mlir": "",
        },
    )
    catalog = tree.load(other.path)
    assert list(catalog.workloads) == ["mlp", "own", "sums"]
    assert catalog.workloads["own"].root == other.path
    assert catalog.workloads["own"].golden == other.path / "golden" / "own"
    assert catalog.roots == (tree.path, other.path)


def test_the_same_name_in_two_catalogs_names_both_places(tree: Any, make_tree: Callable[..., Any]) -> None:
    other = make_tree("other", {"recipes/kinds/tosa.yaml": "description: mine\nfile: t.mlir"})
    assert tree.errors(other.path) == [
        f"{other.path}/recipes/kinds/tosa.yaml: 'tosa' is the name of two kinds; the other is recipes/kinds/tosa.yaml"
    ]


def test_the_same_folder_twice(tree: Any, tmp_path: Path) -> None:
    (tmp_path / "again").symlink_to(tree.path)
    assert tree.errors(tmp_path / "again") == [f"{tmp_path}/again: this catalog folder is given twice"]


def test_a_folder_that_is_missing_or_holds_nothing(tree: Any, tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    assert tree.errors(tmp_path / "none", tmp_path / "empty") == [
        f"{tmp_path}/empty: holds no catalog: none of matrix/, recipes/, toolchains/, containers/, golden/ is here",
        f"{tmp_path}/none: there is no such catalog folder",
    ]


def test_all_problems_at_once_sorted_and_at_most_twenty(tree: Any) -> None:
    for index in range(25):
        tree.write(f"recipes/kinds/k{index:02}.yaml", "description: a\nfile: 3\n")
    errors = tree.errors()
    assert len(errors) == 21
    assert errors[0] == "recipes/kinds/k00.yaml:2:1: 'file': expected a name, got the number 3; put it in quotes"
    assert errors == [*sorted(errors[:20]), "… and 5 more"]


BAD_NAMES = {
    "a b": "a space",
    "a;rm": "a shell character",
    "<b>": "HTML",
    "a$(id)": "a shell command",
    "..a": "dots first",
    "a..b": "two dots",
    "-a": "an option",
    "a\nb": "a new line",
    "a'b": "a quote",
    "ä": "not ASCII",
    "a%2f..%2fb": "a slash in disguise",
    "a\x1b[31m": "a terminal escape",
}


@pytest.mark.parametrize("name", BAD_NAMES, ids=list(BAD_NAMES.values()))
@pytest.mark.parametrize("place", ["recipes/kinds/{}.yaml", "matrix/workloads/{}/workload.yaml", "golden/{}/y.npy"])
def test_bad_names_are_refused(tree: Any, name: str, place: str) -> None:
    tree.write(place.format(name), "description: a\n")
    (error,) = tree.errors()
    assert "is not a name: letters, digits" in error
    assert error.startswith(place.split("{", maxsplit=1)[0])
    assert error.isprintable()


@pytest.mark.parametrize("place", ["recipes/kinds/{}.yaml", "matrix/workloads/{}/workload.yaml", "golden/{}/y.npy"])
def test_what_has_too_long_a_name_is_left_out(tree: Any, place: str) -> None:
    names = {section: list(entries) for section, entries in vars(tree.load()).items() if isinstance(entries, dict)}
    tree.write(place.format("x" * 65), "description: a\n")
    catalog = tree.load()
    (why,) = catalog.over.values()
    assert "is too long for a name: 65 characters, 64 at most; it is left out" in why
    assert why.startswith(place.split("{", maxsplit=1)[0])
    assert {section: list(vars(catalog)[section]) for section in names if section != "over"} == {
        section: found for section, found in names.items() if section != "over"
    }


def test_a_name_that_is_not_unicode(tree: Any) -> None:
    file = os.fsencode(tree.path / "recipes/kinds") + b"/\xff.yaml"
    with open(file, "wb"):
        pass
    (error,) = tree.errors()
    assert error.startswith("recipes/kinds/\\udcff.yaml: '\\udcff' is not a name")


@pytest.mark.parametrize(
    ("folder", "error"),
    [
        ("recipes/kinds/vector", "is a folder, but a kind is a file NAME.yaml"),
        ("toolchains/known-good.yml", "unknown folder; did you mean 'known-good.yaml'?"),
        ("recipes/step", "unknown folder; did you mean 'steps'?"),
        ("matrix/workloads/mlp/tests", "a folder is not expected in a workload's folder"),
        ("matrix/workloads/softmax", "workload.yaml is missing"),
    ],
)
def test_folders_that_nobody_would_read_are_refused(tree: Any, folder: str, error: str) -> None:
    (tree.path / folder).mkdir()
    assert tree.errors() == [f"{folder}: {error}"]


def test_leftovers_of_editors_and_companions_are_ignored(tree: Any) -> None:
    names = (
        ".tosa.yaml.swp",
        "tosa.yaml~",
        ".DS_Store",
        "tosa.yaml.123.new",
        ".#tosa.yaml",
        "#tosa.yaml#",
        "README.md",
        "BUILD.bazel",
        ".gitkeep",
    )
    for folder in (
        "matrix",
        "recipes",
        "recipes/kinds",
        "recipes/steps/tile",
        "recipes/steps/tile/tests",
        "golden/mlp",
    ):
        for name in names:
            tree.write(f"{folder}/{name}", "")
    tree.write("matrix/workloads/mlp/__pycache__/reference.pyc", "")
    tree.write("toolchains/locks/torch.json", "{}")
    assert list(tree.load().kinds) == ["linalg", "object", "torch", "tosa"]


@pytest.mark.parametrize(
    "link",
    [
        "matrix/suites/x.yaml",
        "matrix/workloads/x",
        "matrix/targets",
        "matrix",
        "golden",
        "golden/mlp/x.npy",
        "recipes/steps/tile/tests/x.mlir",
        "toolchains/environments/x.yaml",
    ],
)
def test_links_that_leave_the_catalog_are_refused(tree: Any, tmp_path: Path, link: str) -> None:
    outside = tmp_path / "outside"
    place = tree.path / link
    if place.exists():
        place.rename(outside)
    else:
        outside.write_text("description: secret")
    place.symlink_to(outside)
    errors = tree.errors()
    assert f"{link}: is a symbolic link that leaves the catalog; put the file itself here" in errors
    assert not any("secret" in error for error in errors)


def test_links_to_nowhere_and_in_circles_are_refused(tree: Any) -> None:
    (tree.path / "recipes/kinds/a.yaml").symlink_to("b.yaml")
    (tree.path / "recipes/kinds/b.yaml").symlink_to("a.yaml")
    (tree.path / "recipes/kinds/c.yaml").symlink_to("nothing")
    assert tree.errors() == [f"recipes/kinds/{x}.yaml: is a broken symbolic link" for x in "abc"]


def test_links_inside_are_followed(tree: Any) -> None:
    (tree.path / "recipes/kinds/tosa-1.yaml").symlink_to("tosa.yaml")
    (tree.path / "recipes/also").symlink_to("kinds")
    assert tree.errors() == ["recipes/also: unknown folder; known: kinds, pipelines, steps"]
    (tree.path / "recipes/also").unlink()
    assert tree.load().kinds["tosa-1"].document.description == "TOSA"


def test_what_is_no_file_is_refused_without_waiting_for_it(tree: Any) -> None:
    os.mkfifo(tree.path / "recipes/kinds/pipe.yaml")
    assert tree.errors() == ["recipes/kinds/pipe.yaml: is neither a file nor a folder"]


def test_nothing_is_written_or_run(tree: Any) -> None:
    before = sorted(path for path in tree.path.rglob("*"))
    tree.load()
    assert sorted(path for path in tree.path.rglob("*")) == before


def test_the_first_root_can_be_relative(tree: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tree.path)
    catalog = validate(load([Path()]), stale_goldens=True)
    assert catalog.kinds["tosa"].source.file == "recipes/kinds/tosa.yaml"
    assert catalog.workloads["mlp"].reference == Path("matrix/workloads/mlp/reference.py")


def test_an_unreadable_file(tree: Any) -> None:
    if os.geteuid() == 0:
        pytest.skip("root can read everything")
    (tree.path / "recipes/kinds/tosa.yaml").chmod(0)
    with pytest.raises(CatalogError, match=r"recipes/kinds/tosa.yaml: cannot be read: Permission denied"):
        tree.load()


def test_known_good_as_a_folder(tree: Any) -> None:
    (tree.path / "toolchains/known-good.yaml").unlink()
    (tree.path / "toolchains/known-good.yaml").mkdir()
    assert tree.errors() == ["toolchains/known-good.yaml: cannot be read: Is a directory"]
