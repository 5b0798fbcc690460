/* A bf16 is the upper half of a float. */
static float widened(uint16_t bits) { return (union { uint32_t bits; float value; }){(uint32_t)bits << 16}.value; }

void workload(const uint16_t x[M][K], const uint16_t w[K][N], float y[M][N]) {
  for (int i = 0; i < M; i++)
    for (int j = 0; j < N; j++) {
      y[i][j] = 0;
      for (int k = 0; k < K; k++) y[i][j] += widened(x[i][k]) * widened(w[k][j]);
    }
}
