// tm-tensor-bufferize gives each operator a fresh buffer for its result. The one-shot analysis takes a tensor from a buffer only when
// it is told that nothing else reaches that buffer; here this is so by construction.
module attributes {transform.with_named_sequence} {
  transform.named_sequence @__transform_main(%module: !transform.any_op) {
    %made = transform.structured.match ops{["bufferization.to_tensor"]} in %module : (!transform.any_op) -> !transform.any_op
    transform.annotate %made "restrict" : !transform.any_op
    transform.yield
  }
}
