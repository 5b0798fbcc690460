void workload(const float x[N][C][H][W], const float w[C], const float b[C], float y[N][C][H][W]) {
  enum { EACH = C / G, COUNT = EACH * H * W };
  for (int n = 0; n < N; n++)
    for (int g = 0; g < G; g++) {
      const float *in = &x[n][g * EACH][0][0];
      float *out = &y[n][g * EACH][0][0], sum = 0, squares = 0;
      for (int i = 0; i < COUNT; i++) sum += in[i];
      for (int i = 0; i < COUNT; i++) squares += (in[i] - sum / COUNT) * (in[i] - sum / COUNT);
      for (int i = 0; i < COUNT; i++) {
        int c = g * EACH + i / (H * W);
        out[i] = (in[i] - sum / COUNT) / sqrtf(squares / COUNT + 1e-5f) * w[c] + b[c];
      }
    }
}
