/* Values that a text keeps from one `if` to the next `if` of the same condition, with an access to
 * memory or a barrier between. Mesa's V3D compiler never finishes such a text
 * (docs/driver-bugs.md). */
#ifndef DGL_TESTS_REPEATED_IF_H
#define DGL_TESTS_REPEATED_IF_H

#include <stdbool.h>
#include <stddef.h>

struct repeated_if {
    unsigned line;      /* of the second `if`, as #line counts */
    char variable[64];  /* that is kept; "?" if its name is lost */
    char condition[64]; /* what is compared: names and operator; "?" if they are lost */
};

/* False: glslangValidator and spirv-opt are not installed. */
bool repeated_if_can_look(void);
/* Looks through a complete text after inlining, unrolling of short loops and removal of equal
 * expressions. Returns how many there are, at most `cap` of them in `found`; -1 with the tool's
 * words in `why` if the text cannot be read. */
int repeated_if_look(const char *glsl, struct repeated_if *found, size_t cap, char why[512]);

#endif
