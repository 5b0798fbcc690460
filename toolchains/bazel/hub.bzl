"""The repository of a plan: one package per cell, one target per test, and one target per action, which tests share."""

load(":launcher.bzl", "TOOL_ATTRS", "package", "run_matrix")
load(":unit.bzl", "unit_name")

# Folders of a catalog that actions read. Only this repository has the sources of the driver.
_ROOMS = ["matrix", "recipes", "golden", "tools/driver"]
_RULES = Label("//toolchains/bazel:rules.bzl")
_UNITS = Label("//toolchains/bazel:units.bzl")
_PUBLIC = 'package(default_visibility = ["//visibility:public"])\n'
_DEFINITIONS = """\
load("{rules}", "action_rule", "matrix_test", _c_library = "c_library")

c_library = _c_library

matrix_action = action_rule(
{words})

def cell_test(on = None, impossible = None, **arguments):
    needed = []
    if impossible:
        needed = [Label("//_because:" + impossible)]
    elif on:
        needed = select({{
            Label("//_targets:any"): [],
            "//conditions:default": [Label("//_targets:is_" + on)],
        }})
    matrix_test(
        exec_compatible_with = [Label("//_toolchains:in_tests")],
        repeat = {repeat},
        size = "small",
        target_compatible_with = needed,
        **arguments
    )
"""
_LETTERS = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789"

# Characters of names of targets that occur in sentences.
_SPELLED = _LETTERS + "!%-@^_\"#$&'()*+,;<=>?[]{|}~/. "

def _action_place(identifier):
    """Return package and name: `judge/mlp-0123456789abcdef` is `//_actions/judge:mlp-…`, `bufferize-0123…` is `//_actions/bufferize:0123…`.

    A package for each workload of a kind would take longer to load than its targets do.
    """
    package, _, name = identifier.partition("/") if "/" in identifier else identifier.rpartition("-")
    return "_actions/" + package, name

def _action_label(identifier):
    return "//{}:{}".format(*_action_place(identifier))

def _sentence(reason):
    """Return a reason as the name of a target: Bazel prints it with an incompatible target."""
    spelled = "".join([letter if letter in _SPELLED else "-" for letter in reason.elems()])
    return " ".join([word for word in spelled.replace("//", "/").split(" ") if word]).strip("/.-")[:200]

def _name(text):
    """Return a text as the name of a target."""
    return "".join([letter if letter in _LETTERS + "_+.-=@," else "_" for letter in text.elems()])

def _files_of(rctx, catalogs, plan):
    """Link the folders of catalogs, and export the files that actions read. Absent optional files are left out."""
    present = {}
    for action in plan["actions"]:
        for ref in action["inputs"].values():
            key = (ref["catalog"], ref["file"]) if "file" in ref else None
            if key and key not in present:
                path = rctx.path("{}/{}".format(catalogs[ref["catalog"]], ref["file"]))
                if not path.exists and not ref.get("optional"):
                    fail("{} is in the plan and not in the catalog {}".format(ref["file"], catalogs[ref["catalog"]]))
                present[key] = path.exists
    for number, folder in enumerate(catalogs):
        for room in _ROOMS:
            path = rctx.path("{}/{}".format(folder, room))
            if path.exists:
                rctx.symlink(path, "_catalogs/{}/{}".format(number, room))
    exported = ["{}/{}".format(number, file) for (number, file), there in present.items() if there]
    rctx.file("_catalogs/BUILD.bazel", _PUBLIC + "exports_files({})\n".format(repr(exported)))
    return present

def _code(rctx, plan):
    """Link the modules that run inside environments."""
    rctx.symlink(package(rctx, rctx.attr.root).get_child("actions"), "_code/mlir_matrix/actions")
    modules = {module: None for found in plan["tools"].values() for module in found}
    names = ["mlir_matrix/actions/{}.py".format(module) for module in modules]
    lines = [_PUBLIC, "exports_files({})\n".format(repr(names))]
    for tool, found in plan["tools"].items():
        files = ["mlir_matrix/actions/{}.py".format(module) for module in found]
        lines.append(_call("filegroup", name = tool, srcs = files))
    rctx.file("_code/BUILD.bazel", "".join(lines))

def _unit(folder):
    return "@{}//:unit".format(unit_name(folder))

def _call(rule, **arguments):
    words = ["    {} = {},\n".format(name, repr(value)) for name, value in arguments.items()]
    return "{}(\n{})\n".format(rule, "".join(words))

def _toolchains(rctx, plan):
    """Write a toolchain type for each component, resolved by the pins of the execution platform, and one for other packages."""
    lines = [_PUBLIC, 'load("{}", "matrix_toolchain")\n'.format(_UNITS)]
    lines.append(_call("toolchain_type", name = "environment"))
    lines.append(_call("constraint_setting", name = "in"))
    lines.append(_call("constraint_value", name = "in_tests", constraint_setting = ":in"))
    components = {}
    for environment in plan["environments"]:
        if "units" not in environment:
            continue
        own = _name(environment["name"])
        lines.append(_call("constraint_value", name = "in_" + own, constraint_setting = ":in"))
        alone = [_unit(unit["folder"]) for unit in environment["units"] if "component" not in unit]
        lines.append(_call("matrix_toolchain", name = "beside_" + own, units = alone))
        lines.append(_call(
            "toolchain",
            name = "environment_" + own,
            exec_compatible_with = [":in_" + own],
            toolchain = ":beside_" + own,
            toolchain_type = ":environment",
        ))
        parts = {}
        for unit in environment["units"]:
            if "component" in unit:
                parts.setdefault(unit["component"], []).append(unit["folder"])
        for component, folders in parts.items():
            releases = components.setdefault(component, {})
            same = releases.setdefault(environment["pins"][component], {})
            same.setdefault(",".join(folders), []).append(own)
    for component, releases in components.items():
        lines.append(_call("toolchain_type", name = component))
        lines.append(_call("constraint_setting", name = "pin_" + component))
        for release, made in releases.items():
            pin = "{}@{}".format(component, _name(release))
            lines.append(_call("constraint_value", name = pin, constraint_setting = ":pin_" + component))
            for number, (folders, users) in enumerate(made.items()):
                # Locks may have different wheels of a release: each environment uses its own.
                name = "{}_{}".format(pin, number)
                lines.append(_call("matrix_toolchain", name = name, units = [_unit(folder) for folder in folders.split(",")]))
                for user in users if len(made) > 1 else [""]:
                    lines.append(_call(
                        "toolchain",
                        name = "toolchain_{}_{}".format(name, user),
                        exec_compatible_with = [":" + pin] + ([":in_" + user] if user else []),
                        toolchain = ":" + name,
                        toolchain_type = ":" + component,
                    ))
    rctx.file("_toolchains/BUILD.bazel", "".join(lines))
    return components

def _platforms(rctx, plan):
    """Write an execution platform for each environment: its pins and its properties for remote execution."""
    workers = {"ISA": plan["machine"].replace("_", "-"), "OSFamily": "linux"}
    common = workers | {key: value for key, value in rctx.attr.exec_properties.items() if ":" not in key}
    machine = ["@platforms//os:linux", "@platforms//cpu:" + plan["machine"]]
    lines = [_PUBLIC, _call(
        "platform",
        name = "tests",
        constraint_values = machine + ["//_toolchains:in_tests"],
        exec_properties = common,
    )]
    for environment in plan["environments"]:
        if "units" not in environment:
            continue
        prefix = environment["name"] + ":"
        own = {key.removeprefix(prefix): value for key, value in rctx.attr.exec_properties.items() if key.startswith(prefix)}
        components = {unit["component"]: None for unit in environment["units"] if "component" in unit}
        pins = ["//_toolchains:{}@{}".format(name, _name(environment["pins"][name])) for name in components]
        lines.append(_call(
            "platform",
            name = "in_" + _name(environment["name"]),
            constraint_values = machine + ["//_toolchains:in_" + _name(environment["name"])] + pins,
            exec_properties = common | own,
        ))
    rctx.file("_platforms/BUILD.bazel", "".join(lines))

def _targets(rctx, plan):
    """Write a platform for each target: `--platforms=@matrix//_targets:NAME` selects its cells. Without it, all are tested."""
    lines = [_PUBLIC]
    lines.append(_call("constraint_setting", name = "target", default_constraint_value = ":any"))
    lines.append(_call("constraint_value", name = "any", constraint_setting = ":target"))
    for target in plan["targets"]:
        lines.append(_call("constraint_value", name = "is_" + target["name"], constraint_setting = ":target"))
        cpu = target["triple"].split("-")[0]
        lines.append(_call(
            "platform",
            name = target["name"],
            constraint_values = ["@platforms//os:linux", "@platforms//cpu:" + cpu, ":is_" + target["name"]],
        ))
    for action in plan["actions"]:
        package, _, _ = action["id"].rpartition("-")
        if action["building"]:
            # The driver and the C library of kernels: `driver-x86_64-linux-musl`.
            lines.append(_call("alias", name = package.replace("/", "-"), actual = _action_label(action["id"])))
    rctx.file("_targets/BUILD.bazel", "".join(lines))

def _options(catalogs, pins):
    return ["--catalog=" + folder for folder in catalogs] + ["--pin=" + pin for pin in pins]

def _repeat(rctx):
    """Return the command that runs a test by hand in the workspace, if possible without paths of the machine: services keep it."""
    top = str(rctx.workspace_root)
    catalogs = [folder.removeprefix(top).removeprefix("/") or "." if (folder + "/").startswith(top + "/") else folder for folder in rctx.attr.catalogs]
    program = "tools/matrix" if rctx.attr.root == top else "matrix"
    return " ".join([program, "run"] + _options(catalogs, rctx.attr.pins))

def _definitions(rctx, plan, components):
    """Write the flags and the rule of actions, which needs all types of toolchains."""
    flags = {"cpu": "", "memory_mb": "4096", "timeout_s": "120"}
    lines = [_PUBLIC, 'load("{}", "matrix_flag")\n'.format(_RULES)]
    lines += [_call("matrix_flag", name = name, build_setting_default = value) for name, value in flags.items()]
    if rctx.attr.plan and rctx.attr.tests:
        lines.append('load("{}", "current_test")\n'.format(_RULES))
        lines.append(_call(
            "current_test",
            name = "plan_is_current",
            launcher = rctx.attr.root + "/tools/matrix",
            plan = str(rctx.path(rctx.attr.plan)),
            size = "small",
            # It reads files that Bazel does not track: run it each time, and not in a sandbox.
            tags = ["external", "local", "no-cache", "no-sandbox"],
            words = rctx.attr.tests + ["--sealed"] + _options(rctx.attr.catalogs, rctx.attr.pins),
        ))
    rctx.file("BUILD.bazel", "".join(lines))
    words = ['    {} = Label("//:{}"),\n'.format(name, name) for name in flags]
    words.append('    environment = Label("//_toolchains:environment"),\n')
    words.append("    variables = {},\n".format(repr(plan["variables"])))
    words.append("    components = [{}],\n".format(", ".join(['Label("//_toolchains:{}")'.format(name) for name in components])))
    rctx.file("defs.bzl", _DEFINITIONS.format(repeat = repr(_repeat(rctx)), rules = _RULES, words = "".join(words)))

def _action(action, present, ends, foreign):
    inputs = {}
    files = {}
    told = {}
    for name, ref in action["inputs"].items():
        if "action" in ref:
            inputs.setdefault(_action_label(ref["action"]), {})[ref["path"]] = ref["output"]
        elif present[(ref["catalog"], ref["file"])]:
            files.setdefault("//_catalogs:{}/{}".format(ref["catalog"], ref["file"]), []).append(ref["path"])
        else:
            continue
        told[name] = ref["path"]
    request = {
        "inputs": told,
        "outputs": {name: "out/" + path for name, path in action["outputs"].items()},
        "params": action["params"],
        "stage": action["stage"],
        "tool": action["kind"],
    }
    preload = action["params"].get("preload", [])
    if action["inputs"].get("tool", {}).get("catalog"):
        # Of another catalog's tool, import no more than whole packages.
        preload = [name.partition(":")[0].partition(".")[0] for name in preload]
    arguments = dict(
        name = _action_place(action["id"])[1],
        called = action["id"].rpartition("-")[0],
        code = ["//_code:" + action["kind"]],
        ends = ends,
        exec_compatible_with = ["//_toolchains:in_" + _name(action["environment"])],
        files = {label: json.encode(paths) for label, paths in files.items()},
        inputs = {label: json.encode(wanted) for label, wanted in inputs.items()},
        building = action["building"],
        foreign = foreign,
        native = action["native"],
        outs = action["outputs"],
        preload = preload,
        request = json.encode(request),
    )

    # Bazel reads tens of thousands of these: leave out empty values.
    return _call("matrix_action", **{key: value for key, value in arguments.items() if value})

def _actions(rctx, plan, present):
    ends = {test["verdict"]: None for test in plan["tests"] if "verdict" in test}
    built = {action: file for file, action in rctx.attr.c_libraries.items()}
    foreign = {environment["name"]: None for environment in plan["environments"] if environment.get("foreign")}
    packages = {}
    for action in plan["actions"]:
        package, name = _action_place(action["id"])
        if action["id"] in built:
            target = _call("c_library", name = name, file = str(built[action["id"]]), outs = action["outputs"], stage = action["stage"])
        else:
            target = _action(action, present, action["id"] in ends, action["environment"] in foreign)
        packages.setdefault(package, []).append(target)
    head = _PUBLIC + 'load("//:defs.bzl", "c_library", "matrix_action")\n'
    for package, targets in packages.items():
        rctx.file(package + "/BUILD.bazel", head + "".join(targets))

def _impossible(plan):
    """Return the tests that this plan does not run, with reasons."""
    found = {}
    lost = {each["name"]: each["unavailable"] for each in plan["environments"] if "unavailable" in each}
    for action in plan["actions"] if lost else []:
        if action["environment"] in lost:
            found.update({test: "skipped, " + lost[action["environment"]] for test in action["tests"]})
    for test in plan["tests"]:
        if not test["selected"] or "verdict" not in test:
            found[test["id"]] = "{}, {}".format(test.get("outcome", "left out"), test["reason"])
    return found

def _tests(rctx, plan):
    impossible = _impossible(plan)
    reasons = {test: _sentence(reason) for test, reason in impossible.items()}
    lines = [_PUBLIC, _call("constraint_setting", name = "because")]
    lines += [_call("constraint_value", name = reason, constraint_setting = ":because") for reason in {each: None for each in reasons.values()}]
    rctx.file("_because/BUILD.bazel", "".join(lines))
    targets = [target["name"] for target in plan["targets"]]
    packages = {}
    for test in plan["tests"]:
        package, _, name = test["id"].rpartition("/")
        packages.setdefault(package, []).append(_test(test, name, reasons.get(test["id"]), targets, rctx.attr.pins))
    head = _PUBLIC + 'load("//:defs.bzl", "cell_test")\n'
    for package, targets in packages.items():
        rctx.file(package + "/BUILD.bazel", head + "".join(targets))

def _test(test, name, reason, targets, pins):
    # For --test_tag_filters and attr(tags, …): pins are those of the test, and those that the suite has for all tests.
    parts = ["{}={}".format(part, test[part]) for part in ["framework", "pipeline", "target", "property"] if part in test]
    own = [pin for pin in name.partition("@")[2].split(",") if pin]
    arguments = {"id": test["id"], "name": name, "tags": parts + own + [pin for pin in pins if pin not in own]}
    if reason:
        return _call("cell_test", impossible = reason, **arguments)
    if test["target"] in targets:
        arguments["on"] = test["target"]
    if "expectation" in test:
        expectation = test["expectation"]
        arguments.update(because = expectation["reason"], expected = expectation["outcome"], position = expectation["position"])
    return _call("cell_test", verdict = _action_label(test["verdict"]), **arguments)

def _read_plan(rctx):
    if rctx.attr.plan:
        return json.decode(rctx.read(rctx.attr.plan))
    folders = ["{}/{}".format(folder, room) for folder in [rctx.attr.root] + rctx.attr.catalogs for room in _ROOMS + ["toolchains"]]
    for path in [package(rctx, rctx.attr.root)] + [rctx.path(folder) for folder in folders]:
        if path.exists:
            rctx.watch_tree(path)
    return json.decode(run_matrix(rctx, ["plan"] + rctx.attr.tests + ["--sealed", "--format", "json"], "planning {}".format(rctx.name)))

def _hub_impl(rctx):
    plan = _read_plan(rctx)
    if plan.get("schema") != "mlir-matrix/plan/v1":
        fail("{} is no plan; make one with: matrix plan --sealed --format json".format(rctx.attr.plan))
    present = _files_of(rctx, [rctx.attr.root] + rctx.attr.catalogs, plan)
    _code(rctx, plan)
    components = _toolchains(rctx, plan)
    _platforms(rctx, plan)
    _targets(rctx, plan)
    _definitions(rctx, plan, components)
    _actions(rctx, plan, present)
    _tests(rctx, plan)

hub = repository_rule(
    implementation = _hub_impl,
    attrs = TOOL_ATTRS | {
        "c_libraries": attr.label_keyed_string_dict(doc = "Object file to the action that built it and is not executed."),
        "exec_properties": attr.string_dict(doc = "`KEY` or `ENVIRONMENT:KEY` to a property for remote execution."),
        "plan": attr.label(doc = "The plan. Without it, `tests` are planned."),
        "tests": attr.string_list(doc = "Arguments of `matrix plan`."),
    },
    doc = "The tests of a plan.",
)
