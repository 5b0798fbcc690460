"""``matrix toolchain``: what environments consist of, and what of it is here."""

from __future__ import annotations

import importlib

import click

from mlir_matrix.cli.common import VerbGroup

#: Verb → its module in this package, what it is called there, and what it does: only the one asked for is imported.
VERBS = {
    "lock": ("toolchain_lock", "lock", "Write locks."),
    "fetch": ("toolchain_fetch", "fetch", "Bring what locks name."),
    "verify": ("toolchain_verify", "verify", "Read everything that is here and compare it with its hashes."),
    "list": ("toolchain_list", "list_releases", "Components and their releases."),
    "which": ("toolchain_which", "which", "The path of a tool."),
    "roll": ("toolchain_roll", "roll_releases", "Try newer releases, propose those that are green."),
    "gc": ("toolchain_gc", "gc", "Remove what no lock names."),
}


class _Verbs(VerbGroup):
    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(VERBS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in VERBS:
            return None
        module, name, _ = VERBS[cmd_name]
        command = getattr(importlib.import_module(f"mlir_matrix.cli.{module}"), name)
        assert isinstance(command, click.Command)
        return command

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        if args and args[0] not in VERBS and not args[0].startswith("-"):
            from mlir_matrix.names import did_you_mean

            raise click.UsageError(f"no verb {args[0]!r} of toolchain{did_you_mean(args[0], VERBS)}", ctx)
        return super().resolve_command(ctx, args)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Verbs"):
            formatter.write_dl([(name, what) for name, (_, _, what) in VERBS.items()])


@click.group(
    "toolchain",
    cls=_Verbs,
    examples=("matrix toolchain list llvm", "matrix toolchain fetch llvm@19", "matrix toolchain which mlir-opt@19"),
)
def command() -> None:
    """Lock, fetch and check compilers and frameworks, side by side, without installing anything on the machine."""
