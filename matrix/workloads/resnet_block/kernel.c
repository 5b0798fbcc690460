static void conv_norm(const float x[C][H][W], const float w[C][C][KH][KW], const float scale[C], const float shift[C],
                      float y[C][H][W]) {
  for (int f = 0; f < C; f++)
    for (int i = 0; i < H; i++)
      for (int j = 0; j < W; j++) {
        float sum = 0;
        for (int c = 0; c < C; c++)
          for (int k = 0; k < KH; k++)
            for (int l = 0; l < KW; l++) {
              int row = i + k - 1, column = j + l - 1;
              if (row >= 0 && row < H && column >= 0 && column < W) sum += x[c][row][column] * w[f][c][k][l];
            }
        y[f][i][j] = sum * scale[f] + shift[f];
      }
}

void workload(const float x[N][C][H][W], const float w1[C][C][KH][KW], const float scale1[C], const float shift1[C],
              const float w2[C][C][KH][KW], const float scale2[C], const float shift2[C], float y[N][C][H][W]) {
  for (int n = 0; n < N; n++) {
    float hidden[C][H][W], *h = &hidden[0][0][0], *out = &y[n][0][0][0];
    conv_norm(x[n], w1, scale1, shift1, hidden);
    for (int i = 0; i < C * H * W; i++) h[i] = fmaxf(h[i], 0);
    conv_norm(hidden, w2, scale2, shift2, y[n]);
    for (int i = 0; i < C * H * W; i++) out[i] = fmaxf(out[i] + (&x[n][0][0][0])[i], 0);
  }
}
