void workload(const float x[N][C][H][W], const float w[F][D][KH][KW], float y[N][F][OH][OW]) {
  for (int n = 0; n < N; n++)
    for (int f = 0; f < F; f++)
      for (int i = 0; i < OH; i++)
        for (int j = 0; j < OW; j++) {
          y[n][f][i][j] = 0;
          for (int c = 0; c < D; c++)
            for (int k = 0; k < KH; k++)
              for (int l = 0; l < KW; l++) y[n][f][i][j] += x[n][f / (F / G) * D + c][i + k][j + l] * w[f][c][k][l];
        }
}
