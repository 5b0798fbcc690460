void workload(const float x[N][C][H][W], const float w[F][C][KH][KW], float y[N][F][OH][OW]) {
  for (int n = 0; n < N; n++)
    for (int f = 0; f < F; f++)
      for (int i = 0; i < OH; i++)
        for (int j = 0; j < OW; j++) {
          float sum = 0;
          for (int c = 0; c < C; c++)
            for (int k = 0; k < KH; k++)
              for (int l = 0; l < KW; l++) {
                int row = i + 2 * k - 1, column = j + 3 * l - 1;
                if (row >= 0 && row < H && column >= 0 && column < W) sum += x[n][c][row][column] * w[f][c][k][l];
              }
          y[n][f][i][j] = sum;
        }
}
