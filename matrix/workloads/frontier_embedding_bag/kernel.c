void workload(const int32_t i[B][L], const float w[V][E], float y[B][E]) {
  for (int b = 0; b < B; b++)
    for (int e = 0; e < E; e++) {
      y[b][e] = 0;
      for (int l = 0; l < L; l++) y[b][e] += w[i[b][l]][e];
    }
}
