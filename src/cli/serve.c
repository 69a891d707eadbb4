/* `quern serve`: options, the model, the server, and signals. The port is taken before the model is loaded, so that one
 * in use is told at once and not after minutes of reading.
 *
 * While it loads, SIGTERM and SIGINT end the process as they do by default: there is nothing to save. Before the
 * server starts its threads they are blocked, and read from a descriptor: the first drains, the second stops. The
 * threads that exist by then, the compute pool's, take no signals (base/pool.c). */
#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include "base/log.h"
#include "base/memory.h"
#include "base/utf8.h"
#include "cli/command.h"
#include "cli/engine_options.h"
#include "cli/options.h"
#include "cli/security_options.h"
#include "cli/serving_options.h"
#include "cli/vllm_options.h"
#include "server/server.h"
#include "server/step_watch.h"
#include "server/template_kwargs.h"

enum {
    DEFAULT_PORT = 8000,
    DEFAULT_PATIENCE_S = 60,
    DEFAULT_STEP_TIMEOUT_S = 600,
    DEFAULT_RESPONSES_BYTES = 64 << 20,
    MAX_TIMEOUT_S = 7 * 24 * 3600
};

typedef struct serve_options {
    const char *host;
    int64_t port, http_timeout;
    double request_timeout, step_timeout;
    qn_string_list served_model_name;
    bool prompt_details;
    size_t responses_store;
    qn_engine_flags engine;
    qn_serving_flags serving;
    qn_security_flags security_flags;
    qn_security security;
} serve_options;

static void add_options(qn_option_table *table, serve_options *o)
{
    *o = (serve_options){.host = "127.0.0.1",
                         .port = DEFAULT_PORT,
                         .http_timeout = DEFAULT_PATIENCE_S,
                         .step_timeout = DEFAULT_STEP_TIMEOUT_S,
                         .responses_store = DEFAULT_RESPONSES_BYTES};
    const qn_option options[] = {
        {.name = "host",
         .kind = QN_OPTION_STRING,
         .value = &o->host,
         .value_name = "HOST",
         .help = "address to listen on; 0.0.0.0 for all (default: 127.0.0.1)"},
        {.name = "port",
         .kind = QN_OPTION_INTEGER,
         .value = &o->port,
         .value_name = "PORT",
         .help = "port to listen on; 0 takes a free one (default: 8000)",
         .min = 0,
         .max = 65535},
        {.name = "served-model-name",
         .kind = QN_OPTION_LIST,
         .value = &o->served_model_name,
         .value_name = "NAME",
         .help = "names that requests may use, the first is told (default: the folder's name)"},
        {.name = "http-timeout",
         .kind = QN_OPTION_INTEGER,
         .value = &o->http_timeout,
         .value_name = "SECONDS",
         .help = "time a client has to send a request, and to take each piece of an answer (default: 60)",
         .min = 1,
         .max = 3600},
        {.name = "responses-store",
         .kind = QN_OPTION_SIZE,
         .value = &o->responses_store,
         .value_name = "BYTES",
         .help = "memory for responses that clients may go on from or read again; the least recently used give way; 0: "
                 "none is kept (default: 64M)",
         .min = 0,
         .max = INT64_MAX},
        {.name = "enable-prompt-tokens-details",
         .kind = QN_OPTION_FLAG,
         .value = &o->prompt_details,
         .help = "usage tells prompt_tokens_details (default: off)"},
        {.name = "request-timeout",
         .kind = QN_OPTION_NUMBER,
         .value = &o->request_timeout,
         .value_name = "SECONDS",
         .help = "time from a request's arrival to the end of its answer; later it gets 504; 0: no bound (default: 0)",
         .number_min = 0,
         .number_max = MAX_TIMEOUT_S},
        {.name = "step-timeout",
         .kind = QN_OPTION_NUMBER,
         .value = &o->step_timeout,
         .value_name = "SECONDS",
         .help = "a step of the engine that takes longer has hung: the server ends with exit code 5 (default: 600)",
         .number_min = 1e-3,
         .number_max = MAX_TIMEOUT_S},
    };
    qn_options_add(table, options, sizeof options / sizeof options[0]);
    qn_engine_flags_add(&o->engine, table, true);
    qn_serving_flags_add(&o->serving, table);
    qn_security_flags_add(&o->security_flags, table);
    qn_vllm_options_add(table);
}

/* The folder's own name: the last part of its path, "." resolved. To be released with qn_free. */
static char *folder_name(const char *dir)
{
    char *real = realpath(dir, NULL);
    const char *path = real != NULL ? real : dir;
    const char *slash = strrchr(path, '/');
    char *name = qn_strdup(slash != NULL && slash[1] != '\0' ? slash + 1 : path);
    free(real); /* realpath's own */
    return name;
}

static qn_status check_names(const qn_string_list *names, qn_error *err)
{
    for (size_t i = 0; i < names->count; i++) {
        size_t bytes = strlen(names->items[i]);
        if (bytes == 0 || bytes > 200 || !qn_utf8_valid(names->items[i], bytes)) {
            return qn_fail_field(err, QN_USAGE, "served-model-name",
                                 "--served-model-name: '%s': give 1 to 200 bytes of UTF-8", names->items[i]);
        }
    }
    return QN_OK;
}

static int open_signals(void)
{
    sigset_t set;
    sigemptyset(&set);
    sigaddset(&set, SIGTERM);
    sigaddset(&set, SIGINT);
    if (pthread_sigmask(SIG_BLOCK, &set, NULL) != 0) {
        return -1;
    }
    return signalfd(-1, &set, SFD_CLOEXEC);
}

/* Waits for a signal; with idle_fd, also for that. True: a signal. */
static bool wait_signal(int signals, int idle_fd)
{
    struct pollfd fds[2] = {{.fd = signals, .events = POLLIN}, {.fd = idle_fd, .events = POLLIN}};
    while (poll(fds, idle_fd >= 0 ? 2 : 1, -1) < 0 && errno == EINTR) {
    }
    struct signalfd_siginfo info;
    return fds[0].revents != 0 && read(signals, &info, sizeof info) == (ssize_t)sizeof info;
}

/* Until a signal; then drains, until idle or another signal. */
static qn_status serve_until_stopped(qn_server *server, int signals, qn_error *err)
{
    wait_signal(signals, -1);
    qn_log("stopping: finishing the requests there are; a second signal cuts them off");
    qn_server_drain(server);
    if (wait_signal(signals, qn_server_idle_fd(server))) {
        return qn_fail(err, QN_FAILED, "stopped: by a second signal: requests may have been cut off");
    }
    return QN_OK;
}

static uint64_t step_started(void *engine)
{
    return qn_engine_step_started_us(engine);
}

/* Nothing can be released: the engine's thread is in the middle of a step that does not end. */
static void end_process(void *engine)
{
    (void)engine;
    _exit(QN_INTERNAL);
}

static qn_status serve_engine(const serve_options *o, const qn_engine_options *engine_options,
                              const qn_string_list *names, qn_engine *engine, qn_http_socket *socket, qn_error *err)
{
    const qn_server_options options = {
        .model_names = names->items,
        .model_name_count = names->count,
        .template_kwargs = o->engine.default_chat_template_kwargs,
        .max_num_seqs = (size_t)o->serving.max_num_seqs,
        .max_queue = (size_t)o->serving.max_queue,
        .by_priority = engine_options->fairness.by_priority,
        .request_timeout_us = (uint64_t)(o->request_timeout * 1e6),
        .patience_s = (unsigned)o->http_timeout,
        .prompt_details = o->prompt_details,
        .responses_store_bytes = o->responses_store,
        .cors = o->security.has_cors ? &o->security.cors : NULL,
        .max_connections_each = o->security.connections_each,
        .request_log = o->security.log,
        .tls = o->security.has_tls ? &o->security.tls : NULL,
        .admission = {.keys = o->security.keys, .rate = o->security.rate},
    };
    const qn_step_watch_options watch_options = {.limit_us = (uint64_t)(o->step_timeout * 1e6),
                                                 .step_started_us = step_started,
                                                 .on_overdue = end_process,
                                                 .context = engine};
    int signals = open_signals();
    if (signals < 0) {
        return qn_fail(err, QN_RESOURCE, "signals: %s: raise the limit on open files", strerror(errno));
    }
    qn_server *server = NULL;
    qn_step_watch *watch = NULL;
    qn_http_socket kept = *socket; /* its name, for the line below */
    qn_status status = qn_step_watch_new(&watch_options, &watch, err);
    if (status == QN_OK) {
        status = qn_server_start(&options, engine, socket, &server, err);
    }
    if (status == QN_OK) {
        qn_log("serving on %s://%s:%u", options.tls != NULL ? "https" : "http", kept.host, kept.port);
        status = serve_until_stopped(server, signals, err);
        qn_server_stop(server);
    }
    qn_step_watch_free(watch);
    close(signals);
    return status;
}

/* A connection takes one descriptor and each of its choices another; the usual soft limit of 1024 is meant for programs
 * that use select. */
static void allow_many_files(void)
{
    struct rlimit limit;
    if (getrlimit(RLIMIT_NOFILE, &limit) == 0 && limit.rlim_cur < limit.rlim_max) {
        limit.rlim_cur = limit.rlim_max;
        setrlimit(RLIMIT_NOFILE, &limit); /* where it fails, running out of them is told as it happens */
    }
}

static void warn_of_strangers(const serve_options *o, const qn_http_socket *socket)
{
    bool knows_clients = o->security.keys != NULL || o->security.tls.clients == QN_TLS_CLIENTS_REQUIRED;
    if (!socket->loopback && !knows_clients) {
        qn_log("%s: who reaches this address may use the server: --api-key asks for keys", socket->host);
    }
}

static qn_status serve(const serve_options *o, const qn_engine_options *engine_options, const qn_string_list *names,
                       qn_error *err)
{
    qn_http_socket socket;
    allow_many_files();
    qn_status status = qn_http_bind(o->host, (uint16_t)o->port, &socket, err);
    qn_engine *engine = NULL;
    if (status == QN_OK) {
        warn_of_strangers(o, &socket);
        status = qn_engine_open(engine_options, &engine, err);
    }
    if (status == QN_OK) {
        status = serve_engine(o, engine_options, names, engine, &socket, err);
    }
    qn_engine_close(engine);
    qn_http_socket_close(&socket);
    return status;
}

/* What can be checked before anything is opened. */
static qn_status check_options(serve_options *o, const qn_option_table *table, qn_engine_options *engine_options,
                               qn_error *err)
{
    qn_status status = check_names(&o->served_model_name, err);
    if (status == QN_OK) {
        status = qn_template_kwargs_check(o->engine.default_chat_template_kwargs, "--default-chat-template-kwargs",
                                          err);
    }
    if (status == QN_OK) {
        status = qn_engine_flags_options(&o->engine, table, engine_options, err);
    }
    engine_options->load_in_background = true; /* the first requests need not wait for it */
    if (status == QN_OK) {
        status = qn_serving_flags_apply(&o->serving, table, engine_options, err);
    }
    if (status == QN_OK) {
        status = qn_security_open(&o->security_flags, table, &o->security, err);
    }
    return status;
}

static qn_status serve_folder(serve_options *o, const qn_option_table *table, qn_error *err)
{
    qn_engine_options engine_options;
    qn_status status = check_options(o, table, &engine_options, err);
    if (status != QN_OK) {
        return status;
    }
    qn_vllm_environment_notice();
    char *name = folder_name(engine_options.model_dir);
    if (name == NULL) {
        return qn_fail_memory(err, "model name", strlen(engine_options.model_dir));
    }
    qn_string_list names = o->served_model_name;
    if (names.count == 0) {
        names.items[names.count++] = name;
        status = check_names(&names, err);
    }
    if (status == QN_OK) {
        status = serve(o, &engine_options, &names, err);
    }
    qn_free(name);
    return status;
}

static int run_serve(int argc, char **argv)
{
    serve_options o;
    qn_option_table table = {
        .command = "serve",
        .arguments = "MODEL_DIR",
        .summary = "Answers OpenAI's and Anthropic's APIs over HTTP with the model in MODEL_DIR. Flags of vLLM keep "
                   "their names.",
        .min_arguments = 1,
        .max_arguments = 1,
    };
    qn_error err;
    add_options(&table, &o);
    qn_status status = qn_options_parse(&table, argc, argv, &err);
    if (status == QN_OK && !table.help_shown) {
        status = serve_folder(&o, &table, &err);
    }
    qn_security_close(&o.security);
    qn_engine_flags_free(&o.engine);
    return status != QN_OK ? qn_command_fail(&err) : QN_OK;
}

const qn_command qn_serve_command = {.name = "serve",
                                     .summary = "answer OpenAI's and Anthropic's APIs over HTTP",
                                     .run = run_serve};
