void workload(const float x[N][C][H][W], const float mean[C], const float variance[C], const float w[C], const float b[C],
              float y[N][C][H][W]) {
  for (int n = 0; n < N; n++)
    for (int c = 0; c < C; c++)
      for (int h = 0; h < H; h++)
        for (int v = 0; v < W; v++) y[n][c][h][v] = (x[n][c][h][v] - mean[c]) / sqrtf(variance[c] + 1e-5f) * w[c] + b[c];
}
