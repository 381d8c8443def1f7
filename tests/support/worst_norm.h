/* A norm kernel whose tunables have the worst of their values as presets, to test the tuner. */
#ifndef DGL_TESTS_WORST_NORM_H
#define DGL_TESTS_WORST_NORM_H

/* Writes the built-in norm_rms with two more tunables to `dir`/`name`: SPIN, 4096 or 0, idle rounds
 * of every invocation, by a factor that no noise reaches slower than need be; and HALF, 0 or 1,
 * with which results are wrong. `remark`, comment lines or "", makes it another text. */
void worst_norm_write(const char *dir, const char *name, const char *remark);

#endif
