"""Environments as toolchains: units, and the components that they are releases of."""

UnitInfo = provider(
    doc = "A folder of an environment: an interpreter, a folder of its path, or programs with their libraries.",
    fields = {
        "files": "Depset of its files.",
        "libraries": "Of an interpreter: the folders of its libraries, from `root`.",
        "loader": "Of an interpreter: the File of its loader.",
        "part": "interpreter, site or prefix.",
        "program": "Of an interpreter: the File of its program.",
        "reads": "Kind of action to a depset of the files that such actions read, where that is not all.",
        "release": "Of programs: their release.",
        "root": "Its folder, from the root of executions.",
    },
)

def _unit_impl(ctx):
    files = depset(ctx.files.files)
    return [
        DefaultInfo(files = files),
        UnitInfo(
            files = files,
            libraries = ctx.attr.libraries,
            loader = ctx.file.loader,
            part = ctx.attr.part,
            program = ctx.file.program,
            reads = {kind: files[DefaultInfo].files for files, kind in ctx.attr.reads.items()},
            release = ctx.attr.release,
            root = ctx.label.workspace_root + "/unit",
        ),
    ]

matrix_unit = rule(
    implementation = _unit_impl,
    attrs = {
        "files": attr.label_list(allow_files = True),
        "libraries": attr.string_list(),
        "loader": attr.label(allow_single_file = True),
        "part": attr.string(mandatory = True),
        "program": attr.label(allow_single_file = True),
        "reads": attr.label_keyed_string_dict(),
        "release": attr.string(),
    },
)

def _toolchain_impl(ctx):
    return [platform_common.ToolchainInfo(units = [unit[UnitInfo] for unit in ctx.attr.units])]

# A release of a component, or the other packages of an environment.
matrix_toolchain = rule(
    implementation = _toolchain_impl,
    attrs = {"units": attr.label_list(providers = [UnitInfo])},
)

def command_of(units):
    """Return the command that starts the interpreter of some units with all of them.

    Args:
      units: UnitInfo, of which one is an interpreter.

    Returns:
      The File to execute, the words that come before the program's own file, and those that come after it.
    """
    interpreter = [unit for unit in units if unit.part == "interpreter"][0]
    libraries = ":".join([interpreter.root + "/" + folder for folder in interpreter.libraries])
    before = ["--inhibit-cache", "--argv0", interpreter.program.path, "--library-path", libraries, interpreter.program.path]

    # As the local executor does, but the bytecode is beside the sources.
    before += ["-P", "-s", "-S", "-B"]
    after = ["--loader", "{}={}".format(interpreter.loader.path, libraries), "--checked"]
    for unit in units:
        if unit.part == "site":
            after += ["--site", unit.root]
    for unit in units:
        if unit.part == "prefix":
            after += ["--prefix", "{}={}".format(unit.release, unit.root)]
    return interpreter.loader, before, after
