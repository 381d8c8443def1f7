#include "tests/support/test.h"
int main(void){return 0;}
