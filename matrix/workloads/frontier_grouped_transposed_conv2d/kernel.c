void workload(const float x[N][C][H][W], const float w[C][E][KH][KW], float y[N][F][OH][OW]) {
  for (int n = 0; n < N; n++)
    for (int f = 0; f < F; f++) {
      int group = f / E;
      for (int i = 0; i < OH; i++)
        for (int j = 0; j < OW; j++) y[n][f][i][j] = 0;
      for (int c = group * C / G; c < (group + 1) * C / G; c++)
        for (int h = 0; h < H; h++)
          for (int v = 0; v < W; v++)
            for (int k = 0; k < KH; k++)
              for (int l = 0; l < KW; l++) {
                int i = 2 * h + 2 * k - 1, j = 3 * v + l - 1;
                if (i >= 0 && i < OH && j >= 0 && j < OW) y[n][f][i][j] += x[n][c][h][v] * w[c][f % E][k][l];
              }
    }
}
