void workload(const float x[M][N], float values[M][N], int32_t indices[M][N]) {
  for (int i = 0; i < M; i++)
    for (int j = 0; j < N; j++) {
      int place = j;
      for (; place > 0 && values[i][place - 1] > x[i][j]; place--) {
        values[i][place] = values[i][place - 1];
        indices[i][place] = indices[i][place - 1];
      }
      values[i][place] = x[i][j];
      indices[i][place] = j;
    }
}
