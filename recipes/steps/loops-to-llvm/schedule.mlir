// What convert-math-to-llvm does, except for expm1 and log1p. Of these it makes exp - 1 and log(1 + x), which lose all digits near 0;
// convert-math-to-libm, which comes next, calls libm. The generic form is for LLVM 24, which keeps properties apart from attributes.
module attributes {transform.with_named_sequence} {
  transform.named_sequence @__transform_main(%module: !transform.any_op) {
    %functions = transform.structured.match ops{["func.func"]} in %module : (!transform.any_op) -> !transform.any_op
    "transform.apply_conversion_patterns"(%functions) <{
      legal_dialects = ["arith", "llvm"], legal_ops = ["math.expm1", "math.log1p"], partial_conversion
    }> ({
      transform.apply_conversion_patterns.dialect_to_llvm "math"
    }, {
      transform.apply_conversion_patterns.memref.memref_to_llvm_type_converter
    }) : (!transform.any_op) -> ()
    transform.yield
  }
}
