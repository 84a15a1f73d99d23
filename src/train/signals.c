/* signals.c - two words that handlers write. Signals belong to the process, so these are the process's, not a rank's. */
#include "train/signals.h"

#include <signal.h>
#include <stddef.h>

static atomic_int received, interrupt; /* relaxed: looked at again and again */
static struct sigaction former_int, former_term;
static sigset_t former_mask;

static void on_signal(int number)
{
    if (atomic_exchange_explicit(&received, number, memory_order_relaxed) != 0) {
        signal(number, SIG_DFL); /* the second one kills */
        raise(number);
        return;
    }
    if (number == SIGINT)
        atomic_store_explicit(&interrupt, 1, memory_order_relaxed);
}

static sigset_t both(void)
{
    sigset_t set;
    sigemptyset(&set);
    sigaddset(&set, SIGINT);
    sigaddset(&set, SIGTERM);
    return set;
}

void tdmi_signals_begin(void)
{
    const sigset_t set = both();
    atomic_store(&received, 0);
    atomic_store(&interrupt, 0);
    sigaction(SIGINT, NULL, &former_int);
    sigaction(SIGTERM, NULL, &former_term);
    pthread_sigmask(SIG_UNBLOCK, &set, &former_mask);
}

void tdmi_signals_install(void)
{
    struct sigaction action = {.sa_handler = on_signal, .sa_flags = SA_RESTART};
    sigemptyset(&action.sa_mask);
    sigaction(SIGINT, &action, NULL);
    sigaction(SIGTERM, &action, NULL);
}

void tdmi_signals_restore(void)
{
    pthread_sigmask(SIG_SETMASK, &former_mask, NULL);
    sigaction(SIGINT, &former_int, NULL);
    sigaction(SIGTERM, &former_term, NULL);
}

int tdmi_signals_received(void)
{
    return atomic_load_explicit(&received, memory_order_relaxed);
}

const atomic_int *tdmi_signals_interrupt(void)
{
    return &interrupt;
}
