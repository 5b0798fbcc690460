void workload(const int32_t i[B][S], const float w[V][E], float y[B][S][E]) {
  for (int b = 0; b < B; b++)
    for (int s = 0; s < S; s++)
      for (int e = 0; e < E; e++) y[b][s][e] = w[i[b][s]][e];
}
