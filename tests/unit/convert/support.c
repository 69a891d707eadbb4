#include "support.h"

#include <ftw.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <cmocka.h>

#include "base/buffer.h"
#include "base/file.h"
#include "base/memory.h"
#include "checkpoint/catalogue.h"
#include "convert/shard_plan.h"

void support_make(char path[SUPPORT_PATH_BYTES])
{
    snprintf(path, SUPPORT_PATH_BYTES, "%s/quern-convert-XXXXXX", access("/dev/shm", W_OK) == 0 ? "/dev/shm" : "/tmp");
    assert_non_null(mkdtemp(path));
}

static int remove_one(const char *path, const struct stat *info, int type, struct FTW *walk)
{
    (void)info, (void)type, (void)walk;
    return remove(path);
}

void support_remove(const char *path)
{
    assert_int_equal(nftw(path, remove_one, 16, FTW_DEPTH | FTW_PHYS), 0);
}

const char *support_path(const char *dir, const char *name, char out[SUPPORT_PATH_BYTES])
{
    assert_true((size_t)snprintf(out, SUPPORT_PATH_BYTES, "%s/%s", dir, name) < SUPPORT_PATH_BYTES);
    return out;
}

void support_assert_same(const char *a, const char *b)
{
    char command[3 * SUPPORT_PATH_BYTES];
    snprintf(command, sizeof command, "diff -r '%s' '%s' >&2", a, b);
    assert_int_equal(system(command), 0);
}

static void write_index(const char *dir, const qn_catalogue *catalogue, size_t files)
{
    qn_buffer text = {0};
    qn_buffer_text(&text, "{\"weight_map\":{");
    size_t count = qn_catalogue_count(catalogue);
    for (size_t i = 0; i < count; i++)
        qn_buffer_format(&text, "%s\"%s\":\"model-%05zu-of-%05zu.safetensors\"", i ? "," : "",
                         qn_catalogue_at(catalogue, i)->name, i * files / count + 1, files);
    qn_buffer_text(&text, "}}");
    char path[SUPPORT_PATH_BYTES];
    qn_error err;
    assert_int_equal(qn_file_write(support_path(dir, "model.safetensors.index.json", path), text.data, text.size, &err),
                     QN_OK);
    qn_buffer_free(&text);
}

void support_make_source(const char *dir, const char *config_path, size_t files)
{
    char *text = NULL, path[SUPPORT_PATH_BYTES];
    size_t bytes = 0;
    qn_config config;
    qn_catalogue *catalogue = NULL;
    qn_error err;
    mkdir(dir, 0777);
    assert_int_equal(qn_file_read(config_path, QN_CONFIG_LIMIT_BYTES, &text, &bytes, &err), QN_OK);
    assert_int_equal(qn_config_parse(text, bytes, config_path, &config, &err), QN_OK);
    assert_int_equal(qn_file_write(support_path(dir, "config.json", path), text, bytes, &err), QN_OK);
    assert_int_equal(qn_catalogue_new(&config, &catalogue, &err), QN_OK);
    write_index(dir, catalogue, files);
    qn_catalogue_free(catalogue);
    qn_free(text);
}

void support_copy_source(const char *from, const char *to)
{
    static const char *const names[] = {"config.json", "model.safetensors"};
    mkdir(to, 0777);
    for (size_t i = 0; i < 2; i++) {
        char path[SUPPORT_PATH_BYTES], *text = NULL;
        size_t bytes = 0;
        qn_error err;
        assert_int_equal(qn_file_read(support_path(from, names[i], path), 1 << 26, &text, &bytes, &err), QN_OK);
        assert_int_equal(qn_file_write(support_path(to, names[i], path), text, bytes, &err), QN_OK);
        qn_free(text);
    }
}

qn_convert_options support_options(const char *source, const char *destination)
{
    return (qn_convert_options){
        .source = source, .destination = destination, .threads = 2, .max_shard_bytes = QN_DEFAULT_SHARD_BYTES};
}
