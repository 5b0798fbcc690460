void workload(const float x[N], const float p[N], float y[N]) {
  for (int i = 0; i < N; i++) y[i] = powf(x[i], p[i]);
}
