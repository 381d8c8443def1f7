/* What is typed while an answer is printed. */
#ifndef DGL_TOOLS_TYPING_H
#define DGL_TOOLS_TYPING_H

/* Keeps what is typed off the screen until typing_release(), for whoever reads standard input next.
 * Ctrl-C still interrupts, and drops what was typed until then. Does nothing unless standard input
 * is a terminal that this process may read. One at a time. */
void typing_hold(void);
void typing_release(void);

#endif
