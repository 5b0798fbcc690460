// A dialect of one operation, a pass that lowers it, and the program that runs the pass.
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Dialect/Linalg/IR/Linalg.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"
#include "mlir/IR/DialectImplementation.h"
#include "mlir/IR/OpImplementation.h"
#include "mlir/Interfaces/SideEffectInterfaces.h"
#include "mlir/Pass/Pass.h"
#include "mlir/Tools/mlir-opt/MlirOptMain.h"
#include "llvm/Support/CommandLine.h"

#include "ToyDialect.h.inc"
#define GET_OP_CLASSES
#include "Toy.h.inc"

#include "ToyDialect.cpp.inc"
#define GET_OP_CLASSES
#include "Toy.cpp.inc"

void toy::ToyDialect::initialize() {
  addOperations<
#define GET_OP_LIST
#include "Toy.cpp.inc"
      >();
}

namespace {
struct ToyToLinalg : mlir::PassWrapper<ToyToLinalg, mlir::OperationPass<>> {
  MLIR_DEFINE_EXPLICIT_INTERNAL_INLINE_TYPE_ID(ToyToLinalg)
  llvm::StringRef getArgument() const override { return "toy-to-linalg"; }
  llvm::StringRef getDescription() const override { return "Turn toy.twice into linalg.add."; }
  void getDependentDialects(mlir::DialectRegistry &registry) const override {
    registry.insert<mlir::linalg::LinalgDialect, mlir::tensor::TensorDialect>();
  }
  void runOnOperation() override {
    getOperation()->walk([](toy::TwiceOp op) {
      mlir::OpBuilder builder(op);
      auto type = llvm::cast<mlir::RankedTensorType>(op.getType());
      mlir::Value empty = builder.create<mlir::tensor::EmptyOp>(op.getLoc(), type.getShape(), type.getElementType());
      auto sum = builder.create<mlir::linalg::AddOp>(
          op.getLoc(), mlir::ValueRange{op.getX(), op.getX()}, mlir::ValueRange{empty});
      op.replaceAllUsesWith(sum->getResult(0));
      op.erase();
    });
  }
};
} // namespace

int main(int argc, char **argv) {
  llvm::cl::AddExtraVersionPrinter([](llvm::raw_ostream &out) { out << "toy-opt 0.1.0\n"; });
  mlir::PassRegistration<ToyToLinalg>();
  mlir::DialectRegistry registry;
  registry.insert<mlir::func::FuncDialect, mlir::linalg::LinalgDialect, mlir::tensor::TensorDialect, toy::ToyDialect>();
  return mlir::asMainReturnCode(mlir::MlirOptMain(argc, argv, "The optimizer of toy\n", registry));
}
