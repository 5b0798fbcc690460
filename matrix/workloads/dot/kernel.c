void workload(const float a[K], const float b[K], float y[1]) {
  *y = 0;
  for (int k = 0; k < K; k++) *y += a[k] * b[k];
}
