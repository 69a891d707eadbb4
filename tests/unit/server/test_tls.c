/* With keys and certificates that are made here; the handshakes are tests/api/test_tls.py's. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <fcntl.h>
#include <gnutls/gnutls.h>
#include <gnutls/x509.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/fault.h"
#include "base/log.h"
#include "server/tls.h"

enum { DAY = 24 * 3600 };

static const char certificate_path[] = "/tmp/quern_test_tls_certificate.pem",
                  key_path[] = "/tmp/quern_test_tls_key.pem", other_path[] = "/tmp/quern_test_tls_other.pem",
                  both_path[] = "/tmp/quern_test_tls_both.pem";

static void write_file(const char *path, int flags, const gnutls_datum_t *pem)
{
    int fd = open(path, O_WRONLY | O_CREAT | flags, 0600);
    assert_true(fd >= 0);
    assert_int_equal(write(fd, pem->data, pem->size), (int)pem->size);
    close(fd);
}

static gnutls_x509_privkey_t make_key(const char *path)
{
    gnutls_x509_privkey_t key;
    gnutls_datum_t pem;
    assert_int_equal(gnutls_x509_privkey_init(&key), 0);
    assert_int_equal(
        gnutls_x509_privkey_generate(key, GNUTLS_PK_ECDSA, GNUTLS_CURVE_TO_BITS(GNUTLS_ECC_CURVE_SECP256R1), 0), 0);
    assert_int_equal(gnutls_x509_privkey_export2(key, GNUTLS_X509_FMT_PEM, &pem), 0);
    write_file(path, O_TRUNC, &pem);
    write_file(both_path, O_APPEND, &pem);
    gnutls_free(pem.data);
    return key;
}

/* Valid from so many seconds from now, for a day. */
static void make_certificate(gnutls_x509_privkey_t key, long from_s)
{
    gnutls_x509_crt_t certificate;
    gnutls_datum_t pem;
    time_t now = time(NULL);
    assert_int_equal(gnutls_x509_crt_init(&certificate), 0);
    gnutls_x509_crt_set_version(certificate, 3);
    gnutls_x509_crt_set_serial(certificate, "\1", 1);
    gnutls_x509_crt_set_activation_time(certificate, now + from_s);
    gnutls_x509_crt_set_expiration_time(certificate, now + from_s + DAY);
    gnutls_x509_crt_set_key(certificate, key);
    assert_int_equal(gnutls_x509_crt_sign2(certificate, certificate, key, GNUTLS_DIG_SHA256, 0), 0);
    assert_int_equal(gnutls_x509_crt_export2(certificate, GNUTLS_X509_FMT_PEM, &pem), 0);
    write_file(certificate_path, O_TRUNC, &pem);
    write_file(both_path, O_APPEND, &pem);
    gnutls_free(pem.data);
    gnutls_x509_crt_deinit(certificate);
}

static int setup(void **state)
{
    (void)state;
    unlink(both_path);
    gnutls_x509_privkey_deinit(make_key(other_path));
    unlink(both_path);
    gnutls_x509_privkey_t key = make_key(key_path);
    make_certificate(key, -DAY / 2);
    *state = key;
    return 0;
}

static int teardown(void **state)
{
    gnutls_x509_privkey_deinit(*state);
    const char *const paths[] = {certificate_path, key_path, other_path, both_path};
    for (size_t i = 0; i < sizeof paths / sizeof paths[0]; i++) {
        unlink(paths[i]);
    }
    return 0;
}

static void test_a_pair_and_one_file(void **state)
{
    (void)state;
    qn_tls tls;
    qn_error err;
    assert_int_equal(qn_tls_open(certificate_path, key_path, certificate_path, QN_TLS_CLIENTS_REQUIRED, &tls, &err),
                     QN_OK);
    assert_int_equal(tls.clients, QN_TLS_CLIENTS_REQUIRED);
    assert_non_null(strstr(tls.certificate, "BEGIN CERTIFICATE"));
    assert_non_null(strstr(tls.key, "PRIVATE KEY"));
    assert_string_equal(tls.client_ca, tls.certificate);
    qn_tls_close(&tls);
    assert_null(tls.key);
    assert_int_equal(qn_tls_open(both_path, NULL, NULL, QN_TLS_CLIENTS_UNKNOWN, &tls, &err), QN_OK);
    assert_string_equal(tls.certificate, tls.key);
    assert_null(tls.client_ca);
    qn_tls_close(&tls);
}

static void test_what_does_not_fit(void **state)
{
    (void)state;
    static const struct {
        const char *certificate, *key, *ca, *message;
    } cases[] = {
        {"/tmp/none.pem", key_path, NULL, "no such file"},
        {certificate_path, "/tmp/none.pem", NULL, "no such file"},
        {key_path, key_path, NULL, "no certificate in PEM"},
        {certificate_path, certificate_path, NULL, "no private key in PEM"},
        {certificate_path, other_path, NULL, "not the key to the first certificate"},
        {certificate_path, key_path, key_path, "no certificate in PEM"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        qn_tls tls;
        qn_error err;
        assert_int_equal(qn_tls_open(cases[i].certificate, cases[i].key, cases[i].ca, QN_TLS_CLIENTS_UNKNOWN, &tls,
                                     &err),
                         QN_BAD_INPUT);
        assert_non_null(strstr(err.message, cases[i].message));
        assert_null(tls.certificate);
        assert_null(tls.key);
    }
}

static void catch_line(void *context, const char *line)
{
    snprintf(context, 300, "%s", line);
}

static void test_warnings(void **state)
{
    static const struct {
        long from_s;
        mode_t mode;
        const char *part;
    } cases[] = {
        {-DAY / 2, 0600, ""},
        {-DAY / 2, 0604, "others on this machine may read this key"},
        {-2 * DAY, 0600, "has expired"},
        {DAY, 0600, "not valid yet"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        char line[300] = "";
        qn_tls tls;
        qn_error err;
        make_certificate(*state, cases[i].from_s);
        assert_int_equal(chmod(key_path, cases[i].mode), 0);
        qn_log_set_sink(catch_line, line);
        assert_int_equal(qn_tls_open(certificate_path, key_path, NULL, QN_TLS_CLIENTS_UNKNOWN, &tls, &err), QN_OK);
        qn_log_set_sink(NULL, NULL);
        assert_non_null(strstr(line, cases[i].part));
        assert_true((line[0] == '\0') == (cases[i].part[0] == '\0'));
        qn_tls_close(&tls);
    }
}

static void test_failures(void **state)
{
    (void)state;
    static const qn_fault_kind kinds[] = {QN_FAULT_ALLOC, QN_FAULT_READ};
    for (size_t k = 0; k < sizeof kinds / sizeof kinds[0]; k++) {
        for (long nth = 1;; nth++) {
            qn_tls tls;
            qn_error err;
            qn_fault_arm(kinds[k], nth);
            qn_status status = qn_tls_open(certificate_path, key_path, certificate_path, QN_TLS_CLIENTS_OPTIONAL, &tls,
                                           &err);
            bool failed = qn_fault_seen(kinds[k]) >= nth;
            qn_fault_disarm();
            assert_true((status == QN_OK) == !failed);
            qn_tls_close(&tls);
            if (!failed) {
                assert_true(nth > 3);
                break;
            }
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_a_pair_and_one_file, setup, teardown),
        cmocka_unit_test_setup_teardown(test_what_does_not_fit, setup, teardown),
        cmocka_unit_test_setup_teardown(test_warnings, setup, teardown),
        cmocka_unit_test_setup_teardown(test_failures, setup, teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
