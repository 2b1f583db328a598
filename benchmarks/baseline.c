// Sequential k-means, dispersion with forgetting, XB and DB after every sample: what a person would write by hand in C.
// Compiled twice. Without LANES: one stream after the other, X (N, T, p). With LANES: a stream in each lane of a vector,
// X (T, p, N), N a multiple of 16. The paper's warm-up, no missing samples, no anchor: less than the library does.
#include <math.h>
#include <string.h>

#ifndef LANES

#define MOST 64

static float apart(const float *a, const float *b, long p) {
  float d = 0;
  for (long q = 0; q < p; q++) d += (a[q] - b[q]) * (a[q] - b[q]);
  return d;
}

void run(const float *X, long N, long T, long k, long p, float fade, float *XB, float *DB) {
#pragma omp parallel for schedule(static)
  for (long s = 0; s < N; s++) {
    float V[MOST][MOST], G[MOST][MOST], D[MOST][MOST], C[MOST], M[MOST], n[MOST], L[MOST];
    for (long i = 0; i < k; i++) {
      C[i] = 0, M[i] = k, n[i] = 1;
      memset(G[i], 0, sizeof G[i]);
      memcpy(V[i], X + (s * T + i) * p, p * sizeof(float));
      XB[s * T + i] = DB[s * T + i] = NAN;
    }
    for (long i = 0; i < k; i++)
      for (long j = 0; j < k; j++) D[i][j] = apart(V[i], V[j], p);
    for (long t = k; t < T; t++) {
      const float *x = X + (s * T + t) * p;
      long m = 0;
      float least = INFINITY, moved = 0, along = 0, error = 0, J = 0, h = INFINITY, db = 0;
      for (long i = 0; i < k; i++) {
        float d = apart(x, V[i], p);
        if (d < least) least = d, m = i;
      }
      n[m] += 1;
      for (long q = 0; q < p; q++) {
        float d = (V[m][q] - x[q]) / n[m], e;
        V[m][q] -= d;
        e = x[q] - V[m][q];
        along += d * G[m][q], moved += d * d, error += e * e;
        G[m][q] += M[m] * d + e / fade;
      }
      C[m] += 2 * along + M[m] * moved + error / fade;
      M[m] += 1 / fade;
      for (long j = 0; j < k; j++) D[m][j] = D[j][m] = apart(V[m], V[j], p);
      for (long i = 0; i < k; i++) {
        C[i] *= fade, M[i] *= fade, J += C[i], L[i] = C[i] / fmaxf(M[i], 1);
        for (long q = 0; q < p; q++) G[i][q] *= fade;
      }
      for (long i = 0; i < k; i++) {
        float worst = 0;
        for (long j = 0; j < k; j++)
          if (j != i) h = fminf(h, D[i][j]), worst = fmaxf(worst, (L[i] + L[j]) / D[i][j]);
        db += worst;
      }
      XB[s * T + t] = (1 - fade) * J / h, DB[s * T + t] = db / k;
    }
  }
}

#else

#ifdef __AVX512F__
#define W 16
#else
#define W 8  // wider vectors than the machine has are slower than none
#endif

typedef float real __attribute__((vector_size(W * 4)));
typedef int whole __attribute__((vector_size(W * 4)));

static inline real pick(whole yes, real a, real b) { return (real)((yes & (whole)a) | (~yes & (whole)b)); }
static inline real larger(real a, real b) { return pick(a > b, a, b); }

void run(const float *X, long N, long T, float fade, float *XB, float *DB) {
#pragma omp parallel for schedule(static)
  for (long s = 0; s < N; s += W) {
    real V[K][P], G[K][P], C[K], M[K], n[K], L[K], worst[K], zero = {0}, one = zero + 1;
    for (int i = 0; i < K; i++) {
      C[i] = zero, M[i] = zero + K, n[i] = one;
      for (int q = 0; q < P; q++) G[i][q] = zero, memcpy(&V[i][q], X + ((long)i * P + q) * N + s, sizeof(real));
    }
    for (long t = K; t < T; t++) {
      real x[P], least = zero + INFINITY, J = zero, near = zero, db = zero, xb;
      whole m = {0};
      for (int q = 0; q < P; q++) memcpy(&x[q], X + (t * P + q) * N + s, sizeof(real));
      for (int i = 0; i < K; i++) {
        real d = zero;
        for (int q = 0; q < P; q++) d += (x[q] - V[i][q]) * (x[q] - V[i][q]);
        whole closer = d < least;
        least = pick(closer, d, least), m = (closer & i) | (~closer & m);
      }
      for (int i = 0; i < K; i++) {
        real u = pick(m == i, one, zero), along = zero, moved = zero, error = zero;
        n[i] += u;
        real rate = u / n[i];
        for (int q = 0; q < P; q++) {
          real before = x[q] - V[i][q], d = before * rate, e = before - d;
          V[i][q] += d, along -= d * G[i][q], moved += d * d, error += e * e;
          G[i][q] = fade * (G[i][q] - M[i] * d) + u * e;
        }
        C[i] = fade * (C[i] + 2 * along + M[i] * moved) + u * error;
        M[i] = fade * M[i] + u, J += C[i], L[i] = C[i] / larger(M[i], one), worst[i] = zero;
      }
      for (int i = 0; i < K; i++)
        for (int j = i + 1; j < K; j++) {
          real d = zero;
          for (int q = 0; q < P; q++) d += (V[i][q] - V[j][q]) * (V[i][q] - V[j][q]);
          real r = one / d, ratio = (L[i] + L[j]) * r;
          near = larger(near, r), worst[i] = larger(worst[i], ratio), worst[j] = larger(worst[j], ratio);
        }
      for (int i = 0; i < K; i++) db += worst[i];
      xb = (1 - fade) * J * near, db /= K;
      memcpy(XB + t * N + s, &xb, sizeof xb), memcpy(DB + t * N + s, &db, sizeof db);
    }
  }
}

#endif
