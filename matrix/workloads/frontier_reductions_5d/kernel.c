void workload(const float x[A][B][C][D][E], float largest[A][C][E], float product[A][B][C][D], float total[B][D]) {
  for (int b = 0; b < B; b++)
    for (int d = 0; d < D; d++) total[b][d] = 0;
  for (int a = 0; a < A; a++)
    for (int b = 0; b < B; b++)
      for (int c = 0; c < C; c++)
        for (int d = 0; d < D; d++) {
          product[a][b][c][d] = 1;
          for (int e = 0; e < E; e++) {
            float each = x[a][b][c][d][e];
            largest[a][c][e] = b == 0 && d == 0 ? each : fmaxf(largest[a][c][e], each);
            product[a][b][c][d] *= each;
            total[b][d] += each;
          }
        }
}
