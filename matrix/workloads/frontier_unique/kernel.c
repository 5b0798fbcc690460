void workload(const int32_t x[N], int32_t values[N], int32_t count[1]) {
  int found = 0;
  for (int i = 0; i < N; i++) {
    int place = 0;
    while (place < found && values[place] < x[i]) place++;
    if (place < found && values[place] == x[i]) continue;
    for (int j = found++; j > place; j--) values[j] = values[j - 1];
    values[place] = x[i];
  }
  count[0] = found;
  for (; found < N; found++) values[found] = -99;
}
