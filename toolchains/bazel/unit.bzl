"""A unit of an environment as a repository: what `matrix toolchain fetch` brings by the hashes of a lock."""

load(":launcher.bzl", "run_matrix", "TOOL_ATTRS")

def unit_name(folder):
    """The repository of a unit: names of repositories know no '+'."""
    return "unit_" + folder.replace("+", "_")

# What nobody reads: half of a prefix's files.
_LEFT_OUT = ["usr/share/" + folder for folder in ["doc", "man", "locale", "info", "lintian"]]

def _compile(rctx, folders, interpreter):
    """Compiles Python, so that no action has to; the same bytes everywhere, and valid whatever the files' times are."""
    done = rctx.execute(
        [interpreter, "-I", "-m", "compileall", "-q", "-j", "0", "--invalidation-mode", "unchecked-hash", "-s", str(rctx.path("."))] +
        ["-x", "/(tests?|lib2to3|idlelib)/"] + folders,
        timeout = 1800,
    )

    # What does not compile (templates, tests of syntax errors) is compiled by nobody else either.
    if done.return_code not in [0, 1]:
        fail("compiling the Python of {} failed: {}".format(rctx.attr.label, done.stderr))

def _packages(rctx):
    """The folder of packages, in which the unit and the interpreter are."""
    known = rctx.attr.packages
    if known and all([rctx.path("{}/{}".format(known, name)).exists for name in [rctx.attr.folder, rctx.attr.interpreter]]):
        return known
    words = ["toolchain", "fetch", rctx.attr.environment, "--sealed", "--format", "json", "--quiet"]
    return json.decode(run_matrix(rctx, words, what = "fetching {}".format(rctx.attr.label)))["packages"]

def _copy(rctx, source, target):
    """Copies a folder: by links, so that it takes no room twice and stays when the store is tidied up; else byte for byte."""
    if rctx.execute(["cp", "-al", source, target], timeout = 1800).return_code != 0:
        rctx.execute(["rm", "-rf", target])
        done = rctx.execute(["cp", "-a", source, target], timeout = 1800)
        if done.return_code != 0:
            fail("{} cannot be copied: {}".format(rctx.attr.label, done.stderr))

def _prepare(rctx, packages):
    """The unit as actions have it: without what nobody reads, its Python compiled."""
    _copy(rctx, packages + "/" + rctx.attr.folder, "unit")
    for folder in _LEFT_OUT:
        rctx.delete("unit/" + folder)
    interpreter = "{}/{}/.matrix/bin/{}".format(packages, rctx.attr.interpreter, rctx.attr.python)
    if rctx.attr.part == "interpreter":
        _compile(rctx, ["unit/usr/lib/" + rctx.attr.python], interpreter)
    elif rctx.attr.part == "site":
        _compile(rctx, ["unit"], interpreter)

def _unit_impl(rctx):
    packages = _packages(rctx)

    # Compiling takes longer than all else, and every workspace has repositories of its own.
    prepared = "{}/../bazel/units-v1/{}".format(packages, rctx.attr.folder)
    if rctx.path(prepared).exists:
        _copy(rctx, prepared, "unit")
    else:
        _prepare(rctx, packages)
        beside = "{}.{}".format(prepared, str(rctx.path(".")).replace("/", "_")[-100:])
        rctx.execute(["mkdir", "-p", "{}/../bazel/units-v1".format(packages)])
        _copy(rctx, "unit", beside)
        if rctx.execute(["mv", "-T", "-n", beside, prepared]).return_code != 0:
            rctx.execute(["rm", "-rf", beside])
    more = ""
    if rctx.attr.part == "interpreter":
        prefix = json.decode(rctx.read("unit/.matrix/prefix.json"))
        program = prefix["programs"][rctx.attr.python]["path"]
        more = """\
    libraries = {libraries},
    loader = "unit/{loader}",
    program = "unit/{program}",
""".format(libraries = json.encode(prefix["libraries"]), loader = prefix["loader"], program = program)
    rctx.file("BUILD.bazel", """\
load("{rules}", "matrix_unit")

matrix_unit(
    name = "unit",
    files = glob(["unit/**"], exclude = ["unit/**/* *"]),
    part = "{part}",
    release = "{release}",
{more}    visibility = ["//visibility:public"],
)
""".format(rules = Label("//toolchains/bazel:units.bzl"), part = rctx.attr.part, release = rctx.attr.release, more = more))

unit = repository_rule(
    implementation = _unit_impl,
    attrs = TOOL_ATTRS | {
        "environment": attr.string(mandatory = True, doc = "An environment that has it, as plans name it."),
        "folder": attr.string(mandatory = True, doc = "Its folder's name among the packages: it holds the lock's hash."),
        "interpreter": attr.string(mandatory = True, doc = "The folder of the interpreter."),
        "label": attr.string(mandatory = True),
        "packages": attr.string(doc = "The folder of packages that were fetched by now."),
        "part": attr.string(mandatory = True, values = ["interpreter", "site", "prefix"]),
        "python": attr.string(mandatory = True, doc = "What the interpreter's program is called."),
        "release": attr.string(),
    },
    doc = "What one lock entry names, fetched and checked by its SHA-256.",
)
