/* Two steps: in the text each wide integer is replaced by an object under a key drawn at random, which no document can
 * have guessed; in the parsed value that key is exchanged for the one that no text can spell. */
#include "base/json_wide.h"

#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include "base/buffer.h"
#include "base/json.h"
#include "base/random.h"

static const char wide_key[] = "\xFFinteger";

/* End of the number that starts at `at`; *integer tells whether it has neither fraction nor exponent. */
static size_t number_end(const char *text, size_t bytes, size_t at, bool *integer)
{
    *integer = true;
    for (++at; at < bytes; ++at) {
        char c = text[at];
        if (c == '.' || c == 'e' || c == 'E' || c == '+' || c == '-')
            *integer = false;
        else if (c < '0' || c > '9')
            break;
    }
    return at;
}

/* Whether the integer is well formed, beyond int64_t and within the bound. */
static bool is_wide(const char *text, size_t bytes)
{
    bool negative = text[0] == '-';
    const char *digits = text + negative, *limit = negative ? "9223372036854775808" : "9223372036854775807";
    size_t count = bytes - negative;
    if (count < 19 || count > QN_JSON_WIDE_MAX_DIGITS || digits[0] == '0')
        return false;
    return count > 19 || memcmp(digits, limit, 19) > 0;
}

/* The text with its wide integers replaced. *found: there was one. */
static void replace_wide(const char *text, size_t bytes, const char *key, qn_buffer *out, bool *found)
{
    size_t copied = 0;
    bool in_string = false, integer;
    *found = false;
    for (size_t i = 0; i < bytes; ++i) {
        char c = text[i];
        if (in_string) {
            in_string = c != '"';
            i += c == '\\';
        } else if (c == '"') {
            in_string = true;
        } else if (c == '-' || (c >= '0' && c <= '9')) {
            size_t end = number_end(text, bytes, i, &integer);
            if (integer && is_wide(text + i, end - i)) {
                *found = true;
                qn_buffer_append(out, text + copied, i - copied);
                qn_buffer_format(out, "{\"%s\":\"%.*s\"}", key, (int)(end - i), text + i);
                copied = end;
            }
            i = end - 1;
        }
    }
    qn_buffer_append(out, text + copied, bytes - copied);
}

/* Exchanges the key of the replacements within value. */
static bool exchange_keys(json_t *value, const char *key)
{
    if (json_is_array(value)) {
        for (size_t i = 0; i < json_array_size(value); ++i) {
            if (!exchange_keys(json_array_get(value, i), key))
                return false;
        }
        return true;
    }
    if (!json_is_object(value))
        return true;
    json_t *digits = json_object_get(value, key);
    if (digits)
        return json_object_set_nocheck(value, wide_key, digits) == 0 && json_object_del(value, key) == 0;
    for (void *at = json_object_iter(value); at; at = json_object_iter_next(value, at)) {
        if (!exchange_keys(json_object_iter_value(at), key))
            return false;
    }
    return true;
}

qn_status qn_json_parse_wide(const char *text, size_t bytes, const char *what, json_t **out, qn_error *err)
{
    char key[40];
    qn_buffer replaced = {0};
    bool found;
    snprintf(key, sizeof key, "%016llx%016llx", (unsigned long long)qn_random_seed(),
             (unsigned long long)qn_random_seed());
    replace_wide(text, bytes, key, &replaced, &found);
    qn_status status;
    if (!found)
        status = qn_json_parse(text, bytes, what, out, err);
    else if (replaced.failed)
        status = qn_fail_memory(err, what, bytes);
    else
        status = qn_json_parse(replaced.data, replaced.size, what, out, err);
    qn_buffer_free(&replaced);
    if (status == QN_OK && found && !exchange_keys(*out, key)) {
        json_decref(*out);
        *out = NULL;
        status = qn_fail_memory(err, what, bytes);
    }
    return status;
}

const char *qn_json_wide_digits(const json_t *value)
{
    return json_object_size(value) == 1 ? json_string_value(json_object_get(value, wide_key)) : NULL;
}

bool qn_json_is_object(const json_t *value)
{
    return json_is_object(value) && qn_json_wide_digits(value) == NULL;
}

static int append(const char *text, size_t bytes, void *out)
{
    qn_buffer_append(out, text, bytes);
    return 0;
}

static bool write_object(const json_t *value, size_t most_bytes, qn_buffer *out)
{
    void *it = json_object_iter((json_t *)(uintptr_t)value);
    bool whole = true;
    qn_buffer_char(out, '{');
    for (bool first = true; it != NULL && whole; first = false) {
        qn_buffer_text(out, first ? "" : ",");
        qn_buffer_json_string(out, json_object_iter_key(it), json_object_iter_key_len(it));
        qn_buffer_char(out, ':');
        whole = qn_json_wide_write(json_object_iter_value(it), most_bytes, out);
        it = json_object_iter_next((json_t *)(uintptr_t)value, it);
    }
    qn_buffer_char(out, '}');
    return whole;
}

static bool write_array(const json_t *value, size_t most_bytes, qn_buffer *out)
{
    bool whole = true;
    qn_buffer_char(out, '[');
    for (size_t i = 0; i < json_array_size(value) && whole; i++) {
        qn_buffer_text(out, i == 0 ? "" : ",");
        whole = qn_json_wide_write(json_array_get(value, i), most_bytes, out);
    }
    qn_buffer_char(out, ']');
    return whole;
}

bool qn_json_wide_write(const json_t *value, size_t most_bytes, qn_buffer *out)
{
    const char *digits = qn_json_wide_digits(value);
    bool whole = true;
    if (digits != NULL) {
        qn_buffer_text(out, digits);
    } else if (json_is_object(value)) {
        whole = write_object(value, most_bytes, out);
    } else if (json_is_array(value)) {
        whole = write_array(value, most_bytes, out);
    } else {
        whole = json_dump_callback(value, append, out, JSON_COMPACT | JSON_ENCODE_ANY) == 0;
    }
    return whole && !out->failed && out->size <= most_bytes;
}
