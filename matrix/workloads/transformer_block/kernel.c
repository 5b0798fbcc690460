static void norm(const float *x, const float *w, const float *b, float *y) {
  float mean = 0, variance = 0;
  for (int e = 0; e < E; e++) mean += x[e] / E;
  for (int e = 0; e < E; e++) variance += (x[e] - mean) * (x[e] - mean) / E;
  for (int e = 0; e < E; e++) y[e] = (x[e] - mean) / sqrtf(variance + 1e-5f) * w[e] + b[e];
}

/* y = x @ w + b */
static void dense(int in, int out, const float *x, const float *w, const float *b, float *y) {
  for (int j = 0; j < out; j++) {
    y[j] = 0;
    for (int i = 0; i < in; i++) y[j] += x[i] * w[i * out + j];
    y[j] += b[j];
  }
}

/* Position i of one head sees positions 0 to i. */
static void attend(int i, float qkv[S][Q], int head, float *y) {
  float weights[S], largest = -INFINITY, sum = 0;
  const float *q = qkv[i] + head * D;
  for (int j = 0; j <= i; j++) {
    weights[j] = 0;
    for (int d = 0; d < D; d++) weights[j] += q[d] * qkv[j][E + head * D + d];
    weights[j] /= sqrtf(D);
    largest = fmaxf(largest, weights[j]);
  }
  for (int j = 0; j <= i; j++) sum += weights[j] = expf(weights[j] - largest);
  for (int d = 0; d < D; d++) {
    y[d] = 0;
    for (int j = 0; j <= i; j++) y[d] += weights[j] * qkv[j][2 * E + head * D + d];
    y[d] /= sum;
  }
}

void workload(const float x[B][S][E], const float ln1_w[E], const float ln1_b[E], const float qkv_w[E][Q], const float qkv_b[Q],
              const float out_w[E][E], const float out_b[E], const float ln2_w[E], const float ln2_b[E], const float up_w[E][F],
              const float up_b[F], const float down_w[F][E], const float down_b[E], float y[B][S][E]) {
  for (int b = 0; b < B; b++) {
    float qkv[S][Q], normed[E], mixed[E], first[E], hidden[F];
    for (int s = 0; s < S; s++) {
      norm(x[b][s], ln1_w, ln1_b, normed);
      dense(E, Q, normed, qkv_w[0], qkv_b, qkv[s]);
    }
    for (int s = 0; s < S; s++) {
      for (int h = 0; h < H; h++) attend(s, qkv, h, mixed + h * D);
      dense(E, E, mixed, out_w[0], out_b, first);
      for (int e = 0; e < E; e++) first[e] += x[b][s][e];
      norm(first, ln2_w, ln2_b, normed);
      dense(E, F, normed, up_w[0], up_b, hidden);
      for (int f = 0; f < F; f++) hidden[f] /= 1 + expf(-hidden[f]);
      dense(F, E, hidden, down_w[0], down_b, y[b][s]);
      for (int e = 0; e < E; e++) y[b][s][e] += first[e];
    }
  }
}
