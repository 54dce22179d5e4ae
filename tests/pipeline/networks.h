/* Networks that the pipeline's tests share: YAML of the model: subtree. */
#ifndef GP_TESTS_PIPELINE_NETWORKS_H
#define GP_TESTS_PIPELINE_NETWORKS_H

/* 17 layers: batch norm, dropout, and skips: `a` is used by layers 5, 8, 11 and 12, on three other stages where the
 * cuts allow; concatenation; a layer that is several nodes; a value used twice by one layer. */
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
                                    "  - sequential: {from: '10', name: b,\n"              /* 11 */
                                    "    layers: [conv: {out: 6, kernel: 3, pad: 1}, batch_norm, add: [a, -1]]}\n"
                                    "  - add: [a, -1, -1]\n" /* 12 */
                                    "  - max_pool: 2\n"      /* 13 */
                                    "  - flatten\n"          /* 14 */
                                    "  - dropout\n"          /* 15 */
                                    "  - linear: 5\n"        /* 16 */
                                    "loss: cross_entropy\n";
enum { NETWORK_SKIPS_LAYERS = 17 };

/* The shape of network_skips, with its first seven layers frozen and more behind trained ones: what crosses a cut in
 * front needs no gradient, what crosses one behind does. */
static const char network_frozen[] = "input: {shape: [2, 7, 6]}\n"
                                     "layers:\n"
                                     "  - conv: {out: 6, kernel: 3, pad: 1, freeze: true}\n"              /* 0 */
                                     "  - batch_norm: {name: a, freeze: true}\n"                          /* 1 */
                                     "  - relu\n"                                                         /* 2 */
                                     "  - dropout: {p: 0.2, freeze: true}\n"                              /* 3 */
                                     "  - conv: {out: 6, kernel: 3, pad: 1, bias: false, freeze: true}\n" /* 4 */
                                     "  - add: [-1, a]\n"                                                 /* 5 */
                                     "  - relu\n"                                                         /* 6 */
                                     "  - conv: {out: 4, kernel: [1, 3], pad: [0, 1]}\n"                  /* 7 */
                                     "  - concat: [-1, a]\n"                                              /* 8 */
                                     "  - batch_norm: {freeze: true}\n"                                   /* 9 */
                                     "  - relu\n"                                                         /* 10 */
                                     "  - conv: {out: 6, kernel: 3, pad: 1, freeze: true}\n"              /* 11 */
                                     "  - add: [a, -1, -1]\n"                                             /* 12 */
                                     "  - max_pool: 2\n"                                                  /* 13 */
                                     "  - flatten\n"                                                      /* 14 */
                                     "  - dropout\n"                                                      /* 15 */
                                     "  - linear: 5\n"                                                    /* 16 */
                                     "loss: cross_entropy\n";
enum { NETWORK_FROZEN_LAYERS = 17 };

/* Pictures: the input used on three stages, strides, dilation, groups, pools whose windows overlap, a value twice in
 * one concatenation, batch norm without parameters. */
static const char network_pictures[] = "input: {shape: [3, 9, 8]}\n"
                                       "layers:\n"
                                       "  - conv: {out: 4, kernel: 3, pad: 1}\n"                         /* 0 */
                                       "  - concat: [input, -1, -1]\n"                                   /* 1 */
                                       "  - batch_norm\n"                                                /* 2 */
                                       "  - conv: {out: 6, kernel: 3, pad: 1}\n"                         /* 3 */
                                       "  - relu\n"                                                      /* 4 */
                                       "  - concat: [-1, input]\n"                                       /* 5 */
                                       "  - max_pool: {kernel: 3, stride: 2, pad: 1}\n"                  /* 6 */
                                       "  - conv: {out: 9, kernel: 3, pad: 2, dilation: 2, groups: 3}\n" /* 7 */
                                       "  - add: [-1, -2]\n"                                             /* 8 */
                                       "  - relu\n"                                                      /* 9 */
                                       "  - dropout: 0.3\n"                                              /* 10 */
                                       "  - conv: {out: 8, kernel: 2, stride: 2}\n"                      /* 11 */
                                       "  - batch_norm: {affine: false}\n"                               /* 12 */
                                       "  - global_avg_pool\n"                                           /* 13 */
                                       "  - flatten\n"                                                   /* 14 */
                                       "  - linear: {out: 6, bias: false}\n"                             /* 15 */
                                       "loss: cross_entropy\n";
enum { NETWORK_PICTURES_LAYERS = 16 };

/* Vectors only: `a` is used by layers 3 and 6, the input by 0 and 6. Small, for tests that run often. */
static const char network_vectors[] = "input: {shape: [7]}\n"
                                      "layers:\n"
                                      "  - linear: {out: 9, name: a}\n"     /* 0 */
                                      "  - relu\n"                          /* 1 */
                                      "  - linear: 9\n"                     /* 2 */
                                      "  - add: [-1, a]\n"                  /* 3 */
                                      "  - dropout: 0.25\n"                 /* 4 */
                                      "  - linear: {out: 5, bias: false}\n" /* 5 */
                                      "  - concat: [-1, a, input]\n"        /* 6 */
                                      "  - relu\n"                          /* 7 */
                                      "  - linear: 4\n"                     /* 8 */
                                      "loss: cross_entropy\n";
enum { NETWORK_VECTORS_LAYERS = 9 };

/* Activations of all kinds, norms of single samples, dropout of channels: what needs the input for its backward pass,
 * the output, or statistics of its own. `a` is used by layers 8 and 12, the input by 5. */
static const char network_samples[] = "input: {shape: [3, 6, 5]}\n"
                                      "layers:\n"
                                      "  - conv: {out: 6, kernel: 3, pad: 1, bias: false}\n"         /* 0 */
                                      "  - group_norm: {groups: 2, name: a}\n"                       /* 1 */
                                      "  - silu\n"                                                   /* 2 */
                                      "  - dropout: {p: 0.3, channels: true}\n"                      /* 3 */
                                      "  - conv: {out: 3, kernel: 3, pad: 2, dilation: 2}\n"         /* 4 */
                                      "  - add: [-1, input]\n"                                       /* 5 */
                                      "  - instance_norm: {affine: true}\n"                          /* 6 */
                                      "  - leaky_relu: 0.1\n"                                        /* 7 */
                                      "  - concat: [-1, a]\n"                                        /* 8 */
                                      "  - instance_norm\n"                                          /* 9 */
                                      "  - conv: {out: 6, kernel: [3, 1], pad: [1, 0], groups: 3}\n" /* 10 */
                                      "  - tanh\n"                                                   /* 11 */
                                      "  - add: [-1, a]\n"                                           /* 12 */
                                      "  - gelu: {tanh: true}\n"                                     /* 13 */
                                      "  - group_norm: {groups: 6, affine: false}\n"                 /* 14 */
                                      "  - flatten\n"                                                /* 15 */
                                      "  - linear: 8\n"                                              /* 16 */
                                      "  - layer_norm\n"                                             /* 17 */
                                      "  - gelu\n"                                                   /* 18 */
                                      "  - linear: 8\n"                                              /* 19 */
                                      "  - sigmoid\n"                                                /* 20 */
                                      "  - add: [-1, -2]\n"                                          /* 21 */
                                      "  - linear: 5\n"                                              /* 22 */
                                      "loss: cross_entropy\n";
enum { NETWORK_SAMPLES_LAYERS = 23 };

/* Rows of tokens: `a` is used by layers 3 and 5. */
static const char network_rows[] = "input: {shape: [4, 6]}\n"
                                   "layers:\n"
                                   "  - linear: {out: 7, name: a}\n" /* 0 */
                                   "  - layer_norm\n"                /* 1 */
                                   "  - linear: 7\n"                 /* 2 */
                                   "  - add: [-1, a]\n"              /* 3 */
                                   "  - gelu\n"                      /* 4 */
                                   "  - add: [a, -1]\n"              /* 5 */
                                   "  - layer_norm: 1e-3\n"          /* 6 */
                                   "  - dropout: 0.2\n"              /* 7 */
                                   "  - flatten\n"                   /* 8 */
                                   "  - linear: 5\n"                 /* 9 */
                                   "loss: cross_entropy\n";
enum { NETWORK_ROWS_LAYERS = 10 };
/* A class for each pixel: down by an average, down again by a maximum, up again twice, the fine values beside the
 * coarse ones each time; identities where their input has other users, where it has none, and at the ends of stages;
 * a class that is ignored. */
static const char network_pixels[] = "input: {shape: [3, 8, 8]}\n"
                                     "layers:\n"
                                     "  - conv: {out: 6, kernel: 3, pad: 1}\n"                          /* 0 */
                                     "  - batch_norm\n"                                                 /* 1 */
                                     "  - relu: {name: fine}\n"                                         /* 2 */
                                     "  - avg_pool: {kernel: 3, stride: 2, pad: 1}\n"                   /* 3 */
                                     "  - identity\n"                                                   /* 4 */
                                     "  - conv: {out: 5, kernel: 3, pad: 1}\n"                          /* 5 */
                                     "  - relu: {name: coarse}\n"                                       /* 6 */
                                     "  - max_pool: {kernel: 3, stride: 2, ceil: true}\n"               /* 7 */
                                     "  - identity\n"                                                   /* 8 */
                                     "  - upsample: 2\n"                                                /* 9 */
                                     "  - concat: [-1, coarse]\n"                                       /* 10 */
                                     "  - avg_pool: {kernel: 3, stride: 1, pad: 1, count_pad: false}\n" /* 11 */
                                     "  - upsample: {scale: [2, 2], name: up}\n"                        /* 12 */
                                     "  - identity: {from: fine}\n"                                     /* 13 */
                                     "  - concat: [up, -1, fine]\n"                                     /* 14 */
                                     "  - conv: {out: 4, kernel: 1}\n"                                  /* 15 */
                                     "loss: {cross_entropy: {smoothing: 0.1, ignore: 3}}\n";
enum { NETWORK_PIXELS_LAYERS = 16 };

/* Numbers for targets: vectors, and pictures. */
static const char network_numbers[] = "input: {shape: [6]}\n"
                                      "layers:\n"
                                      "  - identity: {name: i}\n" /* 0 */
                                      "  - linear: 7\n"           /* 1 */
                                      "  - relu\n"                /* 2 */
                                      "  - linear: 6\n"           /* 3 */
                                      "  - add: [-1, i]\n"        /* 4 */
                                      "  - identity\n"            /* 5 */
                                      "  - linear: 5\n"           /* 6 */
                                      "loss: mse\n";
enum { NETWORK_NUMBERS_LAYERS = 7 };
static const char network_mask[] = "input: {shape: [2, 3, 4]}\n"
                                   "layers:\n"
                                   "  - conv: {out: 3, kernel: 3, pad: 1}\n" /* 0 */
                                   "  - upsample: [1, 2]\n"                  /* 1 */
                                   "  - relu\n"                              /* 2 */
                                   "  - avg_pool: 2\n"                       /* 3 */
                                   "  - conv: {out: 2, kernel: 1}\n"         /* 4 */
                                   "loss: bce_logits\n";
enum { NETWORK_MASK_LAYERS = 5 };

/* Batch norm, an addition of either order or none, relu, as in a residual network: one whose sum is with the block's
 * own input, one with another norm; `a` and `b` are used twice. */
static const char network_residual[] = "input: {shape: [3, 8, 8]}\n"
                                       "layers:\n"
                                       "  - conv: {out: 4, kernel: 3, pad: 1, bias: false}\n" /* 0 */
                                       "  - batch_norm\n"                                     /* 1 */
                                       "  - relu\n"                                           /* 2 */
                                       "  - max_pool: {kernel: 2, name: a}\n"                 /* 3 */
                                       "  - conv: {out: 4, kernel: 3, pad: 1, bias: false}\n" /* 4 */
                                       "  - batch_norm\n"                                     /* 5 */
                                       "  - relu\n"                                           /* 6 */
                                       "  - conv: {out: 4, kernel: 3, pad: 1, bias: false}\n" /* 7 */
                                       "  - batch_norm\n"                                     /* 8 */
                                       "  - add: [a, -1]\n"                                   /* 9 */
                                       "  - relu: {name: b}\n"                                /* 10 */
                                       "  - conv: {out: 6, kernel: 3, stride: 2, pad: 1}\n"   /* 11 */
                                       "  - batch_norm\n"                                     /* 12 */
                                       "  - relu\n"                                           /* 13 */
                                       "  - conv: {out: 6, kernel: 3, pad: 1, bias: false}\n" /* 14 */
                                       "  - batch_norm: {name: c}\n"                          /* 15 */
                                       "  - conv: {from: b, out: 6, kernel: 1, stride: 2}\n"  /* 16 */
                                       "  - batch_norm: {affine: false}\n"                    /* 17 */
                                       "  - add: [c, -1]\n"                                   /* 18 */
                                       "  - relu\n"                                           /* 19 */
                                       "  - flatten\n"                                        /* 20 */
                                       "  - linear: 5\n"                                      /* 21 */
                                       "loss: cross_entropy\n";
enum { NETWORK_RESIDUAL_LAYERS = 22 };

#endif
