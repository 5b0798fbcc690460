void workload(const int32_t pos[POS], const int32_t crd[NNZ], const float val[NNZ], const float x[N][K], float y[M][K]) {
  for (int i = 0; i < M; i++) {
    for (int k = 0; k < K; k++) y[i][k] = 0;
    for (int p = pos[i]; p < pos[i + 1]; p++)
      for (int k = 0; k < K; k++) y[i][k] += val[p] * x[crd[p]][k];
  }
}
