#include "cli/stop.h"

#include <signal.h>
#include <stdbool.h>
#include <stddef.h>

static atomic_bool stopped;

static void on_signal(int number)
{
    (void)number;
    atomic_store(&stopped, true);
}

const atomic_bool *qn_stop_on_signals(void)
{
    struct sigaction action = {.sa_handler = on_signal, .sa_flags = (int)SA_RESETHAND};
    sigemptyset(&action.sa_mask);
    sigaction(SIGINT, &action, NULL);
    sigaction(SIGTERM, &action, NULL);
    return &stopped;
}
