void workload(const float x[B][M][N], float y[N][B][M]) {
  for (int b = 0; b < B; b++)
    for (int m = 0; m < M; m++)
      for (int n = 0; n < N; n++) y[n][b][m] = x[b][m][n];
}
