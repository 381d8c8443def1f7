/* The terminal's echo, off and on. */
#include "tools/cli/typing.h"

#include <stdbool.h>
#include <termios.h>
#include <unistd.h>

/* State of the terminal, of which there is only one. */
static struct termios before;
static bool held;

void typing_hold(void)
{
    struct termios quiet;
    /* A process in the background would be stopped. */
    if (held || tcgetpgrp(STDIN_FILENO) != getpgrp() || tcgetattr(STDIN_FILENO, &before) != 0)
        return;
    quiet = before;
    /* Without ICANON keys stay as they are, for the editor of the next line. */
    quiet.c_lflag &= ~(tcflag_t)(ECHO | ICANON);
    held = tcsetattr(STDIN_FILENO, TCSANOW, &quiet) == 0;
}

void typing_release(void)
{
    if (held)
        tcsetattr(STDIN_FILENO, TCSANOW, &before);
    held = false;
}
