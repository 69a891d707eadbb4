/* What a matcher consists of, for the masks that begin where it stands. */
#ifndef QN_GRAMMAR_MATCHER_INTERNAL_H
#define QN_GRAMMAR_MATCHER_INTERNAL_H

#include "grammar/matcher.h"
#include "grammar/stacks.h"

struct qn_matcher {
    qn_frame_store store;
    qn_stack_set now, next; /* next: room for the step */
    size_t collect_at;      /* frames at which to look for unused ones */
    bool exhausted;
};

#endif
