void workload(const float x[M][K], float y[M]) {
  for (int i = 0; i < M; i++) {
    y[i] = 0;
    for (int k = 0; k < K; k++) y[i] += x[i][k];
  }
}
