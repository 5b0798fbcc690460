void workload(const int16_t a[K], const int16_t b[K], int32_t y[1]) {
  *y = 0;
  for (int k = 0; k < K; k++) *y += a[k] * b[k];
}
