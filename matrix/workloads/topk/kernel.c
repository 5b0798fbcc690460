void workload(const float x[M][N], float values[M][K], int32_t indices[M][K]) {
  for (int i = 0; i < M; i++) {
    _Bool taken[N] = {0};
    for (int k = 0; k < K; k++) {
      int best = -1;
      for (int j = 0; j < N; j++)
        if (!taken[j] && (best < 0 || x[i][j] > x[i][best])) best = j;
      taken[best] = 1;
      values[i][k] = x[i][best];
      indices[i][k] = best;
    }
  }
}
