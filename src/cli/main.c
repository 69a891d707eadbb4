/* `quern COMMAND ...`: finds the command, runs it, and makes sure that what it printed arrived. */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/json.h"
#include "base/log.h"
#include "cli/command.h"
#include "cli/options.h"

/* In the order of `quern --help`, up to a NULL. */
static const qn_command *const commands[] = {
    &qn_run_command,  &qn_serve_command, &qn_inspect_command, &qn_convert_command, &qn_eval_command,
    &qn_text_command, &qn_bench_command, &qn_plan_command,    &qn_synth_command,   NULL,
};

/* Commands that quern's documents speak of and this version does not have. */
static const char *const later_commands[] = {"place", "gate"};
enum { LATER_COUNT = sizeof later_commands / sizeof later_commands[0] };

int qn_command_fail(const qn_error *err)
{
    qn_log_error(err);
    return err->status == QN_CANCELLED ? QN_FAILED : (int)err->status;
}

qn_status qn_stdout_check(qn_error *err)
{
    errno = 0;
    if (fflush(stdout) == 0 && !ferror(stdout)) {
        return QN_OK;
    }
    const char *reason = errno != 0 ? strerror(errno) : "a write failed";
    return qn_fail(err, QN_RESOURCE, "standard output: %s: the result is incomplete", reason);
}

/* A process started with a standard stream closed would get that number for the next file it opens, and print into
 * it. Opened read-only, such a stream fails each write as a closed one does. */
static void hold_standard_streams(void)
{
    for (int fd = 0; fd <= 2; fd++) {
        if (fcntl(fd, F_GETFD) < 0 && errno == EBADF) {
            int held = open("/dev/null", O_RDONLY);
            (void)held; /* without /dev/null there is nothing better to do */
        }
    }
}

static void print_help(FILE *out)
{
    fputs("usage: quern COMMAND [arguments]\n"
          "\n"
          "Runs models of the GLM-5 family on CPUs.\n"
          "\n"
          "commands:\n",
          out);
    for (size_t i = 0; commands[i] != NULL; i++) {
        fprintf(out, "  %-10s %s\n", commands[i]->name, commands[i]->summary);
    }
    fputs("\n"
          "quern COMMAND --help tells a command's options; quern --version the version.\n",
          out);
}

static const qn_command *find_command(const char *name)
{
    for (size_t i = 0; commands[i] != NULL; i++) {
        if (strcmp(commands[i]->name, name) == 0) {
            return commands[i];
        }
    }
    return NULL;
}

static int unknown_command(const char *name)
{
    qn_error err;
    for (size_t i = 0; i < LATER_COUNT; i++) {
        if (strcmp(later_commands[i], name) == 0) {
            qn_fail(&err, QN_USAGE, "%s: not in this version: see quern --help for the commands there are", name);
            return qn_command_fail(&err);
        }
    }
    const char *names[sizeof commands / sizeof commands[0]];
    size_t count = 0;
    for (size_t i = 0; commands[i] != NULL; i++) {
        names[count++] = commands[i]->name;
    }
    const char *near = qn_nearest_name(name, names, count);
    if (near != NULL) {
        qn_fail(&err, QN_USAGE, "%s: no such command: did you mean '%s'?", name, near);
    } else {
        qn_fail(&err, QN_USAGE, "%s: no such command: see quern --help for the commands there are", name);
    }
    return qn_command_fail(&err);
}

static int dispatch(int argc, char **argv)
{
    if (argc < 2) {
        print_help(stderr);
        return QN_USAGE;
    }
    const char *name = argv[1];
    bool help = strcmp(name, "--help") == 0 || strcmp(name, "-h") == 0 || strcmp(name, "help") == 0;
    if (help && argc == 2) {
        print_help(stdout);
        return QN_OK;
    }
    if (strcmp(name, "--version") == 0) {
        puts("quern " QUERN_VERSION);
        return QN_OK;
    }
    if (help) {
        name = argv[2];
    }
    const qn_command *command = find_command(name);
    if (command == NULL) {
        return unknown_command(name);
    }
    if (help) {
        char help_option[] = "--help";
        char *asked[] = {argv[2], help_option, NULL};
        return command->run(2, asked);
    }
    return command->run(argc - 1, argv + 1);
}

/* Weights are used from the mapped files: reading where a file was cut off, or where its disk fails, raises SIGBUS. The
 * page is gone for good, so all that is left is to say so and end. */
static void on_lost_file(int number)
{
    static const char line[] =
        "quern: a mapped file was truncated, or its disk failed: restore the file, start again\n";
    ssize_t written = write(STDERR_FILENO, line, sizeof line - 1);
    (void)written, (void)number;
    _exit(QN_BAD_INPUT);
}

int main(int argc, char **argv)
{
    hold_standard_streams();
    signal(SIGPIPE, SIG_IGN);
    signal(SIGBUS, on_lost_file);
    qn_json_init();
    int code = dispatch(argc, argv);
    qn_error err;
    if (qn_stdout_check(&err) != QN_OK) {
        int failed = qn_command_fail(&err);
        code = code == QN_OK ? failed : code;
    }
    return code;
}
