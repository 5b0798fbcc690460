void workload(const float x[M][N], float y[M][N]) {
  for (int i = 0; i < M; i++) {
    float largest = x[i][0], sum = 0;
    for (int j = 1; j < N; j++) largest = fmaxf(largest, x[i][j]);
    for (int j = 0; j < N; j++) sum += y[i][j] = expf(x[i][j] - largest);
    for (int j = 0; j < N; j++) y[i][j] /= sum;
  }
}
