void workload(const float x[M][N], float y[M][N]) {
  for (int i = 0; i < M; i++) {
    float sum = 0;
    for (int j = 0; j < N; j++) y[i][j] = sum += x[i][j] * x[i][j];
  }
}
