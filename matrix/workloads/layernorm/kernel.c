void workload(const float x[M][N], const float w[N], const float b[N], float y[M][N]) {
  for (int i = 0; i < M; i++) {
    float mean = 0, variance = 0;
    for (int j = 0; j < N; j++) mean += x[i][j];
    mean /= N;
    for (int j = 0; j < N; j++) variance += (x[i][j] - mean) * (x[i][j] - mean);
    float scale = 1 / sqrtf(variance / N + 1e-5f);
    for (int j = 0; j < N; j++) y[i][j] = (x[i][j] - mean) * scale * w[j] + b[j];
  }
}
