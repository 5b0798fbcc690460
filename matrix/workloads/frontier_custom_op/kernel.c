void workload(const float x[M][N], float y[M][N]) {
  for (int i = 0; i < M; i++)
    for (int j = 0; j < N; j++) y[i][j] = x[i][j] / (1 + expf(-1.7f * x[i][j]));
}
