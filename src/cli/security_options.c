#include "cli/security_options.h"

#include <stdlib.h>
#include <string.h>

#include "base/log.h"

enum { MAX_RATE = 1000000, MAX_CONNECTIONS = 100000 };

static void add_cors(qn_security_flags *flags, qn_option_table *table)
{
    const qn_option options[] = {
        {.name = "allowed-origins",
         .kind = QN_OPTION_STRING,
         .value = &flags->allowed_origins,
         .value_name = "JSON",
         .help = "a list of the origins whose web pages may use the server, or [\"*\"] (default: none)"},
        {.name = "allowed-methods",
         .kind = QN_OPTION_STRING,
         .value = &flags->allowed_methods,
         .value_name = "JSON",
         .help = "a list of the methods that they may send (default: [\"*\"])"},
        {.name = "allowed-headers",
         .kind = QN_OPTION_STRING,
         .value = &flags->allowed_headers,
         .value_name = "JSON",
         .help = "a list of the headers that they may send (default: [\"*\"])"},
        {.name = "allow-credentials",
         .kind = QN_OPTION_FLAG,
         .value = &flags->allow_credentials,
         .help = "they may send cookies and client certificates (default: off)"},
    };
    qn_options_add(table, options, sizeof options / sizeof options[0]);
}

static void add_log(qn_security_flags *flags, qn_option_table *table)
{
    const qn_option options[] = {
        {.name = "log-requests",
         .kind = QN_OPTION_FLAG,
         .value = &flags->log_requests,
         .help = "a line for each request: its id, path, tokens, parameters and prompt; one for the end of each choice "
                 "(default: off)"},
        {.name = "enable-log-requests",
         .kind = QN_OPTION_FLAG,
         .value = &flags->log_requests,
         .help = "the same, by vLLM's name"},
        {.name = "enable-log-outputs",
         .kind = QN_OPTION_FLAG,
         .value = &flags->log_outputs,
         .help = "with --log-requests: what was answered, too (default: off)"},
        {.name = "max-log-len",
         .kind = QN_OPTION_INTEGER,
         .value = &flags->max_log_len,
         .value_name = "N",
         .help = "with --log-requests: most characters of a prompt or an answer; 0: none (default: what a line holds)",
         .min = 0,
         .max = QN_LOG_LINE_BYTES},
    };
    qn_options_add(table, options, sizeof options / sizeof options[0]);
}

void qn_security_flags_add(qn_security_flags *flags, qn_option_table *table)
{
    *flags = (qn_security_flags){.max_log_len = QN_LOG_LINE_BYTES};
    const qn_option options[] = {
        {.name = "api-key",
         .kind = QN_OPTION_LIST,
         .value = &flags->api_key,
         .value_name = "KEY",
         .help = "keys, one of which a request must bring (default: that of VLLM_API_KEY, else none is asked for)"},
        {.name = "api-key-file",
         .kind = QN_OPTION_REPEATED,
         .value = &flags->api_key_file,
         .value_name = "FILE",
         .help = "more keys: one a line; empty lines and those with # in front are none"},
        {.name = "rate-limit",
         .kind = QN_OPTION_INTEGER,
         .value = &flags->rate_limit,
         .value_name = "N",
         .help = "requests a minute of a key, or without keys of an address; beyond them it gets 429; 0: no limit "
                 "(default: 0)",
         .min = 0,
         .max = MAX_RATE},
        {.name = "rate-limit-burst",
         .kind = QN_OPTION_INTEGER,
         .value = &flags->rate_limit_burst,
         .value_name = "N",
         .help = "how many of them may come at once (default: as many as a minute)",
         .min = 1,
         .max = MAX_RATE},
        {.name = "max-connections-per-address",
         .kind = QN_OPTION_INTEGER,
         .value = &flags->connections_each,
         .value_name = "N",
         .help = "connections of one address at a time; more are closed without a word; 0: no limit (default: 0)",
         .min = 0,
         .max = MAX_CONNECTIONS},
        {.name = "ssl-certfile",
         .kind = QN_OPTION_STRING,
         .value = &flags->ssl_certfile,
         .value_name = "FILE",
         .help = "the server's certificate in PEM, and those that lead to it: it speaks HTTPS (default: plain HTTP)"},
        {.name = "ssl-keyfile",
         .kind = QN_OPTION_STRING,
         .value = &flags->ssl_keyfile,
         .value_name = "FILE",
         .help = "the key to it in PEM, not encrypted (default: it stands in the file of --ssl-certfile)"},
        {.name = "ssl-ca-certs",
         .kind = QN_OPTION_STRING,
         .value = &flags->ssl_ca_certs,
         .value_name = "FILE",
         .help = "who signs the certificates of clients, in PEM; with --ssl-cert-reqs"},
        {.name = "ssl-cert-reqs",
         .kind = QN_OPTION_INTEGER,
         .value = &flags->ssl_cert_reqs,
         .value_name = "N",
         .help = "certificates of clients: 0: are not asked for; 1: must be good when there is one; 2: must be there "
                 "and good (default: 0)",
         .min = QN_TLS_CLIENTS_UNKNOWN,
         .max = QN_TLS_CLIENTS_REQUIRED},
    };
    qn_options_add(table, options, sizeof options / sizeof options[0]);
    add_cors(flags, table);
    add_log(flags, table);
}

/* ---- keys ---- */

static qn_status add_flag_keys(const qn_security_flags *flags, qn_api_keys *keys, qn_error *err)
{
    qn_status status = QN_OK;
    for (size_t i = 0; status == QN_OK && i < flags->api_key.count; i++) {
        const char *key = flags->api_key.items[i];
        status = qn_api_keys_add(keys, key, strlen(key), "--api-key", err);
    }
    for (size_t i = 0; status == QN_OK && i < flags->api_key_file.count; i++) {
        status = qn_api_keys_add_file(keys, flags->api_key_file.items[i], err);
        if (status != QN_OK) {
            qn_error_prefix(err, "--api-key-file");
        }
    }
    return status;
}

static qn_status add_keys(const qn_security_flags *flags, qn_api_keys *keys, qn_error *err)
{
    const char *variable = getenv("VLLM_API_KEY");
    bool from_flags = flags->api_key.count + flags->api_key_file.count > 0;
    if (from_flags && variable != NULL && variable[0] != '\0') {
        qn_log("VLLM_API_KEY: has no effect beside --api-key and --api-key-file, as with vLLM");
    }
    if (from_flags || variable == NULL || variable[0] == '\0') {
        return add_flag_keys(flags, keys, err);
    }
    return qn_api_keys_add(keys, variable, strlen(variable), "VLLM_API_KEY", err);
}

static qn_status open_keys(const qn_security_flags *flags, qn_security *out, qn_error *err)
{
    qn_status status = qn_api_keys_new(&out->keys, err);
    if (status == QN_OK) {
        status = add_keys(flags, out->keys, err);
    }
    if (status == QN_OK && qn_api_keys_count(out->keys) == 0) {
        qn_api_keys_free(out->keys);
        out->keys = NULL;
    }
    return status;
}

/* ---- rates ---- */

static qn_status open_rate(const qn_security_flags *flags, const qn_option_table *table, qn_security *out,
                           qn_error *err)
{
    bool burst_given = qn_options_given(table, "rate-limit-burst");
    if (flags->rate_limit == 0 && burst_given) {
        return qn_fail_field(err, QN_USAGE, "rate-limit-burst", "--rate-limit-burst: needs --rate-limit N");
    }
    if (flags->rate_limit == 0) {
        return QN_OK;
    }
    int64_t burst = burst_given ? flags->rate_limit_burst : flags->rate_limit;
    return qn_rate_limit_new((unsigned)flags->rate_limit, (unsigned)burst, &out->rate, err);
}

/* ---- TLS ---- */

static qn_status open_tls(const qn_security_flags *flags, qn_security *out, qn_error *err)
{
    bool asks = flags->ssl_cert_reqs != QN_TLS_CLIENTS_UNKNOWN;
    if (flags->ssl_certfile == NULL && flags->ssl_keyfile != NULL) {
        return qn_fail_field(err, QN_USAGE, "ssl-keyfile", "--ssl-keyfile: needs --ssl-certfile FILE");
    }
    if (flags->ssl_certfile == NULL && (asks || flags->ssl_ca_certs != NULL)) {
        return qn_fail_field(err, QN_USAGE, asks ? "ssl-cert-reqs" : "ssl-ca-certs", "%s: needs --ssl-certfile FILE",
                             asks ? "--ssl-cert-reqs" : "--ssl-ca-certs");
    }
    if (asks && flags->ssl_ca_certs == NULL) {
        return qn_fail_field(err, QN_USAGE, "ssl-cert-reqs", "--ssl-cert-reqs: needs --ssl-ca-certs FILE");
    }
    if (!asks && flags->ssl_ca_certs != NULL) {
        return qn_fail_field(err, QN_USAGE, "ssl-ca-certs",
                             "--ssl-ca-certs: no client is asked for a certificate: add --ssl-cert-reqs 2, or 1");
    }
    if (flags->ssl_certfile == NULL) {
        return QN_OK;
    }
    out->has_tls = true;
    return qn_tls_open(flags->ssl_certfile, flags->ssl_keyfile, flags->ssl_ca_certs,
                       (qn_tls_clients)flags->ssl_cert_reqs, &out->tls, err);
}

/* ---- web pages ---- */

static qn_status open_cors(const qn_security_flags *flags, qn_security *out, qn_error *err)
{
    const char *alone = flags->allowed_methods != NULL   ? "allowed-methods"
                        : flags->allowed_headers != NULL ? "allowed-headers"
                        : flags->allow_credentials       ? "allow-credentials"
                                                         : NULL;
    if (flags->allowed_origins == NULL && alone != NULL) {
        return qn_fail_field(err, QN_USAGE, alone, "--%s: needs --allowed-origins JSON", alone);
    }
    if (flags->allowed_origins == NULL) {
        return QN_OK;
    }
    out->has_cors = true;
    return qn_cors_open(flags->allowed_origins, flags->allowed_methods, flags->allowed_headers,
                        flags->allow_credentials, &out->cors, err);
}

/* ---- the log ---- */

static qn_status open_log(const qn_security_flags *flags, const qn_option_table *table, qn_security *out, qn_error *err)
{
    if (flags->log_outputs && !flags->log_requests) {
        return qn_fail_field(err, QN_USAGE, "enable-log-outputs", "--enable-log-outputs: needs --log-requests");
    }
    if (qn_options_given(table, "max-log-len") && !flags->log_requests) {
        qn_log("--max-log-len: has no effect without --log-requests");
    }
    out->log = (qn_request_log){.requests = flags->log_requests,
                                .outputs = flags->log_outputs,
                                .max_characters = (size_t)flags->max_log_len};
    return QN_OK;
}

qn_status qn_security_open(const qn_security_flags *flags, const qn_option_table *table, qn_security *out,
                           qn_error *err)
{
    *out = (qn_security){.connections_each = (size_t)flags->connections_each};
    qn_status status = open_keys(flags, out, err);
    if (status == QN_OK) {
        status = open_rate(flags, table, out, err);
    }
    if (status == QN_OK) {
        status = open_tls(flags, out, err);
    }
    if (status == QN_OK) {
        status = open_cors(flags, out, err);
    }
    if (status == QN_OK) {
        status = open_log(flags, table, out, err);
    }
    if (status != QN_OK) {
        qn_security_close(out);
    }
    return status;
}

void qn_security_close(qn_security *security)
{
    qn_api_keys_free(security->keys);
    qn_rate_limit_free(security->rate);
    qn_tls_close(&security->tls);
    qn_cors_close(&security->cors);
    *security = (qn_security){0};
}
