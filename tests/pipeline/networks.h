/* Networks that the pipeline's tests share: YAML of the model: subtree. */
#ifndef GP_TESTS_PIPELINE_NETWORKS_H
#define GP_TESTS_PIPELINE_NETWORKS_H

/* 16 layers: batch norm, dropout, and skips: `a` is used by layers 5, 8 and 12, on three other stages where the cuts
 * allow; concatenation; a value used twice by one layer. */
static const char network_skips[] = "input: {shape: [2, 7, 6]}\n"
                                    "layers:\n"
                                    "  - conv: {out: 6, kernel: 3, pad: 1}\n"              /* 0 */
                                    "  - batch_norm: {name: a}\n"                          /* 1 */
                                    "  - relu\n"                                           /* 2 */
                                    "  - dropout: 0.2\n"                                   /* 3 */
                                    "  - conv: {out: 6, kernel: 3, pad: 1, bias: false}\n" /* 4 */
                                    "  - add: [-1, a]\n"                                   /* 5 */
                                    "  - relu\n"                                           /* 6 */
                                    "  - conv: {out: 4, kernel: [1, 3], pad: [0, 1]}\n"    /* 7 */
                                    "  - concat: [-1, a]\n"                                /* 8 */
                                    "  - batch_norm\n"                                     /* 9 */
                                    "  - relu\n"                                           /* 10 */
                                    "  - conv: {out: 6, kernel: 3, pad: 1}\n"              /* 11 */
                                    "  - add: [a, -1, -1]\n"                               /* 12 */
                                    "  - max_pool: 2\n"                                    /* 13 */
                                    "  - flatten\n"                                        /* 14 */
                                    "  - dropout\n"                                        /* 15 */
                                    "  - linear: 5\n"                                      /* 16 */
                                    "loss: cross_entropy\n";
enum { NETWORK_SKIPS_LAYERS = 17 };

#endif
