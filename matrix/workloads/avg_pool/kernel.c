void workload(const float x[N][C][H][W], float y[N][C][OH][OW]) {
  for (int n = 0; n < N; n++)
    for (int c = 0; c < C; c++)
      for (int i = 0; i < OH; i++)
        for (int j = 0; j < OW; j++) {
          float sum = 0;
          for (int k = 0; k < 3; k++)
            for (int l = 0; l < 3; l++) sum += x[n][c][2 * i + k][2 * j + l];
          y[n][c][i][j] = sum / 9;
        }
}
