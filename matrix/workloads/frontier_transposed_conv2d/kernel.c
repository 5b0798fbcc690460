void workload(const float x[N][C][H][W], const float w[C][F][KH][KW], float y[N][F][OH][OW]) {
  for (int n = 0; n < N; n++)
    for (int f = 0; f < F; f++) {
      for (int i = 0; i < OH; i++)
        for (int j = 0; j < OW; j++) y[n][f][i][j] = 0;
      for (int c = 0; c < C; c++)
        for (int h = 0; h < H; h++)
          for (int v = 0; v < W; v++)
            for (int k = 0; k < KH; k++)
              for (int l = 0; l < KW; l++) {
                int i = 2 * h + k - 1, j = 2 * v + l - 1;
                if (i >= 0 && i < OH && j >= 0 && j < OW) y[n][f][i][j] += x[n][c][h][v] * w[c][f][k][l];
              }
    }
}
