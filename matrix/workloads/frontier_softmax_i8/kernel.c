void workload(const int8_t x[M][N], int8_t y[M][N]) {
  for (int i = 0; i < M; i++) {
    int largest = -128;
    float e[N], sum = 0;
    for (int j = 0; j < N; j++) largest = x[i][j] > largest ? x[i][j] : largest;
    for (int j = 0; j < N; j++) sum += e[j] = expf((x[i][j] - largest) / 16.0f);
    for (int j = 0; j < N; j++) {
      /* There is no tie. */
      float step = floorf(e[j] / sum * 256 + 0.5f) - 128;
      y[i][j] = (int8_t)(step > 127 ? 127 : step);
    }
  }
}
