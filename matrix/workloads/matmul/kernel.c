void workload(const float x[M][K], const float w[K][N], float y[M][N]) {
  for (int i = 0; i < M; i++)
    for (int j = 0; j < N; j++) {
      float sum = 0;
      for (int k = 0; k < K; k++) sum += x[i][k] * w[k][j];
      y[i][j] = sum;
    }
}
