/* Numbers as texts for people, and for files that people read.
 *
 * Each text goes into a buffer of the caller. Any thread. */
#ifndef GP_BASE_NUMBER_H
#define GP_BASE_NUMBER_H

enum { GP_NUMBER_TEXT = 32 };

/* The shortest text that strtod reads as the same number, with all digits of a whole number: "30", not "3e+01". Below
 * 0.0001 and from 1e17 on it has an exponent. buffer is returned. */
const char *gp_number_text(char buffer[GP_NUMBER_TEXT], double value);
/* `digits` significant digits, and more if the whole part has more: "1234" for 3 digits, not "1.23e+03". Below 0.0001
 * and from 1e17 on it has an exponent. buffer is returned. */
const char *gp_rounded_text(char buffer[GP_NUMBER_TEXT], double value, int digits);

#endif
