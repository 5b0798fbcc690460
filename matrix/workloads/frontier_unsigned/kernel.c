void workload(const uint16_t x[N], const uint32_t y[N], const uint64_t z[N], uint32_t quotient[N], uint64_t remainder[N],
              uint16_t shifted[N], uint32_t larger[N], float number[N]) {
  for (int i = 0; i < N; i++) {
    uint32_t wide = (uint32_t)x[i] << 16;
    quotient[i] = y[i] / x[i];
    remainder[i] = z[i] % y[i];
    shifted[i] = x[i] >> 3;
    larger[i] = y[i] > wide ? y[i] : wide;
    number[i] = (float)y[i];
  }
}
