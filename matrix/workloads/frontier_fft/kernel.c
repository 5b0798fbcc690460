float cosf(float);

void workload(const float x[M][N], float re[M][K], float im[M][K]) {
  for (int i = 0; i < M; i++)
    for (int k = 0; k < K; k++) {
      float cosines = 0, sines = 0;
      for (int j = 0; j < N; j++) {
        float angle = 6.28318530717958647692f * (float)(j * k % N) / N;
        cosines += x[i][j] * cosf(angle);
        sines += x[i][j] * sinf(angle);
      }
      re[i][k] = cosines;
      im[i][k] = -sines;
    }
}
