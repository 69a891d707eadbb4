/* room: checkpoint */
/* covers: src/checkpoint/manifest_read.c */
/* max_len: 8192 */

/* Manifests from anywhere. The first byte tells what follows: 'm' a whole manifest, 'e' one file's entry. What is taken
 * must come back the same from its own text. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/json.h"
#include "checkpoint/manifest.h"

static void hold(int condition)
{
    if (!condition)
        abort();
}

int LLVMFuzzerInitialize(int *argc, char ***argv);
int LLVMFuzzerInitialize(int *argc, char ***argv)
{
    (void)argc;
    (void)argv;
    qn_json_init();
    return 0;
}

static void round_trip(const qn_manifest *m)
{
    qn_buffer first = {0}, second = {0};
    qn_manifest *back = NULL;
    qn_error err;
    qn_manifest_format(m, &first);
    hold(qn_manifest_parse(first.data, first.size, "again", &back, &err) == QN_OK);
    qn_manifest_format(back, &second);
    hold(first.size == second.size && memcmp(first.data, second.data, first.size) == 0);
    for (size_t i = 0; i < qn_manifest_count(m); i++)
        hold(qn_manifest_find(back, qn_manifest_at(m, i)->name) == qn_manifest_at(back, i));
    qn_manifest_free(back);
    qn_buffer_free(&first);
    qn_buffer_free(&second);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
    if (bytes == 0)
        return 0;
    const char *text = (const char *)data + 1;
    qn_manifest *m = NULL;
    qn_error err = {0};
    qn_status status = QN_USAGE;
    if (data[0] == 'm') {
        status = qn_manifest_parse(text, bytes - 1, "m", &m, &err);
        hold(status == QN_OK || !m);
    } else if (data[0] == 'e') {
        hold(qn_manifest_new(&m, &err) == QN_OK);
        status = qn_manifest_entry_parse(text, bytes - 1, "m", m, &err);
        hold(qn_manifest_count(m) == (status == QN_OK));
    }
    hold(status == QN_OK || status == QN_USAGE || (status == QN_BAD_INPUT && strncmp(err.message, "m: ", 3) == 0));
    if (status == QN_OK)
        round_trip(m);
    qn_manifest_free(m);
    return 0;
}
