void workload(const float x[B][1][N], const float b[M][1], float y[B][M][N]) {
  for (int i = 0; i < B; i++)
    for (int m = 0; m < M; m++)
      for (int n = 0; n < N; n++) y[i][m][n] = x[i][0][n] + b[m][0];
}
