#include "use.c"
