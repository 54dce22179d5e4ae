/* GP_EACH(M, context, a, b, …) is M(context, a) M(context, b) …, for up to 16 entries. The preprocessor's part of
 * op_table.inc; any thread. */
#ifndef GP_DEVICE_OP_EACH_H
#define GP_DEVICE_OP_EACH_H

#define GP_EACH(M, c, ...)                                                                                             \
    GP_EACH_JOIN(GP_EACH_, GP_EACH_COUNT(__VA_ARGS__, 16, 15, 14, 13, 12, 11, 10, 9, 8, 7, 6, 5, 4, 3, 2, 1, 0))       \
    (M, c, __VA_ARGS__)
#define GP_EACH_COUNT(a, b, d, e, f, g, h, i, j, k, l, m, n, o, p, q, count, ...) count
#define GP_EACH_JOIN(a, b)                                                        GP_EACH_JOINED(a, b)
#define GP_EACH_JOINED(a, b)                                                      a##b

#define GP_EACH_1(M, c, a)       M(c, a)
#define GP_EACH_2(M, c, a, ...)  M(c, a) GP_EACH_1(M, c, __VA_ARGS__)
#define GP_EACH_3(M, c, a, ...)  M(c, a) GP_EACH_2(M, c, __VA_ARGS__)
#define GP_EACH_4(M, c, a, ...)  M(c, a) GP_EACH_3(M, c, __VA_ARGS__)
#define GP_EACH_5(M, c, a, ...)  M(c, a) GP_EACH_4(M, c, __VA_ARGS__)
#define GP_EACH_6(M, c, a, ...)  M(c, a) GP_EACH_5(M, c, __VA_ARGS__)
#define GP_EACH_7(M, c, a, ...)  M(c, a) GP_EACH_6(M, c, __VA_ARGS__)
#define GP_EACH_8(M, c, a, ...)  M(c, a) GP_EACH_7(M, c, __VA_ARGS__)
#define GP_EACH_9(M, c, a, ...)  M(c, a) GP_EACH_8(M, c, __VA_ARGS__)
#define GP_EACH_10(M, c, a, ...) M(c, a) GP_EACH_9(M, c, __VA_ARGS__)
#define GP_EACH_11(M, c, a, ...) M(c, a) GP_EACH_10(M, c, __VA_ARGS__)
#define GP_EACH_12(M, c, a, ...) M(c, a) GP_EACH_11(M, c, __VA_ARGS__)
#define GP_EACH_13(M, c, a, ...) M(c, a) GP_EACH_12(M, c, __VA_ARGS__)
#define GP_EACH_14(M, c, a, ...) M(c, a) GP_EACH_13(M, c, __VA_ARGS__)
#define GP_EACH_15(M, c, a, ...) M(c, a) GP_EACH_14(M, c, __VA_ARGS__)
#define GP_EACH_16(M, c, a, ...) M(c, a) GP_EACH_15(M, c, __VA_ARGS__)

#endif
