void workload(const float x[V][E], const int32_t i[N][E], const float u[N][E], float y[V][E]) {
  for (int v = 0; v < V; v++)
    for (int e = 0; e < E; e++) y[v][e] = x[v][e];
  for (int n = 0; n < N; n++)
    for (int e = 0; e < E; e++) y[i[n][e]][e] += u[n][e];
}
