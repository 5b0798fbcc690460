void workload(const int16_t a[M][L], const int16_t b[M][L], int32_t y[M]) {
  for (int i = 0; i < M; i++) {
    y[i] = 0;
    for (int j = 0; j < L; j++) y[i] += a[i][j] * b[i][j];
  }
}
