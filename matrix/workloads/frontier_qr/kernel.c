/* Gram and Schmidt's method, modified. */
void workload(const float x[M][N], float q[M][N], float r[N][N]) {
  for (int i = 0; i < M; i++)
    for (int j = 0; j < N; j++) q[i][j] = x[i][j];
  for (int j = 0; j < N; j++) {
    float square = 0;
    for (int i = 0; i < M; i++) square += q[i][j] * q[i][j];
    for (int k = 0; k < j; k++) r[j][k] = 0;
    r[j][j] = sqrtf(square);
    for (int i = 0; i < M; i++) q[i][j] /= r[j][j];
    for (int k = j + 1; k < N; k++) {
      r[j][k] = 0;
      for (int i = 0; i < M; i++) r[j][k] += q[i][j] * q[i][k];
      for (int i = 0; i < M; i++) q[i][k] -= r[j][k] * q[i][j];
    }
  }
}
