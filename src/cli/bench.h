/* The benches of `quern bench`, each in a file of its own. argv[0] is the bench's name. */
#ifndef QN_CLI_BENCH_H
#define QN_CLI_BENCH_H

int qn_bench_decode(int argc, char **argv);
int qn_bench_grammar(int argc, char **argv);
int qn_bench_hw(int argc, char **argv);
int qn_bench_kernels(int argc, char **argv);
int qn_bench_prefill(int argc, char **argv);
int qn_bench_serve(int argc, char **argv);

#endif
