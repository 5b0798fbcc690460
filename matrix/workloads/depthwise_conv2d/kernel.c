void workload(const float x[N][C][H][W], const float w[C][1][KH][KW], float y[N][C][H][W]) {
  for (int n = 0; n < N; n++)
    for (int c = 0; c < C; c++)
      for (int i = 0; i < H; i++)
        for (int j = 0; j < W; j++) {
          float sum = 0;
          for (int k = 0; k < KH; k++)
            for (int l = 0; l < KW; l++) {
              int row = i + k - 1, column = j + l - 1;
              if (row >= 0 && row < H && column >= 0 && column < W) sum += x[n][c][row][column] * w[c][0][k][l];
            }
          y[n][c][i][j] = sum;
        }
}
