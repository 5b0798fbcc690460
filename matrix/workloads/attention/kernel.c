void workload(const float q[B][H][S][D], const float k[B][H][S][D], const float v[B][H][S][D], float y[B][H][S][D]) {
  for (int b = 0; b < B; b++)
    for (int h = 0; h < H; h++)
      for (int i = 0; i < S; i++) {
        float weights[S], largest = -INFINITY, sum = 0;
        for (int j = 0; j <= i; j++) {
          weights[j] = 0;
          for (int d = 0; d < D; d++) weights[j] += q[b][h][i][d] * k[b][h][j][d];
          weights[j] /= sqrtf(D);
          largest = fmaxf(largest, weights[j]);
        }
        for (int j = 0; j <= i; j++) sum += weights[j] = expf(weights[j] - largest);
        for (int d = 0; d < D; d++) {
          y[b][h][i][d] = 0;
          for (int j = 0; j <= i; j++) y[b][h][i][d] += weights[j] / sum * v[b][h][j][d];
        }
      }
}
