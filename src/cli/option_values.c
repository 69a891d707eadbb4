/* Reading one option's value by its kind, with its bounds. */
#include <ctype.h>
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/json.h"
#include "base/log.h"
#include "cli/option_internal.h"

bool qn_option_is_flag(const qn_option *option)
{
    return option->kind == QN_OPTION_FLAG ||
           ((option->kind == QN_OPTION_NOTICE || option->kind == QN_OPTION_REFUSED) && option->value_name == NULL);
}

static qn_status bad_value(const qn_option *option, const char *text, const char *wanted, qn_error *err)
{
    return qn_fail_field(err, QN_USAGE, option->name, "--%s: '%s' is not %s: give --%s %s", option->name, text, wanted,
                         option->name, option->value_name);
}

static qn_status out_of_range(const qn_option *option, const char *text, qn_error *err)
{
    return qn_fail_field(err, QN_USAGE, option->name, "--%s: %s is out of range: give %lld to %lld", option->name, text,
                         (long long)option->min, (long long)option->max);
}

static bool in_range(const qn_option *option, int64_t value)
{
    return (option->min == 0 && option->max == 0) || (value >= option->min && value <= option->max);
}

static qn_status read_integer(const qn_option *option, const char *text, qn_error *err)
{
    char *end = NULL;
    errno = 0;
    long long value = strtoll(text, &end, 10);
    if (end == text || *end != '\0' || isspace((unsigned char)text[0])) {
        return bad_value(option, text, "a whole number", err);
    }
    if (errno == ERANGE) {
        return qn_fail_field(err, QN_USAGE, option->name, "--%s: %s does not fit 64 bits: give a smaller one",
                             option->name, text);
    }
    if (!in_range(option, value)) {
        return out_of_range(option, text, err);
    }
    *(int64_t *)option->value = value;
    return QN_OK;
}

static double suffix_factor(char suffix)
{
    static const char small[] = "kmgt", capital[] = "KMGT";
    const char *at = strchr(small, suffix);
    if (at != NULL) {
        return pow(1000.0, (double)(at - small + 1));
    }
    at = strchr(capital, suffix);
    return at != NULL ? pow(1024.0, (double)(at - capital + 1)) : 0;
}

static const char *find_choice(const qn_option *option, const char *text)
{
    for (size_t i = 0; option->choices != NULL && option->choices[i] != NULL; i++) {
        if (strcmp(option->choices[i], text) == 0) {
            return option->choices[i];
        }
    }
    return NULL;
}

/* Digits, then possibly a fraction (small suffixes only) and a suffix. */
static qn_status read_size(const qn_option *option, const char *text, qn_error *err)
{
    static const char wanted[] = "a number such as 4096, 32k (32,000) or 32K (32,768)";
    if (find_choice(option, text) != NULL) {
        *(size_t *)option->value = 0;
        return QN_OK;
    }
    size_t length = strlen(text);
    size_t digits = strspn(text, "0123456789");
    size_t fraction = 0;
    if (text[digits] == '.') {
        fraction = strspn(text + digits + 1, "0123456789");
    }
    size_t number = digits + (fraction > 0 ? fraction + 1 : 0);
    if (digits == 0 || digits > 18 || fraction > 18 || length > number + 1 || (text[digits] == '.' && fraction == 0)) {
        return bad_value(option, text, wanted, err);
    }
    double factor = 1;
    if (text[number] != '\0') {
        factor = suffix_factor(text[number]);
    }
    bool decimal_suffix = text[number] != '\0' && islower((unsigned char)text[number]);
    if (factor == 0 || (fraction > 0 && !decimal_suffix)) {
        return bad_value(option, text, wanted, err);
    }
    int64_t whole;
    if (fraction > 0) {
        double product = strtod(text, NULL) * factor;
        if (product > 9e15) {
            return out_of_range(option, text, err);
        }
        whole = (int64_t)llround(product);
    } else if (__builtin_mul_overflow(strtoll(text, NULL, 10), (int64_t)factor, &whole)) {
        return qn_fail_field(err, QN_USAGE, option->name, "--%s: %s does not fit 64 bits: give a smaller one",
                             option->name, text);
    }
    if (!in_range(option, whole)) {
        return out_of_range(option, text, err);
    }
    *(size_t *)option->value = (size_t)whole;
    return QN_OK;
}

static qn_status read_number(const qn_option *option, const char *text, qn_error *err)
{
    char *end = NULL;
    double value = strtod(text, &end);
    if (end == text || *end != '\0' || isspace((unsigned char)text[0]) || !isfinite(value)) {
        return bad_value(option, text, "a number", err);
    }
    bool bounded = option->number_min != 0 || option->number_max != 0;
    if (bounded && (value < option->number_min || value > option->number_max)) {
        return qn_fail_field(err, QN_USAGE, option->name, "--%s: %s is out of range: give %g to %g", option->name, text,
                             option->number_min, option->number_max);
    }
    *(double *)option->value = value;
    return QN_OK;
}

static qn_status read_json(const qn_option *option, const char *text, qn_error *err)
{
    json_t *value = NULL;
    qn_status status = qn_json_parse(text, strlen(text), "value", &value, err);
    if (status == QN_OK && !json_is_object(value)) {
        status = qn_fail(err, QN_USAGE, "not a JSON object but %s: give one in { }", qn_json_type_name(value));
        json_decref(value);
    }
    if (status != QN_OK) {
        qn_error inner = *err;
        qn_status worst = inner.status == QN_RESOURCE ? QN_RESOURCE : QN_USAGE;
        return qn_fail_field(err, worst, option->name, "--%s: %s", option->name, inner.message);
    }
    json_decref(*(json_t **)option->value);
    *(json_t **)option->value = value;
    return QN_OK;
}

static qn_status member_value(const qn_option *option, const char *text, json_t **out, qn_error *err)
{
    qn_error no_json;
    qn_status status = qn_json_parse(text, strlen(text), "value", out, &no_json);
    if (status == QN_BAD_INPUT) {
        *out = json_string(text);
        status = *out != NULL ? QN_OK
                              : qn_fail_field(err, QN_USAGE, option->name, "--%s: '%s' is not UTF-8: give UTF-8 text",
                                              option->name, text);
    } else if (status != QN_OK) {
        *err = no_json;
    }
    return status;
}

/* Walks down all keys of the path but the last, making the objects that are not there; where that fails *at is NULL. */
static const char *last_key(json_t **at, const char *path, const char *end)
{
    const char *key = path, *dot;
    while (*at != NULL && (dot = memchr(key, '.', (size_t)(end - key))) != NULL) {
        size_t bytes = (size_t)(dot - key);
        if (json_object_getn(*at, key, bytes) == NULL) {
            json_object_setn_new(*at, key, bytes, json_object());
        }
        json_t *below = json_object_getn(*at, key, bytes);
        *at = bytes > 0 && json_is_object(below) ? below : NULL;
        key = dot + 1;
    }
    return key;
}

qn_status qn_option_read_member(const qn_option *option, const char *path, size_t bytes, const char *text,
                                qn_error *err)
{
    json_t **whole = option->value, *value = NULL;
    if (*whole == NULL && (*whole = json_object()) == NULL) {
        return qn_fail_memory(err, option->name, bytes);
    }
    json_t *at = *whole;
    const char *end = path + bytes, *key = last_key(&at, path, end);
    size_t key_bytes = (size_t)(end - key);
    if (at == NULL || key_bytes == 0) {
        return qn_fail_field(err, QN_USAGE, option->name,
                             "--%s.%.*s: is no member's place: give --%s JSON, or the name of a member behind the dot",
                             option->name, (int)bytes, path, option->name);
    }
    qn_status status = member_value(option, text, &value, err);
    if (status != QN_OK) {
        return status;
    }
    if (json_object_getn(at, key, key_bytes) != NULL) {
        qn_log("--%s.%.*s: given more than once: the last one counts", option->name, (int)bytes, path);
    }
    return json_object_setn_new(at, key, key_bytes, value) == 0 ? QN_OK : qn_fail_memory(err, option->name, bytes);
}

static qn_status no_such_choice(const qn_option *option, const char *text, qn_error *err)
{
    char list[256] = "";
    size_t used = 0;
    for (size_t i = 0; option->choices[i] != NULL && used < sizeof list; i++) {
        used += (size_t)snprintf(list + used, sizeof list - used, "%s%s", i > 0 ? ", " : "", option->choices[i]);
    }
    return qn_fail_field(err, QN_USAGE, option->name, "--%s: '%s' is not supported: give one of %s", option->name, text,
                         list);
}

static qn_status read_choice(const qn_option *option, const char *text, qn_error *err)
{
    const char *choice = find_choice(option, text);
    if (choice == NULL) {
        return no_such_choice(option, text, err);
    }
    *(const char **)option->value = choice;
    return QN_OK;
}

static qn_status add_to_list(const qn_option *option, const char *text, qn_error *err)
{
    qn_string_list *list = option->value;
    if (list->count == QN_STRING_LIST_MAX) {
        return qn_fail_field(err, QN_USAGE, option->name, "--%s: more than %d values: give fewer", option->name,
                             QN_STRING_LIST_MAX);
    }
    list->items[list->count++] = text;
    return QN_OK;
}

static qn_status accept_with_notice(const qn_option *option, const char *text, qn_error *err)
{
    if (text != NULL && option->choices != NULL && find_choice(option, text) == NULL) {
        return no_such_choice(option, text, err);
    }
    qn_log("--%s: has no effect: %s", option->name, option->help);
    return QN_OK;
}

static qn_status refuse(const qn_option *option, const char *text, qn_error *err)
{
    if (text != NULL && find_choice(option, text) != NULL) {
        return QN_OK;
    }
    return qn_fail_field(err, QN_USAGE, option->name, "--%s: %s: leave it out", option->name, option->help);
}

/* text is NULL for flags. */
qn_status qn_option_read(const qn_option *option, const char *text, bool negated, qn_error *err)
{
    switch (option->kind) {
    case QN_OPTION_FLAG:
        *(bool *)option->value = !negated;
        return QN_OK;
    case QN_OPTION_STRING:
        *(const char **)option->value = text;
        return QN_OK;
    case QN_OPTION_INTEGER:
        return read_integer(option, text, err);
    case QN_OPTION_SIZE:
        return read_size(option, text, err);
    case QN_OPTION_NUMBER:
        return read_number(option, text, err);
    case QN_OPTION_JSON:
        return read_json(option, text, err);
    case QN_OPTION_CHOICE:
        return read_choice(option, text, err);
    case QN_OPTION_LIST:
    case QN_OPTION_REPEATED:
        return add_to_list(option, text, err);
    case QN_OPTION_NOTICE:
        return accept_with_notice(option, text, err);
    case QN_OPTION_REFUSED:
        return negated ? QN_OK : refuse(option, text, err); /* --no-thing asks for what quern does anyway */
    }
    return qn_fail(err, QN_INTERNAL, "--%s: unknown kind of option", option->name);
}
