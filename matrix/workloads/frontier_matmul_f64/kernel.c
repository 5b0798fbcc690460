void workload(const double x[M][K], const double w[K][N], double y[M][N]) {
  for (int i = 0; i < M; i++)
    for (int j = 0; j < N; j++) {
      y[i][j] = 0;
      for (int k = 0; k < K; k++) y[i][j] += x[i][k] * w[k][j];
    }
}
