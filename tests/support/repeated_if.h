/* Search for values that a shader keeps from one `if` to a second `if` of the same condition, with
 * a barrier or an access to memory between the two. Mesa's V3D compiler never finishes such a
 * shader (docs/driver-bugs.md). */
#ifndef DGL_TESTS_REPEATED_IF_H
#define DGL_TESTS_REPEATED_IF_H

#include <stdbool.h>

#define REPEATED_IF_WHY 512

/* The two `if`s, or `?:`. Line numbers count as #line does. */
struct repeated_if {
    unsigned line, second_line;
    char source[160], second_source[160]; /* the text of these lines */
};

/* Returns false if glslangValidator or spirv-opt is not installed. */
bool repeated_if_can_look(void);
/* Examines a complete shader. Returns the number of such values and sets *first; or returns -1
 * with a reason in `why` if the tools cannot read the shader. Several threads may call it. */
int repeated_if_look(const char *glsl, struct repeated_if *first, char why[REPEATED_IF_WHY]);

#endif
