static float widened(uint16_t bits) { return (union { uint32_t bits; float value; }){(uint32_t)bits << 16}.value; }

/* To the nearest bf16 and to even, of a finite number. */
static uint16_t narrowed(float value) {
  uint32_t bits = (union { float value; uint32_t bits; }){value}.bits;
  return (uint16_t)((bits + 0x7FFF + (bits >> 16 & 1)) >> 16);
}

/* Bit by bit: targets without instructions for f16 have no library function for it here. */
static float half(_Float16 given) {
  uint16_t bits = (union { _Float16 value; uint16_t bits; }){given}.bits;
  float size = (union { uint32_t bits; float value; }){(uint32_t)(bits & 0x7FFF) << 13}.value * 0x1p112f;
  return bits & 0x8000 ? -size : size;
}

void workload(const _Float16 x[M][K], const _Float16 w1[K][H], const _Float16 w2[H][O], float y[M][O]) {
  for (int i = 0; i < M; i++) {
    uint16_t hidden[H];
    for (int h = 0; h < H; h++) {
      float sum = 0;
      for (int k = 0; k < K; k++) sum += half(x[i][k]) * half(w1[k][h]);
      hidden[h] = narrowed(sum);
    }
    for (int o = 0; o < O; o++) {
      y[i][o] = 0;
      for (int h = 0; h < H; h++) y[i][o] += widened(hidden[h]) * half(w2[h][o]);
    }
  }
}
