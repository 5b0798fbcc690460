// RUN: toy-opt --toy-to-arith %s | FileCheck %s

// CHECK: arith.addf %[[X:.*]], %[[X]] :
func.func @f(%x: tensor<4xf32>) -> tensor<4xf32> {
  %y = toy.twice %x : tensor<4xf32>
  return %y : tensor<4xf32>
}
