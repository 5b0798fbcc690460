// Specialization takes any contraction with batch dimensions for a batch_matmul, also one with two of them, and gives IR that does not
// verify. linalg has no named operator for those: they stay as they are.
module attributes {transform.with_named_sequence} {
  transform.named_sequence @many_batches(%op: !transform.any_op {transform.readonly}) -> !transform.any_op {
    %found = transform.match.structured failures(propagate) %op : (!transform.any_op) -> !transform.any_op {
    ^bb0(%each: !transform.any_op):
      %rank = transform.match.structured.rank %each : (!transform.any_op) -> !transform.param<i64>
      %five = transform.param.constant 5 : i64 -> !transform.param<i64>
      transform.match.param.cmpi ge %rank, %five : !transform.param<i64>
      "transform.match.structured.dim"(%each) <{is_inverted, parallel, raw_dim_list = array<i64: -1>}> : (!transform.any_op) -> ()
      "transform.match.structured.dim"(%each) <{raw_dim_list = array<i64: -1>, reduction}> : (!transform.any_op) -> ()
      transform.match.structured.yield %each : !transform.any_op
    }
    transform.yield %found : !transform.any_op
  }
  transform.named_sequence @generic(%op: !transform.any_op {transform.readonly}) -> !transform.any_op {
    transform.match.operation_name %op ["linalg.generic"] : !transform.any_op
    transform.yield %op : !transform.any_op
  }

  transform.named_sequence @leave(%op: !transform.any_op {transform.readonly}) {
    transform.yield
  }
  transform.named_sequence @name(%op: !transform.any_op {transform.consumed}) {
    transform.sequence %op : !transform.any_op failures(suppress) {
    ^bb0(%each: !transform.any_op):
      transform.structured.specialize %each : (!transform.any_op) -> !transform.any_op
    }
    transform.yield
  }

  transform.named_sequence @__transform_main(%module: !transform.any_op {transform.consumed}) {
    transform.foreach_match in %module
      @many_batches -> @leave,
      @generic -> @name : (!transform.any_op) -> !transform.any_op
    transform.yield
  }
}
