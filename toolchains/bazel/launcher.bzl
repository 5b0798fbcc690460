"""Calls of `matrix` by repository rules and module extensions."""

TOOL_ATTRS = {
    "catalogs": attr.string_list(doc = "Absolute folders of other catalogs."),
    "pins": attr.string_list(doc = "`COMPONENT=RELEASE`, as for `--pin`."),
    "root": attr.string(mandatory = True, doc = "The folder of mlir-matrix."),
}

# Variables that decide sources and folders. Bazel evaluates rules again when one changes, so variables that often differ
# between shells are left out.
_PASSED = ["HOME", "MATRIX_HOME", "MATRIX_PYTHON", "MATRIX_DEB_MIRROR", "XDG_CACHE_HOME", "XDG_STATE_HOME", "PATH"]

def package(ctx, root):
    """Return the folder of the Python package: in a checkout, `tools/mlir_matrix`; installed, the folder that holds `root`."""
    checkout = ctx.path(root + "/tools/mlir_matrix")
    return checkout if checkout.exists else ctx.path(root).realpath.dirname

def run_matrix(ctx, words, what, attributes = None):
    """Run `matrix WORDS`.

    Args:
      ctx: of a repository rule or a module extension.
      words: the command line.
      what: the progress message.
      attributes: has `root`, `catalogs` and `pins`; default: `ctx.attr` of a repository rule.

    Returns:
      stdout. Fails with the error message of the command.
    """
    attributes = attributes or ctx.attr
    if hasattr(ctx, "report_progress"):
        ctx.report_progress(what)
    options = []
    for folder in attributes.catalogs:
        options += ["--catalog", folder]
    for pin in attributes.pins:
        options += ["--pin", pin]
    launcher = ctx.path(attributes.root + "/tools/matrix")
    program = launcher if launcher.exists else ctx.which("matrix")
    if not program:
        fail("matrix: {} needs the program matrix of {} on PATH".format(what, attributes.root))
    done = ctx.execute([program] + words + options, timeout = 3600)
    if done.return_code != 0:
        fail("matrix: {} failed (exit code {})\n{}".format(what, done.return_code, done.stderr))
    return done.stdout
