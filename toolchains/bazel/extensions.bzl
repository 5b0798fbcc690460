"""The module extension: a suite's plan as targets.

    matrix = use_extension("@mlir_matrix//toolchains/bazel:extensions.bzl", "matrix")
    matrix.suite(name = "matrix", tests = ["smoke"])
    use_repo(matrix, "matrix")
    register_toolchains("@matrix//_toolchains:all")
    register_execution_platforms("@matrix//_platforms:all")

makes `@matrix//pytorch/linalg-loops/x86_64:mlp` and so on. Environments become repositories, fetched when a test needs them.
"""

load(":hub.bzl", "hub")
load(":launcher.bzl", "run_matrix")
load(":unit.bzl", "unit", "unit_name")

_PLACES = {
    "catalogs": attr.string_list(
        doc = "Folders of other catalogs: absolute, or relative to the workspace of the main module.",
    ),
    "exec_properties": attr.string_dict(
        doc = "Properties for remote execution: `KEY` for all environments, `ENVIRONMENT:KEY` for one.",
    ),
    "name": attr.string(mandatory = True, doc = "The name of the repository of the tests."),
    "pins": attr.string_list(doc = "`COMPONENT=RELEASE`, as for `--pin`."),
}
_suite = tag_class(
    attrs = _PLACES | {
        "tests": attr.string_list(default = ["smoke"], doc = "Suites and test patterns, as for `matrix plan`."),
    },
    doc = "Tests that are planned when Bazel needs them, and again when a file of a catalog changes.",
)
_plan = tag_class(
    attrs = _PLACES | {
        "c_libraries": attr.label_keyed_string_dict(doc = "C libraries that are already built: object file to the action that builds it."),
        "packages": attr.string(doc = "The folder of installed packages. Missing packages are fetched."),
        "plan": attr.label(mandatory = True, doc = "The output of `matrix plan --sealed --format json`."),
        "tests": attr.string_list(doc = "The tests that were planned. `@NAME//:plan_is_current` then checks that the plan is current."),
    },
    doc = "Tests with a plan in a file.",
)

# Folders of a catalog that decide which environments tests need. `golden/` does not, and has a folder for each workload.
_ROOMS = ["matrix", "recipes", "toolchains"]

def _watch(mctx, folder):
    """Evaluate the extension again when anything below a folder changes."""
    todo = [folder]
    for _ in range(100000):
        if not todo:
            return
        path = todo.pop()
        if path.basename.endswith((".yaml", ".txt")):
            mctx.watch(path)
        elif path.is_dir:
            todo += path.readdir(watch = "yes")

def _folders(mctx, tag):
    main = mctx.path(Label("@@//:MODULE.bazel")).dirname
    return [
        folder if folder.startswith("/") else str(main.get_child(folder) if folder not in [".", ""] else main)
        for folder in tag.catalogs
    ]

def _attributes(mctx, tag, root):
    return struct(catalogs = _folders(mctx, tag), pins = tag.pins, root = str(root))

def _properties(tag, known):
    for key in tag.exec_properties:
        environment, mark, _ = key.partition(":")
        if mark and environment not in known:
            fail("exec_properties of {}: there is no environment {} in it; there are {}".format(tag.name, environment, ", ".join(known)))
    return tag.exec_properties

def _matrix_impl(mctx):
    root = mctx.path(Label("//:MODULE.bazel")).dirname
    units = {}
    for module in mctx.modules:
        for tag in module.tags.suite + module.tags.plan:
            attributes = _attributes(mctx, tag, root)
            if hasattr(tag, "plan"):
                environments = json.decode(mctx.read(tag.plan))["environments"]
            else:
                for folder in [str(root)] + attributes.catalogs:
                    for room in _ROOMS:
                        _watch(mctx, mctx.path(folder).get_child(room))
                words = ["toolchain", "fetch"] + tag.tests + ["--sealed", "--dry-run", "--format", "json"]
                environments = json.decode(run_matrix(mctx, words, "asking what {} needs".format(tag.name), attributes))["environments"]
            for environment in environments:
                _add_units(units, environment, attributes, getattr(tag, "packages", ""))
            hub(
                name = tag.name,
                c_libraries = getattr(tag, "c_libraries", {}),
                catalogs = attributes.catalogs,
                exec_properties = _properties(tag, [environment["name"] for environment in environments]),
                pins = tag.pins,
                plan = tag.plan if hasattr(tag, "plan") else None,
                root = str(root),
                tests = tag.tests,
            )
    for name, arguments in units.items():
        unit(name = name, **arguments)

def _add_units(units, environment, attributes, packages):
    """Add the units of an environment. Environments share units."""
    found = environment.get("units", [])
    interpreters = [each for each in found if each["part"] == "interpreter"]
    for each in found:
        release = interpreters[0]["label"].split(" ")[1].split(".")
        units.setdefault(unit_name(each["folder"]), dict(
            catalogs = attributes.catalogs,
            environment = environment["name"],
            folder = each["folder"],
            interpreter = interpreters[0]["folder"],
            label = each["label"],
            packages = packages,
            part = each["part"],
            pins = attributes.pins,
            python = "python{}.{}".format(release[0], release[1]),
            reads = each.get("reads") or {},
            release = each.get("release") or "",
            root = attributes.root,
        ))

matrix = module_extension(
    implementation = _matrix_impl,
    tag_classes = {"plan": _plan, "suite": _suite},
    environ = ["MATRIX_HOME", "XDG_CACHE_HOME"],
)
