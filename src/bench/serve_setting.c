#include "bench/serve_setting.h"

#include <stdbool.h>
#include <stdio.h>
#include <string.h>

static bool names(const char *flag, const char *option)
{
    size_t bytes = strlen(option);
    return strncmp(flag, option, bytes) == 0 && (flag[bytes] == '\0' || flag[bytes] == '=');
}

static qn_status check_flags(const char *const *flags, size_t count, qn_error *err)
{
    for (size_t i = 0; i < count; i++) {
        if (names(flags[i], "--port") || names(flags[i], "--host"))
            return qn_fail(err, QN_USAGE, "%s: the bench takes a free port of 127.0.0.1 for its server: leave it out",
                           flags[i]);
    }
    return QN_OK;
}

qn_status qn_serve_setting_start(const qn_serve_setting *setting, const char *model_dir, const char *const *flags,
                                 size_t flag_count, const atomic_bool *stop, qn_serve_process *out, qn_error *err)
{
    const char *arguments[QN_SERVE_MAX_FLAGS];
    char speculation[96];
    size_t count = 0;
    qn_status status = check_flags(flags, flag_count, err);
    if (status != QN_OK)
        return status;
    arguments[count++] = model_dir;
    arguments[count++] = "--enable-prompt-tokens-details";
    if (setting->prefix_caching != QN_SETTING_DEFAULT)
        arguments[count++] = setting->prefix_caching ? "--enable-prefix-caching" : "--no-enable-prefix-caching";
    if (setting->speculation > 0) {
        snprintf(speculation, sizeof speculation,
                 "--speculative-config={\"method\": \"mtp\", \"num_speculative_tokens\": %d}", setting->speculation);
        arguments[count++] = speculation;
    }
    if (flag_count > QN_SERVE_MAX_FLAGS - count)
        return qn_fail(err, QN_USAGE, "server: more than %zu flags for it: give fewer", QN_SERVE_MAX_FLAGS - count);
    for (size_t i = 0; i < flag_count; i++)
        arguments[count++] = flags[i];
    return qn_serve_process_start(NULL, arguments, count, stop, out, err);
}
