/* Input that is typed while an answer is printed. */
#ifndef DGL_TOOLS_TYPING_H
#define DGL_TOOLS_TYPING_H

/* Hides typed characters until typing_release(). The next reader of standard input receives them.
 * Ctrl-C still interrupts, and drops the characters before it. Does nothing unless standard input
 * is a terminal that this process may read. One at a time. */
void typing_hold(void);
void typing_release(void);

#endif
