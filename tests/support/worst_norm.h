/* A norm kernel whose tunables have the worst of their values as presets, to test the tuner. */
#ifndef DGL_TESTS_WORST_NORM_H
#define DGL_TESTS_WORST_NORM_H

/* Writes the built-in norm_rms to `dir`/`name` with two more tunables. SPIN, 4096 or 0, adds idle
 * rounds to every invocation, which makes it slower by more than any noise. HALF, 0 or 1, makes
 * results wrong. `remark`, comment lines or "", makes the text different. */
void worst_norm_write(const char *dir, const char *name, const char *remark);

#endif
