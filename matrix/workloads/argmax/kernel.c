void workload(const float x[M][N], int32_t y[M]) {
  for (int i = 0; i < M; i++) {
    y[i] = 0;
    for (int j = 1; j < N; j++)
      if (x[i][j] > x[i][y[i]]) y[i] = j;
  }
}
