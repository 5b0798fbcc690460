"""Actions and tests of a plan.

An action's result is a file that says `ok` or what failed, so that failures are kept like successes: what waits for one that
failed passes it on, and the test at the end says whether that is what the suite expects.
"""

load(":units.bzl", "command_of")

# Limits of actions that build our own libraries. Limits of tests do not apply to them.
_BUILDING_S = 1800
_BUILDING_MB = 8192

ActionInfo = provider(
    doc = "An action of the plan.",
    fields = {
        "ending": "The File that says how a test ends with it, for shells: outcome, whether it could be measured, reason; or None.",
        "outputs": "Output to File.",
        "result": "The File that says how it went.",
        "results": "Depset of the results of it and of all that it waits for, with what they took.",
    },
)

FlagInfo = provider(doc = "The value of a flag.", fields = ["value"])

def _flag_impl(ctx):
    return FlagInfo(value = ctx.build_setting_value)

matrix_flag = rule(
    implementation = _flag_impl,
    build_setting = config.string(flag = True),
)

def _action_impl(ctx, environment, components, variables):
    found = [ctx.toolchains[kind] for kind in [environment] + components]
    units = [unit for toolchain in found if toolchain for unit in toolchain.units]
    loader, before, after = command_of(units)
    bootstrap = [file for file in ctx.files.code if file.basename == "bootstrap.py"][0]

    files = {}
    inputs = []
    waits = [target[ActionInfo] for target in ctx.attr.inputs]
    for target, wanted in ctx.attr.inputs.items():
        for path, output in json.decode(wanted).items():
            file = target[ActionInfo].outputs[output]
            files[path] = file.path
            inputs.append(file)
    for target, paths in ctx.attr.files.items():
        for path in json.decode(paths):
            files[path] = target.files.to_list()[0].path
    upstream = [info.result for info in waits]

    request = json.decode(ctx.attr.request)
    name = ctx.label.name
    outputs = {out: ctx.actions.declare_file("{}/out/{}".format(name, path)) for out, path in ctx.attr.outs.items()}
    result = ctx.actions.declare_file(name + "/result.json")
    usage = ctx.actions.declare_file(name + "/usage.json")
    layout = {
        "files": files,
        "building": ctx.attr.building,
        "memory_mb": _BUILDING_MB if ctx.attr.building else int(ctx.attr._memory_mb[FlagInfo].value),
        "outputs": {out: file.path for out, file in outputs.items()},
        "preload": ctx.attr.preload,
        "request": request,
        "result": result.path,
        "timeout_s": _BUILDING_S if ctx.attr.building else float(ctx.attr._timeout_s[FlagInfo].value),
        "upstream": [file.path for file in upstream],
        "usage": usage.path,
    }
    made = outputs.values() + [result, usage]
    ending = None
    if ctx.attr.ends:
        ending = ctx.actions.declare_file(name + "/ending.txt")
        layout["ending"] = ending.path
        made.append(ending)
    if ctx.attr.native:
        # The output is for one CPU: with several kinds of machines, set the flag to the kind.
        layout["cpu"] = ctx.attr._cpu[FlagInfo].value

    started = ctx.actions.args()
    started.add_all(before + [bootstrap.path] + after + (["--foreign"] if ctx.attr.foreign else []))
    told = ctx.actions.args()
    told.add(json.encode(layout))
    told.use_param_file("@%s", use_always = True)
    told.set_param_file_format("multiline")
    ctx.actions.run(
        executable = loader,
        arguments = [started, told],
        inputs = depset(inputs + upstream + ctx.files.files),
        outputs = made,
        # A depset alone would be flattened: thousands of files for each action.
        tools = ctx.files.code + [unit.reads.get(request["tool"], unit.files) for unit in units],
        env = variables,
        mnemonic = "MatrixAction",
        progress_message = "{} %{{label}}".format(ctx.attr.called),
        execution_requirements = {
            "requires-worker-protocol": "json",
            "supports-multiplex-workers": "1",
            "supports-workers": "1",
        },
    )
    return [
        DefaultInfo(files = depset(outputs.values() + [result])),
        ActionInfo(
            ending = ending,
            outputs = outputs,
            result = result,
            results = depset([result, usage], transitive = [info.results for info in waits]),
        ),
    ]

def action_rule(environment, components, variables, cpu, timeout_s, memory_mb):
    """Return the rule of a plan's actions.

    Args:
      environment: the type of the toolchain that an environment's own part is.
      components: the types of the toolchains that releases of components are.
      variables: all environment variables that an action sees.
      cpu: the flag that names the machines' CPU.
      timeout_s: the flag that says how many seconds an action may take.
      memory_mb: the flag that says how much memory (MiB) it may take.

    Returns:
      The rule.
    """

    def implementation(ctx):
        return _action_impl(ctx, environment, components, variables)

    return rule(
        implementation = implementation,
        attrs = {
            "building": attr.bool(doc = "Whether it builds one of our own libraries."),
            "called": attr.string(doc = "Its name in the plan."),
            "code": attr.label_list(allow_files = True, doc = "Our modules that it runs."),
            "ends": attr.bool(doc = "Whether tests end with it."),
            "files": attr.label_keyed_string_dict(allow_files = True, doc = "Files of catalogs, and their paths in its folder."),
            "foreign": attr.bool(doc = "Whether its environment has packages that another catalog than the first chose."),
            "inputs": attr.label_keyed_string_dict(providers = [ActionInfo], doc = "Actions that it reads: path in its folder to output."),
            "native": attr.bool(),
            "outs": attr.string_dict(doc = "Outputs and their files."),
            "preload": attr.string_list(doc = "Modules that a worker imports before it runs the action."),
            "request": attr.string(mandatory = True, doc = "Its request, JSON."),
            "_cpu": attr.label(default = cpu),
            "_memory_mb": attr.label(default = memory_mb),
            "_timeout_s": attr.label(default = timeout_s),
        },
        toolchains = [config_common.toolchain_type(environment, mandatory = True)] +
                     [config_common.toolchain_type(component, mandatory = False) for component in components],
    )

def _c_library_impl(ctx):
    name = ctx.label.name
    outputs = {out: ctx.actions.declare_file("{}/out/{}".format(name, path)) for out, path in ctx.attr.outs.items()}
    for file in outputs.values():
        ctx.actions.symlink(output = file, target_file = ctx.file.file)
    result = ctx.actions.declare_file(name + "/result.json")
    ctx.actions.write(result, json.encode({"outcome": {"outcome": "ok", "stage": ctx.attr.stage}, "outputs": {}}))
    return [
        DefaultInfo(files = depset(outputs.values() + [result])),
        ActionInfo(ending = None, outputs = outputs, result = result, results = depset()),
    ]

c_library = rule(
    implementation = _c_library_impl,
    attrs = {
        "file": attr.label(allow_single_file = True, doc = "The file that the action built."),
        "outs": attr.string_dict(doc = "Its output and the file's name."),
        "stage": attr.string(),
    },
    doc = "An action of the plan that is already executed.",
)

_SCRIPT = """\
#!/bin/sh
# Print the outcome of a test, and compare it with the expected one; write test.xml. Read a file; run no test.
{{ read -r outcome; read -r measurable; read -r reason; }} < '{ending}' || exit
said="$outcome {id}${{reason:+: $reason}}
expected: "'{expected}
repeat:   {repeat} {id}'
printf '%s\\n' "$said"
[ "$outcome" = '{outcome}' ] && [ "$measurable" = measurable ]
code=$?
tag=system-out failures=0 errors=0
case $code/$outcome in
  0/*) ;;
  */infra-error) tag=error errors=1 ;;
  *) tag=failure failures=1 ;;
esac
[ $tag = system-out ] || type=" type=\\"$outcome\\" message=\\"expected {outcome}, got $outcome\\""
# In a CDATA section, only its end means anything.
while case $said in *']]>'*) ;; *) false ;; esac; do
  said="${{said%%]]>*}}]] >${{said#*]]>}}"
done
[ -z "${{XML_OUTPUT_FILE-}}" ] || cat > "$XML_OUTPUT_FILE" <<END
<?xml version="1.0" encoding="UTF-8"?>
<testsuites>
  <testsuite name="{cell}" tests="1" failures="$failures" errors="$errors">
    <testcase classname="{classname}" name="{name}">
      <properties><property name="outcome" value="$outcome"/></properties>
      <$tag${{type-}}><![CDATA[$said]]></$tag>
    </testcase>
  </testsuite>
</testsuites>
END
exit $code
"""

def _quoted(text):
    return text.replace("'", "'\\''")

def _test_impl(ctx):
    info = ctx.attr.verdict[ActionInfo]
    script = ctx.actions.declare_file(ctx.label.name + ".sh")
    because = " ({}, {})".format(ctx.attr.because, ctx.attr.position) if ctx.attr.because else ""
    cell, _, name = ctx.attr.id.rpartition("/")
    ctx.actions.write(script, is_executable = True, content = _SCRIPT.format(
        cell = cell,
        classname = cell.replace("/", "."),
        ending = _quoted(info.ending.short_path),
        expected = _quoted(ctx.attr.expected + because),
        id = ctx.attr.id,
        name = name,
        outcome = ctx.attr.expected,
        repeat = _quoted(ctx.attr.repeat),
    ))
    return [
        DefaultInfo(executable = script, runfiles = ctx.runfiles([info.ending])),
        OutputGroupInfo(
            matrix_results = depset([file for name, file in info.outputs.items() if name == "verdict"], transitive = [info.results]),
        ),
    ]

_CURRENT = """\
#!/bin/sh
# Check that the plan in a file is current.
exec {words}
"""

def _current_impl(ctx):
    script = ctx.actions.declare_file(ctx.label.name + ".sh")
    words = [ctx.attr.launcher, "plan"] + ctx.attr.words + ["--check", ctx.attr.plan]
    ctx.actions.write(script, is_executable = True, content = _CURRENT.format(
        words = " ".join(["'{}'".format(_quoted(word)) for word in words]),
    ))
    return [
        DefaultInfo(executable = script),
        RunEnvironmentInfo(inherited_environment = ["HOME", "MATRIX_HOME", "MATRIX_PYTHON", "XDG_CACHE_HOME"]),
    ]

current_test = rule(
    implementation = _current_impl,
    attrs = {
        "launcher": attr.string(mandatory = True),
        "plan": attr.string(mandatory = True),
        "words": attr.string_list(),
    },
    test = True,
)

matrix_test = rule(
    implementation = _test_impl,
    attrs = {
        "because": attr.string(doc = "The reason of the expectation."),
        "expected": attr.string(default = "pass"),
        "id": attr.string(mandatory = True, doc = "The test's identifier."),
        "position": attr.string(doc = "The position of the expectation."),
        "repeat": attr.string(mandatory = True, doc = "The command that runs tests by hand, without the test."),
        "verdict": attr.label(providers = [ActionInfo], doc = "The action with its verdict."),
    },
    test = True,
)
