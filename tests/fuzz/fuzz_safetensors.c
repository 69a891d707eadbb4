/* room: checkpoint */
/* covers: src/checkpoint/safetensors.c src/checkpoint/safetensors_header.c */
/* max_len: 8192 */

/* Files of weights from anywhere. The first byte tells what follows:
 *
 *   'r'   a file as it is
 *   'h'   a header's text, a NUL, data: the length in front is made to fit, so that mutations reach the header's parser
 *   'p' 'f' 'c' 'g' 'q'   the same as the one file of a checkpoint of one layer, whose experts are then taken: plain,
 *         fused, compressed-tensors, gpt-oss, Quark
 *
 * All bytes of all views are read, so that the sanitizer sees one that is too long. */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/json.h"
#include "base/log.h"
#include "base/memory.h"
#include "checkpoint/checkpoint.h"

enum { EXPERTS = 2, SIZE = 32, LAYOUTS = 5, PATH_BYTES = 256 };

static const char MODES[LAYOUTS + 1] = "pfcgq";
static const char *const QUANTIZATION[LAYOUTS] = {
    "null",
    "null",
    "{\"quant_method\":\"compressed-tensors\",\"format\":\"mxfp4-pack-quantized\"}",
    "{\"quant_method\":\"mxfp4\"}",
    "{\"quant_method\":\"quark\",\"global_quant_config\":{\"weight\":{\"dtype\":\"fp4\"}}}",
};
static const char CONFIG[] =
    "{\"model_type\":\"glm_moe_dsa\",\"vocab_size\":32,\"hidden_size\":32,\"intermediate_size\":32,"
    "\"moe_intermediate_size\":32,\"num_hidden_layers\":1,\"max_position_embeddings\":64,\"rms_norm_eps\":1e-5,"
    "\"num_attention_heads\":1,\"q_lora_rank\":32,\"kv_lora_rank\":32,\"qk_nope_head_dim\":32,\"qk_rope_head_dim\":2,"
    "\"v_head_dim\":32,\"rope_theta\":10000,\"index_topk\":8,\"index_n_heads\":1,\"index_head_dim\":32,"
    "\"n_routed_experts\":2,\"n_shared_experts\":1,\"num_experts_per_tok\":1,\"routed_scaling_factor\":1,"
    "\"first_k_dense_replace\":0,\"rope_interleave\":true,\"indexer_rope_interleave\":true,\"quantization_config\":%s}";

static char root[PATH_BYTES];
static volatile uint8_t sink;

static void hold(int condition)
{
    if (!condition)
        abort();
}

static void drop_line(void *context, const char *line)
{
    (void)context;
    (void)line;
}

static void path_of(int layout, const char *file, char out[PATH_BYTES])
{
    snprintf(out, PATH_BYTES, "%.200s/%c/%s", root, MODES[layout], file);
}

static void write_file(const char *path, const void *data, size_t bytes)
{
    FILE *stream = fopen(path, "wb");
    hold(stream && fwrite(data, 1, bytes, stream) == bytes && fclose(stream) == 0);
}

static void remove_folders(void)
{
    static const char *const files[] = {"config.json", "model.safetensors", ""};
    char path[PATH_BYTES];
    for (int layout = 0; layout < LAYOUTS; layout++) {
        for (size_t i = 0; i < 3; i++) {
            path_of(layout, files[i], path);
            remove(path);
        }
    }
    remove(root);
}

int LLVMFuzzerInitialize(int *argc, char ***argv);
int LLVMFuzzerInitialize(int *argc, char ***argv)
{
    (void)argc;
    (void)argv;
    qn_json_init();
    qn_log_set_sink(drop_line, NULL);
    strcpy(root, access("/dev/shm", W_OK) == 0 ? "/dev/shm/quern-fuzz-XXXXXX" : "/tmp/quern-fuzz-XXXXXX");
    hold(mkdtemp(root) != NULL);
    atexit(remove_folders);
    for (int layout = 0; layout < LAYOUTS; layout++) {
        char path[PATH_BYTES], text[2048];
        path_of(layout, "", path);
        hold(mkdir(path, 0700) == 0);
        int length = snprintf(text, sizeof text, CONFIG, QUANTIZATION[layout]);
        path_of(layout, "config.json", path);
        write_file(path, text, (size_t)length);
    }
    return 0;
}

static void read_bytes(const uint8_t *data, size_t bytes)
{
    uint8_t sum = 0;
    for (size_t i = 0; i < bytes; i++)
        sum = (uint8_t)(sum + data[i]);
    sink = sum;
}

static void parse(const uint8_t *data, size_t bytes)
{
    qn_safetensors *file = NULL;
    qn_error err = {0};
    qn_status status = qn_safetensors_parse(data, bytes, "f", &file, &err);
    if (status != QN_OK) {
        hold(status == err.status && strncmp(err.message, "f: ", 3) == 0);
        return;
    }
    size_t covered = 0;
    for (size_t i = 0; i < qn_safetensors_count(file); i++) {
        const qn_tensor *t = qn_safetensors_at(file, i);
        char text[QN_TENSOR_DESCRIPTION_BYTES];
        hold(qn_safetensors_find(file, t->name) == t);
        hold(strlen(qn_tensor_describe(t->dtype, t->dims, t->shape, text)) < sizeof text);
        read_bytes(t->data, t->bytes);
        covered += t->bytes;
    }
    hold(covered < bytes);
    qn_safetensors_close(file);
}

static void read_matrix(const qn_matrix *m)
{
    float row[SIZE];
    hold(m->cols == SIZE && m->rows == SIZE);
    for (size_t r = 0; r < m->rows; r++)
        qn_matrix_row_to_f32(m, r, row);
    read_bytes(m->data, m->rows * qn_matrix_row_bytes(m));
}

static void take(int layout, const uint8_t *data, size_t bytes)
{
    char path[PATH_BYTES];
    path_of(layout, "model.safetensors", path);
    write_file(path, data, bytes);
    path_of(layout, "", path);
    qn_checkpoint *checkpoint = NULL;
    qn_error err = {0};
    if (qn_checkpoint_open(path, &checkpoint, &err) != QN_OK)
        return;
    qn_matrix gate[EXPERTS], up[EXPERTS], down[EXPERTS];
    float *vector = NULL;
    if (qn_checkpoint_take_experts(checkpoint, "e", gate, up, down, &err) == QN_OK) {
        for (size_t e = 0; e < EXPERTS; e++) {
            read_matrix(&gate[e]);
            read_matrix(&up[e]);
            read_matrix(&down[e]);
        }
    }
    if (qn_checkpoint_take_vector(checkpoint, "v", 4, &vector, &err) == QN_OK)
        qn_free(vector);
    qn_status ignored = qn_checkpoint_finish(checkpoint, &err);
    (void)ignored;
    qn_checkpoint_close(checkpoint);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
    if (bytes == 0)
        return 0;
    const uint8_t *text = data + 1, *end = data + bytes, *nul = memchr(text, 0, bytes - 1);
    const char *layout = memchr(MODES, data[0], LAYOUTS);
    if (data[0] == 'r') {
        parse(text, bytes - 1);
    } else if (data[0] == 'h' || layout) {
        uint64_t header_bytes = (uint64_t)((nul ? nul : end) - text);
        size_t data_bytes = nul ? (size_t)(end - nul) - 1 : 0, total = 8 + (size_t)header_bytes + data_bytes;
        uint8_t *file = malloc(total);
        hold(file != NULL);
        memcpy(file, &header_bytes, 8);
        memcpy(file + 8, text, header_bytes);
        if (data_bytes > 0)
            memcpy(file + 8 + header_bytes, nul + 1, data_bytes);
        if (layout)
            take((int)(layout - MODES), file, total);
        else
            parse(file, total);
        free(file);
    }
    return 0;
}
