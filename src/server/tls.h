/* What a server needs to speak TLS: its certificate, the key to it, and who signs its clients' certificates. */
#ifndef QN_SERVER_TLS_H
#define QN_SERVER_TLS_H

#include "base/error.h"

/* Whether clients show certificates of their own; the values are those of --ssl-cert-reqs, Python's. */
typedef enum qn_tls_clients {
    QN_TLS_CLIENTS_UNKNOWN = 0,  /* they are not asked */
    QN_TLS_CLIENTS_OPTIONAL = 1, /* a certificate must be good, none is fine */
    QN_TLS_CLIENTS_REQUIRED = 2
} qn_tls_clients;

typedef struct qn_tls {
    char *certificate; /* PEM: the server's own first, then those that lead from it to one that clients know */
    char *key;         /* PEM, not encrypted */
    char *client_ca;   /* PEM; NULL when clients are not asked */
    qn_tls_clients clients;
} qn_tls;

/* Reads and checks the files: that there is a certificate, that the key is the one to it. key_path NULL: the key stands
 * in the certificate's file. client_ca_path NULL exactly when `clients` is UNKNOWN. A certificate that is not valid
 * today, or a key that others may read, gets a line in the log. QN_BAD_INPUT names the file. */
qn_status qn_tls_open(const char *certificate_path, const char *key_path, const char *client_ca_path,
                      qn_tls_clients clients, qn_tls *out, qn_error *err);
void qn_tls_close(qn_tls *tls); /* wipes the key; {0} is fine */

#endif
