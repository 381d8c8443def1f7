/* A test program that is also the command, with what the test puts in its way at link time. */
#ifndef DGL_TESTS_SELF_COMMAND_H
#define DGL_TESTS_SELF_COMMAND_H

/* Runs the command as its own main() does, without defaults of a configuration; its exit code. */
int self_command_run(int argc, char **argv);
/* The path of this program. */
const char *self_command_program(void);

#endif
