// Three moves: sort the structured operators into classes by annotating them, tile each class, vectorize what the tiles made static.
// Nothing here names a workload: an operator in no class, and one that does not vectorize, goes on to loops as it is.
module attributes {transform.with_named_sequence} {
  // Classes. The first matcher that accepts an operator decides.

  // A vector of i1 is packed in memory, a memref of i1 has a byte for each: vectorizing these would change what they mean.
  transform.named_sequence @bool_input_0(%op: !transform.any_op {transform.readonly}) -> !transform.any_op {
    %found = transform.match.structured failures(propagate) %op : (!transform.any_op) -> !transform.any_op {
    ^bb0(%each: !transform.any_op):
      %value = transform.match.structured.input %each[0] : (!transform.any_op) -> !transform.any_value
      %bits = transform.match.structured.elemental_bitwidth %value : (!transform.any_value) -> !transform.param<i64>
      %one = transform.param.constant 1 : i64 -> !transform.param<i64>
      transform.match.param.cmpi eq %bits, %one : !transform.param<i64>
      transform.match.structured.yield %each : !transform.any_op
    }
    transform.yield %found : !transform.any_op
  }
  transform.named_sequence @bool_input_1(%op: !transform.any_op {transform.readonly}) -> !transform.any_op {
    %found = transform.match.structured failures(propagate) %op : (!transform.any_op) -> !transform.any_op {
    ^bb0(%each: !transform.any_op):
      %value = transform.match.structured.input %each[1] : (!transform.any_op) -> !transform.any_value
      %bits = transform.match.structured.elemental_bitwidth %value : (!transform.any_value) -> !transform.param<i64>
      %one = transform.param.constant 1 : i64 -> !transform.param<i64>
      transform.match.param.cmpi eq %bits, %one : !transform.param<i64>
      transform.match.structured.yield %each : !transform.any_op
    }
    transform.yield %found : !transform.any_op
  }
  transform.named_sequence @bool_input_2(%op: !transform.any_op {transform.readonly}) -> !transform.any_op {
    %found = transform.match.structured failures(propagate) %op : (!transform.any_op) -> !transform.any_op {
    ^bb0(%each: !transform.any_op):
      %value = transform.match.structured.input %each[2] : (!transform.any_op) -> !transform.any_value
      %bits = transform.match.structured.elemental_bitwidth %value : (!transform.any_value) -> !transform.param<i64>
      %one = transform.param.constant 1 : i64 -> !transform.param<i64>
      transform.match.param.cmpi eq %bits, %one : !transform.param<i64>
      transform.match.structured.yield %each : !transform.any_op
    }
    transform.yield %found : !transform.any_op
  }
  transform.named_sequence @bool_input_3(%op: !transform.any_op {transform.readonly}) -> !transform.any_op {
    %found = transform.match.structured failures(propagate) %op : (!transform.any_op) -> !transform.any_op {
    ^bb0(%each: !transform.any_op):
      %value = transform.match.structured.input %each[3] : (!transform.any_op) -> !transform.any_value
      %bits = transform.match.structured.elemental_bitwidth %value : (!transform.any_value) -> !transform.param<i64>
      %one = transform.param.constant 1 : i64 -> !transform.param<i64>
      transform.match.param.cmpi eq %bits, %one : !transform.param<i64>
      transform.match.structured.yield %each : !transform.any_op
    }
    transform.yield %found : !transform.any_op
  }
  transform.named_sequence @bool_init_0(%op: !transform.any_op {transform.readonly}) -> !transform.any_op {
    %found = transform.match.structured failures(propagate) %op : (!transform.any_op) -> !transform.any_op {
    ^bb0(%each: !transform.any_op):
      %value = transform.match.structured.init %each[0] : (!transform.any_op) -> !transform.any_value
      %bits = transform.match.structured.elemental_bitwidth %value : (!transform.any_value) -> !transform.param<i64>
      %one = transform.param.constant 1 : i64 -> !transform.param<i64>
      transform.match.param.cmpi eq %bits, %one : !transform.param<i64>
      transform.match.structured.yield %each : !transform.any_op
    }
    transform.yield %found : !transform.any_op
  }
  transform.named_sequence @bool_init_1(%op: !transform.any_op {transform.readonly}) -> !transform.any_op {
    %found = transform.match.structured failures(propagate) %op : (!transform.any_op) -> !transform.any_op {
    ^bb0(%each: !transform.any_op):
      %value = transform.match.structured.init %each[1] : (!transform.any_op) -> !transform.any_value
      %bits = transform.match.structured.elemental_bitwidth %value : (!transform.any_value) -> !transform.param<i64>
      %one = transform.param.constant 1 : i64 -> !transform.param<i64>
      transform.match.param.cmpi eq %bits, %one : !transform.param<i64>
      transform.match.structured.yield %each : !transform.any_op
    }
    transform.yield %found : !transform.any_op
  }

  // Convolutions and pools slide a window: their indices are sums, which the vectorizer does not read.
  transform.named_sequence @window(%op: !transform.any_op {transform.readonly}) -> !transform.any_op {
    %found = transform.match.structured failures(propagate) %op : (!transform.any_op) -> !transform.any_op {
    ^bb0(%each: !transform.any_op):
      %dims:8 = transform.match.structured.classify_convolution_dims %each : (!transform.any_op)
        -> (!transform.param<i64>, !transform.param<i64>, !transform.param<i64>, !transform.param<i64>,
            !transform.param<i64>, !transform.param<i64>, !transform.param<i64>, !transform.param<i64>)
      transform.match.structured.yield %each : !transform.any_op
    }
    transform.yield %found : !transform.any_op
  }

  // Products: batches, rows and columns, then one contracted dimension.
  transform.named_sequence @float_product(%op: !transform.any_op {transform.readonly}) -> (!transform.any_op, !transform.param<i64>) {
    %found:2 = transform.match.structured failures(propagate) %op : (!transform.any_op) -> (!transform.any_op, !transform.param<i64>) {
    ^bb0(%each: !transform.any_op):
      "transform.match.structured.body"(%each) <{contraction = ["arith.mulf", "arith.addf"]}> : (!transform.any_op) -> ()
      %rank = transform.match.structured.rank %each : (!transform.any_op) -> !transform.param<i64>
      %three = transform.param.constant 3 : i64 -> !transform.param<i64>
      transform.match.param.cmpi ge %rank, %three : !transform.param<i64>
      "transform.match.structured.dim"(%each) <{is_inverted, parallel, raw_dim_list = array<i64: -1>}> : (!transform.any_op) -> ()
      "transform.match.structured.dim"(%each) <{raw_dim_list = array<i64: -1>, reduction}> : (!transform.any_op) -> ()
      transform.match.structured.yield %each, %rank : !transform.any_op, !transform.param<i64>
    }
    transform.yield %found#0, %found#1 : !transform.any_op, !transform.param<i64>
  }
  transform.named_sequence @integer_product(%op: !transform.any_op {transform.readonly}) -> (!transform.any_op, !transform.param<i64>) {
    %found:2 = transform.match.structured failures(propagate) %op : (!transform.any_op) -> (!transform.any_op, !transform.param<i64>) {
    ^bb0(%each: !transform.any_op):
      "transform.match.structured.body"(%each) <{contraction = ["arith.muli", "arith.addi"]}> : (!transform.any_op) -> ()
      %rank = transform.match.structured.rank %each : (!transform.any_op) -> !transform.param<i64>
      %three = transform.param.constant 3 : i64 -> !transform.param<i64>
      transform.match.param.cmpi ge %rank, %three : !transform.param<i64>
      "transform.match.structured.dim"(%each) <{is_inverted, parallel, raw_dim_list = array<i64: -1>}> : (!transform.any_op) -> ()
      "transform.match.structured.dim"(%each) <{raw_dim_list = array<i64: -1>, reduction}> : (!transform.any_op) -> ()
      transform.match.structured.yield %each, %rank : !transform.any_op, !transform.param<i64>
    }
    transform.yield %found#0, %found#1 : !transform.any_op, !transform.param<i64>
  }

  transform.named_sequence @other(%op: !transform.any_op {transform.readonly}) -> (!transform.any_op, !transform.param<i64>) {
    %found:2 = transform.match.structured failures(propagate) %op : (!transform.any_op) -> (!transform.any_op, !transform.param<i64>) {
    ^bb0(%each: !transform.any_op):
      %rank = transform.match.structured.rank %each : (!transform.any_op) -> !transform.param<i64>
      transform.match.structured.yield %each, %rank : !transform.any_op, !transform.param<i64>
    }
    transform.yield %found#0, %found#1 : !transform.any_op, !transform.param<i64>
  }

  transform.named_sequence @leave(%op: !transform.any_op {transform.readonly}) {
    transform.yield
  }
  transform.named_sequence @as_product(%op: !transform.any_op {transform.readonly}, %rank: !transform.param<i64> {transform.readonly}) {
    transform.annotate %op "mlir_matrix.product" = %rank : !transform.any_op, !transform.param<i64>
    transform.annotate %op "mlir_matrix.tile" : !transform.any_op
    transform.yield
  }
  transform.named_sequence @as_other(%op: !transform.any_op {transform.readonly}, %rank: !transform.param<i64> {transform.readonly}) {
    transform.annotate %op "mlir_matrix.other" = %rank : !transform.any_op, !transform.param<i64>
    transform.annotate %op "mlir_matrix.tile" : !transform.any_op
    transform.yield
  }

  // The main part of a peeled loop has whole tiles only, so that its operators are static whatever the size of the tensor.
  transform.named_sequence @peel(%loops: !transform.any_op {transform.readonly}) {
    transform.foreach %loops : !transform.any_op {
    ^bb0(%loop: !transform.any_op):
      transform.sequence %loop : !transform.any_op failures(suppress) {
      ^bb1(%each: !transform.any_op):
        %for = transform.cast %each : !transform.any_op to !transform.op<"scf.for">
        transform.loop.peel %for : (!transform.op<"scf.for">) -> (!transform.any_op, !transform.any_op)
      }
    }
    transform.yield
  }

  transform.named_sequence @__transform_main(%payload: !transform.any_op {transform.consumed}) {
    %module = transform.foreach_match in %payload
      @bool_input_0 -> @leave,
      @bool_input_1 -> @leave,
      @bool_input_2 -> @leave,
      @bool_input_3 -> @leave,
      @bool_init_0 -> @leave,
      @bool_init_1 -> @leave,
      @window -> @leave,
      @float_product -> @as_product,
      @integer_product -> @as_product,
      @other -> @as_other : (!transform.any_op) -> !transform.any_op
    %functions = transform.structured.match ops{["func.func"]} in %module : (!transform.any_op) -> !transform.any_op

    // One vector along the innermost dimension, row by row.
    %other_1 = transform.structured.match attributes {mlir_matrix.other = 1 : i64} in %module : (!transform.any_op) -> !transform.any_op
    %other_1_tile, %other_1_loops:1 = transform.structured.tile_using_for %other_1 tile_sizes [${vector}]
      : (!transform.any_op) -> (!transform.any_op, !transform.any_op)
    transform.include @peel failures(propagate) (%other_1_loops#0) : (!transform.any_op) -> ()
    %other_2 = transform.structured.match attributes {mlir_matrix.other = 2 : i64} in %module : (!transform.any_op) -> !transform.any_op
    %other_2_tile, %other_2_loops:2 = transform.structured.tile_using_for %other_2 tile_sizes [1, ${vector}]
      : (!transform.any_op) -> (!transform.any_op, !transform.any_op, !transform.any_op)
    transform.include @peel failures(propagate) (%other_2_loops#1) : (!transform.any_op) -> ()
    %other_3 = transform.structured.match attributes {mlir_matrix.other = 3 : i64} in %module : (!transform.any_op) -> !transform.any_op
    %other_3_tile, %other_3_loops:3 = transform.structured.tile_using_for %other_3 tile_sizes [1, 1, ${vector}]
      : (!transform.any_op) -> (!transform.any_op, !transform.any_op, !transform.any_op, !transform.any_op)
    transform.include @peel failures(propagate) (%other_3_loops#2) : (!transform.any_op) -> ()
    %other_4 = transform.structured.match attributes {mlir_matrix.other = 4 : i64} in %module : (!transform.any_op) -> !transform.any_op
    %other_4_tile, %other_4_loops:4 = transform.structured.tile_using_for %other_4 tile_sizes [1, 1, 1, ${vector}]
      : (!transform.any_op) -> (!transform.any_op, !transform.any_op, !transform.any_op, !transform.any_op, !transform.any_op)
    transform.include @peel failures(propagate) (%other_4_loops#3) : (!transform.any_op) -> ()
    %other_5 = transform.structured.match attributes {mlir_matrix.other = 5 : i64} in %module : (!transform.any_op) -> !transform.any_op
    %other_5_tile, %other_5_loops:5 = transform.structured.tile_using_for %other_5 tile_sizes [1, 1, 1, 1, ${vector}]
      : (!transform.any_op) -> (!transform.any_op, !transform.any_op, !transform.any_op, !transform.any_op,
          !transform.any_op, !transform.any_op)
    transform.include @peel failures(propagate) (%other_5_loops#4) : (!transform.any_op) -> ()
    %other_6 = transform.structured.match attributes {mlir_matrix.other = 6 : i64} in %module : (!transform.any_op) -> !transform.any_op
    %other_6_tile, %other_6_loops:6 = transform.structured.tile_using_for %other_6 tile_sizes [1, 1, 1, 1, 1, ${vector}]
      : (!transform.any_op) -> (!transform.any_op, !transform.any_op, !transform.any_op, !transform.any_op,
          !transform.any_op, !transform.any_op, !transform.any_op)
    transform.include @peel failures(propagate) (%other_6_loops#5) : (!transform.any_op) -> ()
    // A block of rows and columns, product by product.
    %product_3 = transform.structured.match attributes {mlir_matrix.product = 3 : i64} in %module : (!transform.any_op) -> !transform.any_op
    %product_3_tile, %product_3_loops:3 = transform.structured.tile_using_for %product_3 tile_sizes [${rows}, ${columns}, ${depth}]
      : (!transform.any_op) -> (!transform.any_op, !transform.any_op, !transform.any_op, !transform.any_op)
    transform.include @peel failures(propagate) (%product_3_loops#2) : (!transform.any_op) -> ()
    transform.include @peel failures(propagate) (%product_3_loops#1) : (!transform.any_op) -> ()
    transform.include @peel failures(propagate) (%product_3_loops#0) : (!transform.any_op) -> ()
    %product_4 = transform.structured.match attributes {mlir_matrix.product = 4 : i64} in %module : (!transform.any_op) -> !transform.any_op
    %product_4_tile, %product_4_loops:4 = transform.structured.tile_using_for %product_4 tile_sizes [1, ${rows}, ${columns}, ${depth}]
      : (!transform.any_op) -> (!transform.any_op, !transform.any_op, !transform.any_op, !transform.any_op, !transform.any_op)
    transform.include @peel failures(propagate) (%product_4_loops#3) : (!transform.any_op) -> ()
    transform.include @peel failures(propagate) (%product_4_loops#2) : (!transform.any_op) -> ()
    transform.include @peel failures(propagate) (%product_4_loops#1) : (!transform.any_op) -> ()
    %product_5 = transform.structured.match attributes {mlir_matrix.product = 5 : i64} in %module : (!transform.any_op) -> !transform.any_op
    %product_5_tile, %product_5_loops:5 = transform.structured.tile_using_for %product_5 tile_sizes [1, 1, ${rows}, ${columns}, ${depth}]
      : (!transform.any_op) -> (!transform.any_op, !transform.any_op, !transform.any_op, !transform.any_op,
          !transform.any_op, !transform.any_op)
    transform.include @peel failures(propagate) (%product_5_loops#4) : (!transform.any_op) -> ()
    transform.include @peel failures(propagate) (%product_5_loops#3) : (!transform.any_op) -> ()
    transform.include @peel failures(propagate) (%product_5_loops#2) : (!transform.any_op) -> ()

    "transform.apply_patterns"(%functions) <{apply_cse}> ({
      transform.apply_patterns.linalg.tiling_canonicalization
      transform.apply_patterns.scf.for_loop_canonicalization
      transform.apply_patterns.canonicalization
    }) : (!transform.any_op) -> ()

    %tiles = transform.structured.match attributes {mlir_matrix.tile} in %module : (!transform.any_op) -> !transform.any_op
    transform.foreach %tiles : !transform.any_op {
    ^bb0(%tile: !transform.any_op):
      transform.sequence %tile : !transform.any_op failures(suppress) {
      ^bb1(%each: !transform.any_op):
        transform.structured.vectorize %each : !transform.any_op
      }
    }

    // Write through slices, so that an accumulator can stay in registers over the loop that reduces into it.
    "transform.apply_patterns"(%functions) <{apply_cse}> ({
      transform.apply_patterns.vector.reduction_to_contract
      transform.apply_patterns.vector.transfer_permutation_patterns
      transform.apply_patterns.tensor.fold_tensor_subset_ops_into_vector_transfers
      transform.apply_patterns.canonicalization
    }) : (!transform.any_op) -> ()
    %loops = transform.structured.match ops{["scf.for"]} in %module : (!transform.any_op) -> !transform.any_op
    transform.loop.hoist_loop_invariant_subsets %loops : !transform.any_op
    "transform.apply_patterns"(%functions) <{apply_cse}> ({
      transform.apply_patterns.vector.cast_away_vector_leading_one_dim
      transform.apply_patterns.canonicalization
    }) : (!transform.any_op) -> ()
    transform.yield
  }
}
