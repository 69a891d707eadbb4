/* The options that say who may use a server, and how: keys, rates, TLS, web pages; and what
 * is logged of what they do. */
#ifndef QN_CLI_SECURITY_OPTIONS_H
#define QN_CLI_SECURITY_OPTIONS_H

#include <stdbool.h>
#include <stdint.h>

#include "cli/options.h"
#include "server/admission.h"
#include "server/cors.h"
#include "server/request_log.h"
#include "server/tls.h"

/* Keep it where it is: the option table points into it. */
typedef struct qn_security_flags {
    qn_string_list api_key, api_key_file;
    int64_t rate_limit, rate_limit_burst, connections_each, ssl_cert_reqs;
    const char *ssl_certfile, *ssl_keyfile, *ssl_ca_certs, *allowed_origins, *allowed_methods, *allowed_headers;
    bool allow_credentials, log_requests, log_outputs;
    int64_t max_log_len;
} qn_security_flags;

/* What the options ask for, opened. */
typedef struct qn_security {
    qn_api_keys *keys;
    qn_rate_limit *rate;
    size_t connections_each;
    bool has_tls, has_cors;
    qn_tls tls;
    qn_cors cors;
    qn_request_log log;
} qn_security;

/* Sets the defaults and adds the options to a command's table. */
void qn_security_flags_add(qn_security_flags *flags, qn_option_table *table);

/* After parsing: reads the files and checks them. QN_USAGE names the flag; QN_BAD_INPUT the file. Keys are those of
 * the flags, or where there are none that of VLLM_API_KEY. */
qn_status qn_security_open(const qn_security_flags *flags, const qn_option_table *table, qn_security *out,
                           qn_error *err);
void qn_security_close(qn_security *security); /* {0} is fine */

#endif
