// Bufferization would otherwise accumulate into the caller's x.
func.func @main(%x: tensor<41x7xf32> {bufferization.writable = false},
                %i: tensor<300x7xi32>, %u: tensor<300x7xf32>) -> tensor<41x7xf32> {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %rows = arith.constant 300 : index
  %columns = arith.constant 7 : index
  %y = scf.for %n = %c0 to %rows step %c1 iter_args(%done = %x) -> tensor<41x7xf32> {
    %next = scf.for %e = %c0 to %columns step %c1 iter_args(%part = %done) -> tensor<41x7xf32> {
      %number = tensor.extract %i[%n, %e] : tensor<300x7xi32>
      %row = arith.index_cast %number : i32 to index
      %update = tensor.extract %u[%n, %e] : tensor<300x7xf32>
      %old = tensor.extract %part[%row, %e] : tensor<41x7xf32>
      %new = arith.addf %old, %update : f32
      %more = tensor.insert %new into %part[%row, %e] : tensor<41x7xf32>
      scf.yield %more : tensor<41x7xf32>
    }
    scf.yield %next : tensor<41x7xf32>
  }
  return %y : tensor<41x7xf32>
}
