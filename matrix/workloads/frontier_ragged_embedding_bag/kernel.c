void workload(const int32_t i[T], const int32_t offsets[B], const float w[V][E], float y[B][E]) {
  for (int b = 0; b < B; b++)
    for (int e = 0; e < E; e++) {
      int end = b + 1 < B ? offsets[b + 1] : T;
      y[b][e] = 0;
      for (int t = offsets[b]; t < end; t++) y[b][e] += w[i[t]][e];
    }
}
