#include "unit/grammar/random_schema.h"

#include <string.h>

#include "unit/random_grammar.h"
#include "unit/grammar/schema_judge.h"

static const char *const names[] = {"a", "b", "c", "ab"};
static const char *const scalars[] = {"null", "true", "false", "0",     "1",      "2",       "3",     "-1",
                                      "1.5",  "0.25", "\"\"",  "\"a\"", "\"ab\"", "\"abc\"", "\"b\"", "\"aéc\""};

static int below(uint64_t *seed, int n)
{
    return (int)(random_next(seed) % (uint64_t)n);
}

static const char *a_name(uint64_t *seed)
{
    return names[below(seed, 4)];
}

void random_value(uint64_t *seed, int depth, qn_buffer *out)
{
    int kind = below(seed, depth > 0 ? 5 : 3);
    if (kind < 3) {
        qn_buffer_text(out, scalars[below(seed, (int)(sizeof scalars / sizeof *scalars))]);
        return;
    }
    int count = below(seed, 4);
    qn_buffer_char(out, kind == 3 ? '[' : '{');
    for (int i = 0, written = 0; i < (kind == 3 ? count : 4); i++) {
        if (kind == 4 && below(seed, 5) > count)
            continue;
        if (written++)
            qn_buffer_char(out, ',');
        if (kind == 4)
            qn_buffer_format(out, "\"%s\":", names[i]);
        random_value(seed, depth - 1, out);
    }
    qn_buffer_char(out, kind == 3 ? ']' : '}');
}

static void schema(uint64_t *seed, int depth, qn_buffer *out);

static void schema_list(uint64_t *seed, int depth, int most, qn_buffer *out)
{
    int count = 1 + below(seed, most);
    qn_buffer_char(out, '[');
    for (int i = 0; i < count; i++) {
        if (i)
            qn_buffer_char(out, ',');
        schema(seed, depth - 1, out);
    }
    qn_buffer_char(out, ']');
}

static void name_list(uint64_t *seed, qn_buffer *out)
{
    int from = below(seed, 4), count = 1 + below(seed, 2);
    qn_buffer_char(out, '[');
    for (int i = 0; i < count; i++)
        qn_buffer_format(out, "%s\"%s\"", i ? "," : "", names[(from + i) % 4]);
    qn_buffer_char(out, ']');
}

static void values(uint64_t *seed, qn_buffer *out)
{
    int count = 1 + below(seed, 4);
    qn_buffer_char(out, '[');
    for (int i = 0; i < count; i++) {
        if (i)
            qn_buffer_char(out, ',');
        random_value(seed, 1, out);
    }
    qn_buffer_char(out, ']');
}

static void members(uint64_t *seed, int depth, qn_buffer *out)
{
    int count = 1 + below(seed, 3), from = below(seed, 4);
    qn_buffer_char(out, '{');
    for (int i = 0; i < count; i++) {
        qn_buffer_format(out, "%s\"%s\":", i ? "," : "", names[(from + i) % 4]);
        schema(seed, depth - 1, out);
    }
    qn_buffer_char(out, '}');
}

static void keyword_of_value(uint64_t *seed, qn_buffer *out)
{
    static const char *const types[] = {"null", "boolean", "integer", "number", "string", "array", "object"};
    static const char *const bounds[] = {"minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum"};
    static const char *const numbers[] = {"0", "1", "2.5", "-1", "10"};
    static const char *const divisors[] = {"1", "2", "3", "0.25", "1.5", "10"};
    switch (below(seed, 8)) {
    case 0:
    case 1:
        qn_buffer_format(out, "\"type\":\"%s\"", types[below(seed, 7)]);
        break;
    case 2:
        qn_buffer_format(out, "\"type\":[\"%s\",\"%s\"]", types[below(seed, 7)], types[below(seed, 7)]);
        break;
    case 3:
        qn_buffer_format(out, "\"%s\":%s", bounds[below(seed, 4)], numbers[below(seed, 5)]);
        break;
    case 4:
        qn_buffer_format(out, "\"multipleOf\":%s", divisors[below(seed, 6)]);
        break;
    case 5:
        qn_buffer_format(out, "\"%sLength\":%d", below(seed, 2) ? "min" : "max", below(seed, 4));
        break;
    case 6:
        qn_buffer_format(out, "\"pattern\":\"%s\"", judge_patterns[below(seed, JUDGE_PATTERNS)]);
        break;
    default:
        qn_buffer_text(out, "\"enum\":");
        values(seed, out);
    }
}

static void keyword_of_parts(uint64_t *seed, int depth, qn_buffer *out)
{
    static const char *const counts[] = {"minItems", "maxItems", "minProperties", "maxProperties"};
    switch (below(seed, 12)) {
    case 0:
    case 1:
        qn_buffer_text(out, "\"properties\":");
        members(seed, depth, out);
        break;
    case 2:
        qn_buffer_text(out, "\"required\":");
        name_list(seed, out);
        break;
    case 3:
        qn_buffer_text(out, below(seed, 2) ? "\"unevaluatedProperties\":" : "\"additionalProperties\":");
        schema(seed, depth - 1, out);
        break;
    case 4:
        qn_buffer_format(out, "\"patternProperties\":{\"%s\":", judge_patterns[below(seed, JUDGE_PATTERNS)]);
        schema(seed, depth - 1, out);
        qn_buffer_char(out, '}');
        break;
    case 5:
        qn_buffer_text(out, "\"propertyNames\":");
        schema(seed, depth - 1, out);
        break;
    case 6:
        qn_buffer_format(out, "\"dependentRequired\":{\"%s\":", a_name(seed));
        name_list(seed, out);
        qn_buffer_char(out, '}');
        break;
    case 7:
        qn_buffer_format(out, "\"%s\":%d", counts[below(seed, 4)], below(seed, 3));
        break;
    case 8:
        qn_buffer_text(out, "\"items\":");
        schema(seed, depth - 1, out);
        break;
    case 9:
        qn_buffer_text(out, "\"prefixItems\":");
        schema_list(seed, depth, 2, out);
        break;
    case 10:
        qn_buffer_format(out, "\"%s\":%d,\"contains\":", below(seed, 2) ? "maxContains" : "minContains",
                         below(seed, 3));
        schema(seed, depth - 1, out);
        break;
    default:
        qn_buffer_text(out, "\"uniqueItems\":true");
    }
}

static void keyword_of_logic(uint64_t *seed, int depth, qn_buffer *out)
{
    static const char *const lists[] = {"allOf", "anyOf", "oneOf"};
    switch (below(seed, 6)) {
    case 0:
    case 1:
    case 2:
        qn_buffer_format(out, "\"%s\":", lists[below(seed, 3)]);
        schema_list(seed, depth, 3, out);
        break;
    case 3:
        qn_buffer_text(out, "\"not\":");
        schema(seed, depth - 1, out);
        break;
    case 4:
        qn_buffer_text(out, "\"if\":");
        schema(seed, depth - 1, out);
        qn_buffer_format(out, ",\"%s\":", below(seed, 2) ? "then" : "else");
        schema(seed, depth - 1, out);
        break;
    default:
        qn_buffer_format(out, "\"dependentSchemas\":{\"%s\":", a_name(seed));
        schema(seed, depth - 1, out);
        qn_buffer_char(out, '}');
    }
}

/* Keywords may repeat: the last one of a kind is read. */
static void schema(uint64_t *seed, int depth, qn_buffer *out)
{
    int count = 1 + below(seed, 3);
    if (below(seed, 12) == 0) {
        qn_buffer_text(out, below(seed, 3) ? "true" : "false");
        return;
    }
    qn_buffer_char(out, '{');
    for (int i = 0; i < count; i++) {
        int kind = below(seed, depth > 0 ? 8 : 3);
        if (i)
            qn_buffer_char(out, ',');
        if (kind < 3)
            keyword_of_value(seed, out);
        else if (kind < 6)
            keyword_of_parts(seed, depth, out);
        else if (below(seed, 4))
            keyword_of_logic(seed, depth, out);
        else
            qn_buffer_format(out, "\"$ref\":\"#/$defs/%c\"", 'p' + below(seed, 2));
    }
    qn_buffer_char(out, '}');
}

void random_schema(uint64_t *seed, qn_buffer *out)
{
    qn_buffer_text(out, "{\"$defs\":{\"p\":");
    schema(seed, 2, out);
    qn_buffer_text(out, ",\"q\":");
    schema(seed, 1, out);
    qn_buffer_text(out, "},\"allOf\":[");
    schema(seed, 3, out);
    qn_buffer_text(out, "]}");
}
