void workload(const float x[B][I], const float w1[I][H], const float b1[H], const float w2[H][O], const float b2[O],
              float y[B][O]) {
  for (int b = 0; b < B; b++) {
    float hidden[H];
    for (int h = 0; h < H; h++) {
      float sum = 0;
      for (int i = 0; i < I; i++) sum += x[b][i] * w1[i][h];
      hidden[h] = fmaxf(sum + b1[h], 0);
    }
    for (int o = 0; o < O; o++) {
      float sum = 0;
      for (int h = 0; h < H; h++) sum += hidden[h] * w2[h][o];
      y[b][o] = sum + b2[o];
    }
  }
}
