/* The measurements of `quern eval`, each in a file of its own. argv[0] is the measurement's name. */
#ifndef QN_CLI_EVAL_H
#define QN_CLI_EVAL_H

int qn_eval_logits(int argc, char **argv);
int qn_eval_kl(int argc, char **argv);
int qn_eval_ppl(int argc, char **argv);

#endif
