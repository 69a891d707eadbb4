/* The checks are made with GnuTLS, which libmicrohttpd uses too: what passes here works there. */
#include "server/tls.h"

#include <gnutls/gnutls.h>
#include <gnutls/x509.h>
#include <stdbool.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>

#include "base/clock.h"
#include "base/file.h"
#include "base/log.h"
#include "base/memory.h"

enum { FILE_BYTES = 4 << 20, KEY_ID_BYTES = 64 };

static gnutls_datum_t datum_of(char *text)
{
    return (gnutls_datum_t){.data = (unsigned char *)text, .size = (unsigned)strlen(text)};
}

typedef struct certificates {
    gnutls_x509_crt_t *list;
    unsigned count;
} certificates;

static void free_certificates(certificates *c)
{
    for (unsigned i = 0; i < c->count; i++) {
        gnutls_x509_crt_deinit(c->list[i]);
    }
    gnutls_free(c->list);
}

static qn_status read_certificates(const char *path, char **text, certificates *out, qn_error *err)
{
    size_t bytes;
    qn_status status = qn_file_read(path, FILE_BYTES, text, &bytes, err);
    if (status != QN_OK) {
        return status;
    }
    const gnutls_datum_t data = datum_of(*text);
    int result = gnutls_x509_crt_list_import2(&out->list, &out->count, &data, GNUTLS_X509_FMT_PEM, 0);
    if (result < 0) {
        *out = (certificates){0};
        return qn_fail(err, QN_BAD_INPUT,
                       "%s: no certificate in PEM can be read (%s): give the server's certificate as PEM text", path,
                       gnutls_strerror(result));
    }
    return QN_OK;
}

static void warn_of_dates(const char *path, gnutls_x509_crt_t certificate)
{
    int64_t now = qn_unix_seconds();
    if (gnutls_x509_crt_get_expiration_time(certificate) < now) {
        qn_log("%s: the certificate has expired: clients will refuse it", path);
    } else if (gnutls_x509_crt_get_activation_time(certificate) > now) {
        qn_log("%s: the certificate is not valid yet: clients will refuse it", path);
    }
}

static void warn_of_readers(const char *path)
{
    struct stat file;
    if (stat(path, &file) == 0 && (file.st_mode & (S_IRGRP | S_IROTH)) != 0) {
        qn_log("%s: others on this machine may read this key: chmod 600 keeps them out", path);
    }
}

static bool belong_together(gnutls_x509_crt_t certificate, gnutls_x509_privkey_t key)
{
    unsigned char of_certificate[KEY_ID_BYTES], of_key[KEY_ID_BYTES];
    size_t certificate_bytes = sizeof of_certificate, key_bytes = sizeof of_key;
    return gnutls_x509_crt_get_key_id(certificate, 0, of_certificate, &certificate_bytes) == 0 &&
           gnutls_x509_privkey_get_key_id(key, 0, of_key, &key_bytes) == 0 && certificate_bytes == key_bytes &&
           memcmp(of_certificate, of_key, key_bytes) == 0;
}

static qn_status check_key(const char *path, char *text, gnutls_x509_crt_t certificate, const char *certificate_path,
                           qn_error *err)
{
    gnutls_x509_privkey_t key;
    if (gnutls_x509_privkey_init(&key) < 0) {
        return qn_fail_memory(err, path, sizeof key);
    }
    const gnutls_datum_t data = datum_of(text);
    qn_status status = QN_OK;
    int result = gnutls_x509_privkey_import2(key, &data, GNUTLS_X509_FMT_PEM, NULL, 0);
    if (result == GNUTLS_E_DECRYPTION_FAILED) {
        status = qn_fail(err, QN_BAD_INPUT, "%s: the key is encrypted: give one without a passphrase", path);
    } else if (result < 0) {
        status = qn_fail(err, QN_BAD_INPUT,
                         "%s: no private key in PEM can be read (%s): give the key to the certificate as PEM text",
                         path, gnutls_strerror(result));
    } else if (!belong_together(certificate, key)) {
        status = qn_fail(err, QN_BAD_INPUT, "%s: not the key to the first certificate of %s: give the two that match",
                         path, certificate_path);
    }
    gnutls_x509_privkey_deinit(key);
    return status;
}

static qn_status open_pair(const char *certificate_path, const char *key_path, qn_tls *out, qn_error *err)
{
    certificates chain = {0};
    size_t bytes;
    qn_status status = read_certificates(certificate_path, &out->certificate, &chain, err);
    if (status == QN_OK) {
        status = qn_file_read(key_path, FILE_BYTES, &out->key, &bytes, err);
    }
    if (status == QN_OK) {
        status = check_key(key_path, out->key, chain.list[0], certificate_path, err);
    }
    if (status == QN_OK) {
        warn_of_dates(certificate_path, chain.list[0]);
        warn_of_readers(key_path);
    }
    free_certificates(&chain);
    return status;
}

qn_status qn_tls_open(const char *certificate_path, const char *key_path, const char *client_ca_path,
                      qn_tls_clients clients, qn_tls *out, qn_error *err)
{
    *out = (qn_tls){.clients = clients};
    qn_status status = open_pair(certificate_path, key_path != NULL ? key_path : certificate_path, out, err);
    if (status == QN_OK && client_ca_path != NULL) {
        certificates signers = {0};
        status = read_certificates(client_ca_path, &out->client_ca, &signers, err);
        free_certificates(&signers);
    }
    if (status != QN_OK) {
        qn_tls_close(out);
    }
    return status;
}

static void wipe_and_free(char *text)
{
    if (text != NULL) {
        explicit_bzero(text, strlen(text));
        qn_free(text);
    }
}

void qn_tls_close(qn_tls *tls)
{
    wipe_and_free(tls->certificate); /* the key may stand in it */
    wipe_and_free(tls->key);
    qn_free(tls->client_ca);
    *tls = (qn_tls){0};
}
