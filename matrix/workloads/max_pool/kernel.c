void workload(const float x[N][C][H][W], float y[N][C][OH][OW]) {
  for (int n = 0; n < N; n++)
    for (int c = 0; c < C; c++)
      for (int i = 0; i < OH; i++)
        for (int j = 0; j < OW; j++) {
          float largest = -INFINITY;
          for (int row = 2 * i - 1; row <= 2 * i + 1; row++)
            for (int column = 2 * j - 1; column <= 2 * j + 1; column++)
              if (row >= 0 && row < H && column >= 0 && column < W) largest = fmaxf(largest, x[n][c][row][column]);
          y[n][c][i][j] = largest;
        }
}
