#include "cli/load_options.h"

#include <string.h>

/* in the enums' order */
static const char *const load_words[] = {"auto", "resident", "mapped", NULL};
static const char *const pack_words[] = {"auto", "on", "off", NULL};
static const char *const numa_words[] = {"auto", "off", "interleave", NULL};

/* llama.cpp's, and what to do instead. */
static const struct {
    const char *word, *instead;
} other_numa[] = {
    {"distribute", "give interleave, and --cpu-binding auto"},
    {"isolate", "start quern under numactl --cpunodebind=N --membind=N"},
    {"numactl", "what numactl sets is kept: leave the option out"},
};

void qn_load_flags_add(qn_load_flags *flags, qn_option_table *table)
{
    const qn_option options[] = {
        {.name = "load",
         .kind = QN_OPTION_STRING,
         .value = &flags->load,
         .value_name = "WHERE",
         .help =
             "where the weights are: \"resident\" in memory, in 2 MiB pages; \"mapped\" from their files; \"auto\" is "
             "resident if memory suffices (default: auto)"},
        {.name = "pack-dense",
         .kind = QN_OPTION_CHOICE,
         .value = &flags->pack_dense,
         .value_name = "WHEN",
         .help = "resident BF16 weights, all but routed experts, are packed to 12 bits without loss: no answer changes "
                 "by a bit; \"auto\": if this CPU is faster with them (default: auto)",
         .choices = pack_words},
        {.name = "numa",
         .kind = QN_OPTION_STRING,
         .value = &flags->numa,
         .value_name = "HOW",
         .help =
             "memory of weights and KV cache on machines of several NUMA nodes: \"interleave\" goes round the nodes; "
             "\"auto\" does if the CPUs that compute are of several; \"off\" leaves it to the system (default: auto)"},
    };
    qn_options_add(table, options, sizeof options / sizeof *options);
}

/* Which of the words, up to a NULL, this is; false: none. Without a text, the first. */
static bool find_word(const char *const *words, const char *text, int *index)
{
    *index = 0;
    while (text != NULL && words[*index] != NULL && strcmp(text, words[*index]) != 0)
        ++*index;
    return words[*index] != NULL;
}

static qn_status refuse_numa(const char *word, qn_error *err)
{
    const char *instead = "give auto, off or interleave";
    for (size_t i = 0; i < sizeof other_numa / sizeof *other_numa; i++) {
        if (strcmp(word, other_numa[i].word) == 0)
            instead = other_numa[i].instead;
    }
    return qn_fail_field(err, QN_USAGE, "numa", "--numa: %s: no such way: %s", word, instead);
}

qn_status qn_load_flags_read(const qn_load_flags *flags, qn_load_choice *out, qn_error *err)
{
    int place, when, how;
    if (!find_word(load_words, flags->load, &place))
        return qn_fail_field(err, QN_USAGE, "load", "--load: %s: give auto, resident or mapped", flags->load);
    (void)find_word(pack_words, flags->pack_dense, &when); /* the table has refused others */
    if (!find_word(numa_words, flags->numa, &how))
        return refuse_numa(flags->numa, err);
    *out = (qn_load_choice){.load = (qn_load)place, .pack_dense = (qn_pack_dense)when, .numa = (qn_numa)how};
    return QN_OK;
}
