"""Both forms of printed IR."""

from mlir_matrix.actions.mlir.backend import printed_forms

_GENERIC = '"builtin.module"() ({\n}) : () -> ()\n'
_ELEMENTS = '{-#\n  dialect_resources: {\n    builtin: {\n      t: "0x080000000000000001000000"\n    }\n  }\n#-}\n'


def test_the_generic_form_has_the_elements_of_resources() -> None:
    custom = f"module {{\n}}\n\n{_ELEMENTS}"
    assert printed_forms(_GENERIC, custom) == (_GENERIC + _ELEMENTS, custom)


def test_ir_without_resources_stays_as_it_is() -> None:
    assert printed_forms(_GENERIC, "module {\n}\n") == (_GENERIC, "module {\n}\n")
