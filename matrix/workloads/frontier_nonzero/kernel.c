void workload(const int32_t x[N], int32_t places[N], int32_t count[1]) {
  count[0] = 0;
  for (int i = 0; i < N; i++) places[i] = -1;
  for (int i = 0; i < N; i++)
    if (x[i] != 0) places[count[0]++] = i;
}
