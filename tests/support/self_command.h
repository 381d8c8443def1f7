/* A test program that can also run as the command, with the failures that the test adds at link
 * time. */
#ifndef DGL_TESTS_SELF_COMMAND_H
#define DGL_TESTS_SELF_COMMAND_H

/* Runs the command as its own main() does, without defaults of a configuration; its exit code. */
int self_command_run(int argc, char **argv);
/* The path of this program. */
const char *self_command_program(void);

#endif
