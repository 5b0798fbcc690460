"""Our own program and its tests under Bazel, in the locked environments of `tools/matrix` and `tools/test`."""

def _environment_impl(rctx):
    lock = rctx.path(rctx.attr.lock)
    rctx.watch(lock)
    tools = lock.dirname

    # The script finds its folder by the name of the program that reads it.
    script = ". {}/environment.sh; use_environment {} && printf %s \"$python\"".format(tools, lock.basename)
    done = rctx.execute(["sh", "-euc", script, str(tools.get_child("matrix"))], timeout = 1800)
    if done.return_code != 0:
        fail("the environment of {} cannot be made:\n{}".format(lock.basename, done.stderr))
    rctx.file("python", "#!/bin/sh\nexec '{}' \"$@\"\n".format(done.stdout), executable = True)
    rctx.file("BUILD.bazel", 'exports_files(["python"])\n')

environment = repository_rule(
    implementation = _environment_impl,
    attrs = {"lock": attr.label(mandatory = True)},
    environ = ["MATRIX_HOME", "MATRIX_PYTHON", "XDG_CACHE_HOME"],
    doc = "The interpreter of the environment with the packages of a lock, as `python`.",
)

def _own_impl(_):
    environment(name = "program", lock = "//:tools/requirements.txt")
    environment(name = "development", lock = "//:tools/requirements-dev.txt")

own = module_extension(implementation = _own_impl)

def _script(ctx, words, files):
    script = ctx.actions.declare_file(ctx.label.name + ".sh")
    ctx.actions.write(script, is_executable = True, content = words)
    return [DefaultInfo(executable = script, runfiles = ctx.runfiles(files))]

def _pytest_impl(ctx):
    files = " ".join(["'{}'".format(file.short_path) for file in ctx.files.srcs])
    return _script(ctx, """\
#!/bin/sh
# From the folder of the sources, where pytest finds its settings. The interpreter is the machine's, its packages the lock's.
MATRIX_HOME=$TEST_TMPDIR/home HOME=$TEST_TMPDIR TMPDIR=$TEST_TMPDIR
export MATRIX_HOME HOME TMPDIR
exec '{python}' -P -s -B -m pytest -q -p no:cacheprovider --junit-xml="$XML_OUTPUT_FILE" {files}
""".format(files = files, python = ctx.file._python.short_path), ctx.files.srcs + ctx.files.data + [ctx.file._python])

pytest_test = rule(
    implementation = _pytest_impl,
    attrs = {
        "data": attr.label_list(allow_files = True, doc = "Files that the tests import or read."),
        "srcs": attr.label_list(allow_files = [".py"], mandatory = True),
        "_python": attr.label(default = "@development//:python", allow_single_file = True),
    },
    test = True,
)

def _program_impl(ctx):
    return _script(ctx, """\
#!/bin/sh
# Paths on the command line are relative to the user's folder.
here=$PWD
cd "${{BUILD_WORKING_DIRECTORY:-.}}"
exec "$here/{python}" -P -s -B "$here/{main}" "$@"
""".format(main = ctx.file.main.short_path, python = ctx.file._python.short_path), ctx.files.srcs + ctx.files.data + [ctx.file._python])

program = rule(
    implementation = _program_impl,
    attrs = {
        "data": attr.label_list(allow_files = True),
        "main": attr.label(allow_single_file = True, mandatory = True),
        "srcs": attr.label_list(allow_files = [".py"], mandatory = True),
        "_python": attr.label(default = "@program//:python", allow_single_file = True),
    },
    executable = True,
)
