"""A unit, which is a package of an environment, as a repository: `matrix toolchain fetch` installs it by the hashes of a lock."""

load(":launcher.bzl", "TOOL_ATTRS", "package", "run_matrix")

def unit_name(folder):
    """Return the name of a unit's repository, which may not contain '+'."""
    return "unit_" + folder.replace("+", "_")

# The folder of prepared units, in `bazel` beside the packages. Change it with prepare.py.
_PREPARED = "units-v3"

def _interpreter(rctx, folder):
    """Return the command that starts the interpreter in a folder."""
    prefix = json.decode(rctx.read(folder + "/.matrix/prefix.json", watch = "no"))
    program = "{}/{}".format(folder, prefix["programs"][rctx.attr.python]["path"])
    libraries = ":".join([folder + "/" + each for each in prefix["libraries"]])
    return [folder + "/" + prefix["loader"], "--inhibit-cache", "--argv0", program, "--library-path", libraries, program]

def _packages(rctx):
    """Return the folder of packages that has the unit and the interpreter."""
    known = rctx.attr.packages
    if known and all([rctx.path("{}/{}".format(known, name)).exists for name in [rctx.attr.folder, rctx.attr.interpreter]]):
        return known
    words = ["toolchain", "fetch", rctx.attr.environment, "--sealed", "--format", "json", "--quiet"]
    return json.decode(run_matrix(rctx, words, what = "fetching {}".format(rctx.attr.label)))["packages"]

def _copy(rctx, source, target):
    """Copy a folder by hard links, which take no space and survive `matrix toolchain gc`, or byte by byte."""
    source += "/."  # where it is a link, the folder that it leads to: what is copied is changed
    if rctx.execute(["cp", "-al", source, target], timeout = 1800).return_code != 0:
        rctx.execute(["rm", "-rf", target])
        done = rctx.execute(["cp", "-a", source, target], timeout = 1800)
        if done.return_code != 0:
            fail("{} cannot be copied: {}".format(rctx.attr.label, done.stderr))

def _prepare(rctx, packages):
    """Copy the unit, remove files that no action reads, and compile its Python."""
    _copy(rctx, packages + "/" + rctx.attr.folder, "unit")
    script = package(rctx, rctx.attr.root).get_child("bazel/prepare.py")
    interpreter = _interpreter(rctx, "{}/{}".format(packages, rctx.attr.interpreter))
    done = rctx.execute(interpreter + ["-I", "-S", "-B", script, rctx.attr.part, "unit"], timeout = 1800)
    if done.return_code != 0:
        fail("preparing {} for actions failed: {}".format(rctx.attr.label, done.stderr))

def _unit_impl(rctx):
    packages = _packages(rctx)

    # Compiling takes most of the time, and every workspace has its own repositories.
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
        "environment": attr.string(mandatory = True, doc = "The name of an environment that has it."),
        "folder": attr.string(mandatory = True, doc = "The name of its folder among the packages, with a hash."),
        "interpreter": attr.string(mandatory = True, doc = "The folder of the interpreter."),
        "label": attr.string(mandatory = True),
        "packages": attr.string(doc = "The folder of installed packages."),
        "part": attr.string(mandatory = True, values = ["interpreter", "site", "prefix"]),
        "python": attr.string(mandatory = True, doc = "The name of the interpreter's program."),
        "reads": attr.string_list_dict(doc = "Tool to the files that its actions read, if not all."),
        "release": attr.string(),
    },
    doc = "One entry of a lock, fetched and checked by its SHA-256.",
)
