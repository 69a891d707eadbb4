/* In a program of its own: ThreadSanitizer runs just the tests in which threads meet. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <pthread.h>
#include <string.h>

#include "text/tokenizer.h"

typedef struct worker {
    const qn_tokenizer *tokenizer;
    size_t wrong;
} worker;

static void *work(void *argument)
{
    worker *w = argument;
    const char *text = "<|user|>What's 12 + 34?\n<|assistant|><think> na\xC3\xAFve </think>";
    qn_error err;
    qn_tokens first = {0}, again = {0};
    if (qn_tokenizer_encode(w->tokenizer, text, strlen(text), NULL, 0, &first, &err) != QN_OK)
        w->wrong++;
    for (int i = 0; i < 200; i++) {
        qn_tokens_clear(&again);
        if (qn_tokenizer_encode(w->tokenizer, text, strlen(text), NULL, 0, &again, &err) != QN_OK ||
            again.count != first.count || memcmp(again.ids, first.ids, first.count * sizeof *first.ids) != 0)
            w->wrong++;
    }
    qn_tokens_free(&first);
    qn_tokens_free(&again);
    return NULL;
}

static void test_threads_share_a_tokenizer(void **state)
{
    (void)state;
    enum { THREADS = 4 };
    pthread_t threads[THREADS];
    worker workers[THREADS];
    qn_error err;
    qn_tokenizer *t = NULL;
    assert_int_equal(qn_tokenizer_open("models/quern-tiny", &t, &err), QN_OK);
    for (int i = 0; i < THREADS; i++) {
        workers[i] = (worker){.tokenizer = t};
        assert_int_equal(pthread_create(&threads[i], NULL, work, &workers[i]), 0);
    }
    for (int i = 0; i < THREADS; i++) {
        pthread_join(threads[i], NULL);
        assert_int_equal(workers[i].wrong, 0);
    }
    qn_tokenizer_free(t);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_threads_share_a_tokenizer),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
