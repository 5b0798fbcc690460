void workload(const int16_t x[N], int32_t y[N]) {
  static const int c[4] = {3, -5, 7, 2};
  for (int i = 0; i < N; i++) {
    y[i] = 0;
    for (int j = 0; j < 4 && j <= i; j++) y[i] += c[j] * x[i - j];
  }
}
