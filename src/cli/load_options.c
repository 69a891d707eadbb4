#include "cli/load_options.h"

#include <string.h>

/* in the enums' order */
static const char *const load_words[] = {"auto", "resident", "mapped", NULL};
static const char *const pack_words[] = {"auto", "on", "off", NULL};

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

qn_status qn_load_flags_read(const qn_load_flags *flags, qn_load *load, qn_pack_dense *pack_dense, qn_error *err)
{
    int place, when;
    if (!find_word(load_words, flags->load, &place))
        return qn_fail_field(err, QN_USAGE, "load", "--load: %s: give auto, resident or mapped", flags->load);
    (void)find_word(pack_words, flags->pack_dense, &when); /* the table has refused others */
    *load = (qn_load)place;
    *pack_dense = (qn_pack_dense)when;
    return QN_OK;
}
