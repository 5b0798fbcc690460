"""Calls of `matrix` by repository rules and module extensions."""

TOOL_ATTRS = {
    "catalogs": attr.string_list(doc = "Folders of the catalogs that join this repository's, absolute."),
    "pins": attr.string_list(doc = "`COMPONENT=RELEASE`, as `--pin` takes them."),
    "root": attr.string(mandatory = True, doc = "The folder of mlir-matrix."),
}

# What of the person's environment decides where things come from and where they are kept; with Bazel these count from call to
# call, so nothing that differs between two shells for no reason is here.
_PASSED = ["HOME", "MATRIX_HOME", "MATRIX_PYTHON", "MATRIX_DEB_MIRROR", "XDG_CACHE_HOME", "XDG_STATE_HOME", "PATH"]

def run_matrix(ctx, words, what, attributes = None):
    """What `matrix WORDS` prints.

    Args:
      ctx: of a repository rule or a module extension.
      words: the command line.
      what: what is going on, for people.
      attributes: where `root`, `catalogs` and `pins` are; `ctx.attr` of a repository rule.

    Returns:
      stdout. Fails with what it said where it failed.
    """
    attributes = attributes or ctx.attr
    if hasattr(ctx, "report_progress"):
        ctx.report_progress(what)
    options = []
    for folder in attributes.catalogs:
        options += ["--catalog", folder]
    for pin in attributes.pins:
        options += ["--pin", pin]
    done = ctx.execute([attributes.root + "/tools/matrix"] + words + options, timeout = 3600)
    if done.return_code != 0:
        fail("matrix: {} failed (exit code {})\n{}".format(what, done.return_code, done.stderr))
    return done.stdout
