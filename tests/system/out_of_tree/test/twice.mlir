// RUN: toy-opt --toy-to-linalg %s | FileCheck %s

// CHECK: linalg.add ins(%[[X:.*]], %[[X]] :
func.func @f(%x: tensor<4xf32>) -> tensor<4xf32> {
  %y = toy.twice %x : tensor<4xf32>
  return %y : tensor<4xf32>
}
