#include "server/responses_references.h"

#include <string.h>

#include "base/json.h"
#include "base/memory.h"
#include "server/request_body.h"
#include "server/responses_items.h"

/* One small reference may stand for a large item, and be sent many times. */
enum { MAX_BYTES = 64 << 20 };

typedef struct qn_reference {
    qn_stored_response *held;
    qn_stored_text item;
} qn_reference;

static bool is_reference(const json_t *item)
{
    const char *type = json_string_value(json_object_get(item, "type"));
    return type != NULL && strcmp(type, "item_reference") == 0;
}

bool qn_references_has(const json_t *input)
{
    for (size_t i = 0; i < json_array_size(input); i++) {
        if (is_reference(json_array_get(input, i))) {
            return true;
        }
    }
    return false;
}

static bool find_in(qn_stored_text array, const char *id, qn_stored_text *out)
{
    qn_stored_text item, found;
    for (size_t at = 0; qn_responses_items_next(array, &at, &item, &found);) {
        if (found.bytes == strlen(id) && memcmp(found.text, id, found.bytes) == 0) {
            *out = item;
            return true;
        }
    }
    return false;
}

/* The item, of a response that is held from now on; false: unknown. */
static bool find_item(qn_response_store *store, long owner, const char *id, qn_reference *out)
{
    char response_id[QN_RESPONSE_ID_BYTES];
    if (store == NULL || !qn_responses_items_origin(id, response_id)) {
        return false;
    }
    out->held = qn_response_store_get(store, owner, response_id);
    if (out->held == NULL) {
        return false;
    }
    if (find_in(qn_stored_output(out->held), id, &out->item) || find_in(qn_stored_input(out->held), id, &out->item)) {
        return true;
    }
    qn_response_store_release(store, out->held);
    return false;
}

static qn_status add(qn_references *references, long owner, size_t index, const json_t *item, size_t *bytes,
                     bool *unknown, qn_error *err)
{
    const char *id = json_string_value(json_object_get(item, "id"));
    if (id == NULL) {
        return qn_fail_field(err, QN_USAGE, "input", "input[%zu].id: missing or not a string: send an item's", index);
    }
    if (!qn_reserve(&references->items, &references->capacity, references->count + 1, sizeof(qn_reference))) {
        return qn_fail_memory(err, "references", (references->count + 1) * sizeof(qn_reference));
    }
    qn_reference *next = &references->items[references->count];
    if (!find_item(references->store, owner, id, next)) {
        *unknown = true;
        return qn_fail_field(err, QN_USAGE, "input",
                             "input[%zu]: item %.80s is of no response that is kept here: send the item itself", index,
                             id);
    }
    references->count++;
    *bytes += next->item.bytes;
    if (*bytes > MAX_BYTES) {
        return qn_fail_field(err, QN_USAGE, "input",
                             "input[%zu]: the items referred to have more than %d bytes: send fewer", index, MAX_BYTES);
    }
    references->cost += qn_request_body_cost(next->item.text, next->item.bytes);
    return QN_OK;
}

qn_status qn_references_find(qn_response_store *store, long owner, const json_t *input, qn_references *out,
                             bool *unknown, qn_error *err)
{
    size_t bytes = 0;
    *out = (qn_references){.store = store};
    *unknown = false;
    qn_status status = QN_OK;
    for (size_t i = 0; i < json_array_size(input) && status == QN_OK; i++) {
        const json_t *item = json_array_get(input, i);
        if (is_reference(item)) {
            status = add(out, owner, i, item, &bytes, unknown, err);
        }
    }
    return status;
}

static qn_status append(const qn_references *references, json_t *sent, size_t *at, json_t *list, qn_error *err)
{
    if (!is_reference(sent)) {
        return json_array_append(list, sent) == 0 ? QN_OK : qn_fail_memory(err, "input", sizeof(json_t));
    }
    const qn_stored_text text = references->items[(*at)++].item;
    json_t *item = NULL;
    qn_status status = qn_json_parse(text.text, text.bytes, "item", &item, err);
    if (status == QN_OK && json_array_append_new(list, item) != 0) {
        status = qn_fail_memory(err, "input", text.bytes);
    }
    return status;
}

qn_status qn_references_read(const qn_references *references, const json_t *input, json_t **out, qn_error *err)
{
    json_t *list = json_array();
    qn_status status = list != NULL ? QN_OK : qn_fail_memory(err, "input", sizeof(json_t));
    size_t at = 0;
    for (size_t i = 0; i < json_array_size(input) && status == QN_OK; i++) {
        status = append(references, json_array_get(input, i), &at, list, err);
    }
    if (status != QN_OK) {
        json_decref(list);
        return status;
    }
    *out = list;
    return QN_OK;
}

void qn_references_free(qn_references *references)
{
    for (size_t i = 0; i < references->count; i++) {
        qn_response_store_release(references->store, references->items[i].held);
    }
    qn_free(references->items);
    *references = (qn_references){0};
}
