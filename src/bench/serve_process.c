/* The server writes into a file in memory rather than a pipe: nobody has to read on while requests are measured, and
 * no chatter can block it. */
#include "bench/serve_process.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/log.h"

enum { LOOK_MS = 20, KILL_AFTER_US = 30 * 1000 * 1000, LINE_BYTES = QN_SERVE_URL_BYTES, EXEC_FAILED = 127 };

static void sleep_ms(int ms)
{
    poll(NULL, 0, ms);
}

/* Between fork and exec: only what is safe there. */
static void become_server(const char *path, char *const *argv, int log_fd, pid_t parent)
{
    sigset_t none;
    sigemptyset(&none);
    setpgid(0, 0);
    prctl(PR_SET_PDEATHSIG, SIGTERM);
    int nothing = open("/dev/null", O_RDONLY);
    if (getppid() != parent || nothing < 0 || dup2(nothing, STDIN_FILENO) < 0 || dup2(log_fd, STDOUT_FILENO) < 0 ||
        dup2(log_fd, STDERR_FILENO) < 0)
        _exit(EXEC_FAILED);
    sigprocmask(SIG_SETMASK, &none, NULL);
    signal(SIGPIPE, SIG_DFL);
    execv(path, argv);
    _exit(EXEC_FAILED);
}

/* Says whole lines that came since the last time; at the end also a last one without its end. Takes the address from
 * the line that tells it. */
static void pass_on_lines(qn_serve_process *p, bool all)
{
    static const char prefix[] = "quern: ", serving[] = "quern: serving on ";
    char line[LINE_BYTES + 1];
    for (;;) {
        ssize_t got = pread(p->log_fd, line, LINE_BYTES, (off_t)p->told_bytes);
        if (got <= 0)
            return;
        line[got] = '\0';
        char *end = memchr(line, '\n', (size_t)got);
        if (!end && got < LINE_BYTES && !all)
            return;
        size_t bytes = end ? (size_t)(end - line) : (size_t)got;
        line[bytes] = '\0';
        p->told_bytes += bytes + (end != NULL);
        if (strncmp(line, serving, sizeof serving - 1) == 0)
            snprintf(p->base_url, sizeof p->base_url, "%s", line + sizeof serving - 1);
        qn_log("server: %s", strncmp(line, prefix, sizeof prefix - 1) == 0 ? line + sizeof prefix - 1 : line);
    }
}

/* Has it ended? Then *how is waitpid's. */
static bool has_ended(qn_serve_process *p, int *how)
{
    if (waitpid(p->pid, how, WNOHANG) == 0)
        return false;
    p->pid = 0;
    return true;
}

static qn_status wait_until_it_serves(qn_serve_process *p, const atomic_bool *stop, qn_error *err)
{
    for (;;) {
        int how = 0;
        bool over = has_ended(p, &how);
        pass_on_lines(p, over);
        if (over)
            return qn_fail(err, QN_FAILED, "server: it ended before it served, with exit code %d: its lines tell why",
                           WIFEXITED(how) ? WEXITSTATUS(how) : 128 + WTERMSIG(how));
        if (p->base_url[0])
            return QN_OK;
        if (stop && atomic_load(stop))
            return qn_fail(err, QN_CANCELLED, "bench: stopped while its server started: nothing was measured of it");
        sleep_ms(LOOK_MS);
    }
}

qn_status qn_serve_process_start(const char *path, const char *const *arguments, size_t count, const atomic_bool *stop,
                                 qn_serve_process *out, qn_error *err)
{
    static const char *const first[] = {"quern", "serve", "--host=127.0.0.1", "--port=0"};
    enum { FIRST = sizeof first / sizeof *first };
    const char *argv[FIRST + QN_SERVE_MAX_FLAGS + 1];
    *out = (qn_serve_process){.log_fd = -1};
    if (count > QN_SERVE_MAX_FLAGS)
        return qn_fail(err, QN_USAGE, "server: more than %d flags for it: give fewer", QN_SERVE_MAX_FLAGS);
    memcpy(argv, first, sizeof first);
    for (size_t i = 0; i < count; i++)
        argv[FIRST + i] = arguments[i];
    argv[FIRST + count] = NULL;
    out->log_fd = memfd_create("quern-serve-log", MFD_CLOEXEC);
    pid_t parent = getpid();
    out->pid = out->log_fd >= 0 ? fork() : -1;
    if (out->pid == 0)
        become_server(path ? path : "/proc/self/exe", (char *const *)argv, out->log_fd, parent);
    if (out->pid < 0) {
        out->pid = 0;
        qn_fail(err, QN_RESOURCE, "server: it can't be started: %s", strerror(errno));
    }
    qn_status status = out->pid > 0 ? wait_until_it_serves(out, stop, err) : QN_RESOURCE;
    if (status != QN_OK) {
        qn_error ignored; /* the first one tells why */
        qn_serve_process_stop(out, &ignored);
    }
    return status;
}

qn_status qn_serve_process_stop(qn_serve_process *p, qn_error *err)
{
    qn_status status = QN_OK;
    if (p->pid > 0) {
        int how = 0;
        uint64_t until_us = qn_now_us() + KILL_AFTER_US;
        pid_t pid = p->pid;
        kill(pid, SIGTERM);
        while (!has_ended(p, &how)) {
            if (qn_now_us() > until_us) {
                qn_log("server: it did not end within %d s of SIGTERM: killed", KILL_AFTER_US / 1000000);
                kill(pid, SIGKILL);
                until_us = UINT64_MAX;
            }
            sleep_ms(LOOK_MS);
        }
        if (!WIFEXITED(how) || WEXITSTATUS(how) != 0)
            status = qn_fail(err, QN_FAILED, "server: it ended with exit code %d: its lines tell why",
                             WIFEXITED(how) ? WEXITSTATUS(how) : 128 + WTERMSIG(how));
    }
    if (p->log_fd >= 0) {
        pass_on_lines(p, true);
        close(p->log_fd);
    }
    *p = (qn_serve_process){.log_fd = -1};
    return status;
}
