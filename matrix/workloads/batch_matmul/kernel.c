void workload(const float x[B][M][K], const float w[B][K][N], float y[B][M][N]) {
  for (int b = 0; b < B; b++)
    for (int i = 0; i < M; i++)
      for (int j = 0; j < N; j++) {
        float sum = 0;
        for (int k = 0; k < K; k++) sum += x[b][i][k] * w[b][k][j];
        y[b][i][j] = sum;
      }
}
