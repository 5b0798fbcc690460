"""A unit of an environment as a repository: what `matrix toolchain fetch` brings by the hashes of a lock."""

load(":launcher.bzl", "run_matrix", "TOOL_ATTRS")

def unit_name(folder):
    """The repository of a unit: names of repositories know no '+'."""
    return "unit_" + folder.replace("+", "_")

# What makes the units, by its name below the packages' neighbour `bazel`: a change of prepare.py is a new one.
_PREPARED = "units-v3"

def _interpreter(rctx, folder):
    """How the interpreter of a unit is started, in whichever folder it stands."""
    prefix = json.decode(rctx.read(folder + "/.matrix/prefix.json", watch = "no"))
    program = "{}/{}".format(folder, prefix["programs"][rctx.attr.python]["path"])
    libraries = ":".join([folder + "/" + each for each in prefix["libraries"]])
    return [folder + "/" + prefix["loader"], "--inhibit-cache", "--argv0", program, "--library-path", libraries, program]

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
    script = rctx.attr.root + "/tools/mlir_matrix/execute/bazel/prepare.py"
    interpreter = _interpreter(rctx, "{}/{}".format(packages, rctx.attr.interpreter))
    done = rctx.execute(interpreter + ["-I", "-S", "-B", script, rctx.attr.part, "unit"], timeout = 1800)
    if done.return_code != 0:
        fail("preparing {} for actions failed: {}".format(rctx.attr.label, done.stderr))

def _unit_impl(rctx):
    packages = _packages(rctx)

    # Compiling takes longer than all else, and every workspace has repositories of its own.
    prepared = "{}/../bazel/{}/{}".format(packages, _PREPARED, rctx.attr.folder)
    if rctx.path(prepared).exists:
        _copy(rctx, prepared, "unit")
    else:
        _prepare(rctx, packages)
        beside = "{}.{}".format(prepared, str(rctx.path(".")).replace("/", "_")[-100:])
        rctx.execute(["mkdir", "-p", "{}/../bazel/{}".format(packages, _PREPARED)])
        _copy(rctx, "unit", beside)
        if rctx.execute(["mv", "-T", "-n", beside, prepared]).return_code != 0:
            rctx.execute(["rm", "-rf", beside])
    reads = [
        'filegroup(\n    name = "{}",\n    srcs = glob({}),\n)\n'.format(kind, json.encode(["unit/" + each for each in files]))
        for kind, files in rctx.attr.reads.items()
    ]
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
    reads = {labels},
    release = "{release}",
{more}    visibility = ["//visibility:public"],
)
{reads}""".format(
        labels = json.encode({":" + kind: kind for kind in rctx.attr.reads}),
        more = more,
        part = rctx.attr.part,
        reads = "".join(reads),
        release = rctx.attr.release,
        rules = Label("//toolchains/bazel:units.bzl"),
    ))

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
        "reads": attr.string_list_dict(doc = "Kind of action to the files that such actions read, where that is not all."),
        "release": attr.string(),
    },
    doc = "What one lock entry names, fetched and checked by its SHA-256.",
)
