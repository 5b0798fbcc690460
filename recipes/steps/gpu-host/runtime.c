/* What host code of MLIR's gpu dialect calls. The process that loads it sets the four functions. */
typedef __INT32_TYPE__ int32_t;
typedef __INT64_TYPE__ int64_t;

void (*matrix_launch)(const char *kernel, const int64_t *grid, const int64_t *block, int32_t shared_bytes, void **arguments,
                      int64_t count);
void *(*matrix_allocate)(int64_t bytes);
void (*matrix_release)(void *memory);
void (*matrix_copy)(int64_t bytes, void *from, void *to);

/* The binary of a module is its name, and each module has one kernel. */
void *mgpuModuleLoad(void *name, int64_t bytes) { return name; }
void mgpuModuleUnload(void *module) {}
void *mgpuModuleGetFunction(void *module, const char *name) { return module; }

void mgpuLaunchKernel(void *kernel, int64_t grid_x, int64_t grid_y, int64_t grid_z, int64_t block_x, int64_t block_y,
                      int64_t block_z, int32_t shared_bytes, void *stream, void **arguments, void **extra, int64_t count) {
  const int64_t grid[] = {grid_x, grid_y, grid_z}, block[] = {block_x, block_y, block_z};
  matrix_launch(kernel, grid, block, shared_bytes, arguments, count);
}

/* A launch returns when the kernel is done. */
void *mgpuStreamCreate(void) { return 0; }
void mgpuStreamSynchronize(void *stream) {}
void mgpuStreamDestroy(void *stream) {}

void *_mlir_memref_to_llvm_alloc(int64_t bytes) { return matrix_allocate(bytes); }
void _mlir_memref_to_llvm_free(void *memory) { matrix_release(memory); }
void memrefCopy(int64_t bytes, void *from, void *to) { matrix_copy(bytes, from, to); }
