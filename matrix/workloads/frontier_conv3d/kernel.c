void workload(const float x[N][C][D][H][W], const float w[F][C][K][K][K], float y[N][F][D][H][W]) {
  for (int n = 0; n < N; n++)
    for (int f = 0; f < F; f++)
      for (int p = 0; p < D * H * W; p++) {
        int i = p / (H * W), j = p / W % H, k = p % W;
        float sum = 0;
        for (int c = 0; c < C; c++)
          for (int t = 0; t < K * K * K; t++) {
            int a = i + t / (K * K) - 1, b = j + t / K % K - 1, e = k + t % K - 1;
            if (a >= 0 && a < D && b >= 0 && b < H && e >= 0 && e < W)
              sum += x[n][c][a][b][e] * w[f][c][t / (K * K)][t / K % K][t % K];
          }
        y[n][f][i][j][k] = sum;
      }
}
