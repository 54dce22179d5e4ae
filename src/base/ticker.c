#include "base/ticker.h"

#include <stdarg.h>
#include <stdatomic.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/printable.h"

/* Whether the process has left a line of progress open on standard output. A thread that ends the process reads it. */
static atomic_bool has_open_line;

static const double terminal_pause = 0.2, pipe_pause = 10;

gp_ticker gp_ticker_on(FILE *out) {
    return (gp_ticker){.out = out, .terminal = out && isatty(fileno(out)) == 1, .said = gp_now()};
}

bool gp_ticker_is_due(const gp_ticker *ticker) {
    return ticker->out && gp_now() - ticker->said >= (ticker->terminal ? terminal_pause : pipe_pause);
}

void gp_ticker_say(gp_ticker *ticker, const char *format, ...) {
    va_list args;
    if (!ticker->out) return;
    if (ticker->terminal) fputs("\r", ticker->out);
    va_start(args, format);
    gp_print_list(ticker->out, format, args);
    va_end(args);
    fputs(ticker->terminal ? "\033[K" : "\n", ticker->out);
    fflush(ticker->out);
    ticker->open_line = ticker->terminal;
    if (ticker->terminal) atomic_store(&has_open_line, true);
    ticker->said = gp_now();
}

static void end_with(gp_ticker *ticker, const char *text) {
    if (!ticker->open_line) return;
    fputs(text, ticker->out);
    fflush(ticker->out);
    ticker->open_line = false;
    atomic_store(&has_open_line, false);
}

void gp_ticker_end(gp_ticker *ticker) {
    end_with(ticker, "\r\033[K");
}

void gp_ticker_keep(gp_ticker *ticker) {
    end_with(ticker, "\n");
}

/* Without the stream's lock, which a thread that hangs may hold. */
void gp_ticker_clear_line(bool of_others) {
    static const char clear[] = "\r\033[K";
    bool open = atomic_exchange(&has_open_line, false) || (of_others && isatty(STDOUT_FILENO) == 1);
    if (open && write(STDOUT_FILENO, clear, sizeof clear - 1) < 0) return;
}
