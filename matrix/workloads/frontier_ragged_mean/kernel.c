void workload(const float x[B][T][E], const int32_t lengths[B], float y[B][E]) {
  for (int b = 0; b < B; b++)
    for (int e = 0; e < E; e++) {
      float sum = 0;
      for (int t = 0; t < lengths[b]; t++) sum += x[b][t][e];
      y[b][e] = sum / lengths[b];
    }
}
