void workload(const int32_t pos[POS], const int32_t crd[NNZ], const float val[NNZ], const float x[N], float y[M]) {
  for (int i = 0; i < M; i++) {
    y[i] = 0;
    for (int p = pos[i]; p < pos[i + 1]; p++) y[i] += val[p] * x[crd[p]];
  }
}
