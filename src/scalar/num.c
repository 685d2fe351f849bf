/* SPDX-License-Identifier: BSD-2-Clause */
#include "scalar/num.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

fth_i128 fth_pow10(unsigned n)
{
	fth_i128 p = 1;

	while (n-- > 0)
		p *= 10;
	return p;
}

fth_i128 fth_dec_max(void)
{
	return fth_pow10(FTH_DEC_DIGITS) - 1;
}

static fth_u128 magnitude(fth_i128 a)
{
	return a < 0 ? -(fth_u128)a : (fth_u128)a;
}

static int signed_of(fth_u128 a, bool negative, fth_i128 *out)
{
	if (a > (fth_u128)fth_dec_max())
		return -ERANGE;
	*out = negative ? -(fth_i128)a : (fth_i128)a;
	return 0;
}

fth_i128 fth_dec_round(fth_i128 a, unsigned digits)
{
	fth_u128 unit, m = magnitude(a), q;

	if (digits > FTH_DEC_DIGITS)
		return 0;
	unit = (fth_u128)fth_pow10(digits);
	q = m / unit + (m % unit >= unit - m % unit);
	return a < 0 ? -(fth_i128)q : (fth_i128)q;
}

fth_i128 fth_dec_floor(fth_i128 a, unsigned digits, bool up)
{
	fth_i128 unit = fth_pow10(digits), rest = a % unit;

	return a / unit + (up && rest > 0) - (!up && rest < 0);
}

int fth_dec_scale_up(fth_i128 a, unsigned digits, fth_i128 *out)
{
	fth_u128 m = magnitude(a);

	if (m == 0 || digits == 0)
		return signed_of(m, a < 0, out);
	if (digits > FTH_DEC_DIGITS || m > (fth_u128)fth_dec_max() / (fth_u128)fth_pow10(digits))
		return -ERANGE;
	return signed_of(m * (fth_u128)fth_pow10(digits), a < 0, out);
}

unsigned fth_dec_div_scale(unsigned sa, unsigned sb)
{
	unsigned scale = sa > sb ? sa : sb;

	return scale < 16 ? 16 : scale;
}

/* The next digit of rest / b, for a divisor so large that 10 * rest does not fit. */
static unsigned next_digit(fth_u128 *rest, fth_u128 b)
{
	fth_u128 sum = 0;
	unsigned digit = 0;

	for (unsigned i = 0; i < 10; i++) {
		sum += *rest;
		if (sum >= b) {
			sum -= b;
			digit++;
		}
	}
	*rest = sum;
	return digit;
}

/*
 * Long division: quotient, then `digits` decimal places of the remainder, as many at a time as fit.
 */
static int divide(fth_u128 a, fth_u128 b, unsigned digits, fth_u128 *out)
{
	fth_u128 q = a / b, rest = a % b, max = (fth_u128)fth_dec_max();

	while (digits > 0) {
		unsigned step = digits < 18 ? digits : 18, digit;
		fth_u128 unit, product;

		for (; step > 0; step--) {
			unit = (fth_u128)fth_pow10(step);
			if (!__builtin_mul_overflow(rest, unit, &product))
				break;
		}
		if (step == 0) {
			step = 1;
			unit = 10;
			digit = next_digit(&rest, b);
			if (q > (max - digit) / 10)
				return -ERANGE;
			q = q * 10 + digit;
		} else {
			if (q > max / unit)
				return -ERANGE;
			q = q * unit + product / b;
			rest = product % b;
		}
		digits -= step;
	}
	*out = q + (rest >= b - rest);
	return 0;
}

int fth_dec_div(fth_i128 a, unsigned sa, fth_i128 b, unsigned sb, unsigned scale, fth_i128 *out)
{
	fth_u128 q;
	int rc;

	if (b == 0)
		return -EDOM;
	rc = divide(magnitude(a), magnitude(b), scale + sb - sa, &q);
	return rc < 0 ? rc : signed_of(q, (a < 0) != (b < 0), out);
}

/* ---- doubles ---- */

/* Both are exact, and a division rounds once: so the result is the nearest double. */
static bool divides_exactly(fth_i128 a, unsigned scale)
{
	return magnitude(a) <= (fth_u128)1 << 53 && scale <= 22;
}

double fth_dec_to_f64(fth_i128 a, unsigned scale)
{
	char text[FTH_NUM_TEXT];

	if (divides_exactly(a, scale))
		return (double)(int64_t)a / (double)fth_pow10(scale);
	text[fth_dec_text(a, scale, text)] = '\0';
	return strtod(text, NULL);
}

int fth_f64_to_dec(double x, unsigned scale, fth_i128 *out)
{
	char text[FTH_NUM_TEXT];
	int len;

	if (!isfinite(x) || fabs(x) >= 1e39)
		return -ERANGE;
	len = snprintf(text, sizeof(text), "%.15g", x);
	return fth_dec_parse((struct fth_str){text, (uint32_t)len, 0}, scale, out);
}

int fth_f64_to_int(double x, fth_i128 lo, fth_i128 hi, fth_i128 *out)
{
	double r = rint(x);

	if (!(fabs(r) < 1e37))
		return -ERANGE;
	*out = (fth_i128)r;
	return *out < lo || *out > hi ? -ERANGE : 0;
}

int64_t fth_f64_order(double x)
{
	int64_t bits;

	if (x != x)
		return INT64_MAX;
	if (x == 0)
		return 0;
	memcpy(&bits, &x, sizeof(bits));
	return bits < 0 ? INT64_MIN - bits : bits;
}

/* ---- text ---- */

unsigned fth_dec_text(fth_i128 a, unsigned scale, char *out)
{
	char digits[FTH_NUM_TEXT];
	fth_u128 m = magnitude(a);
	unsigned n = 0, at = 0;

	do {
		digits[n++] = (char)('0' + (unsigned)(m % 10));
		m /= 10;
	} while (m > 0 || n <= scale);
	if (a < 0)
		out[at++] = '-';
	while (n > 0) {
		if (n == scale)
			out[at++] = '.';
		out[at++] = digits[--n];
	}
	return at;
}

/*
 * The shortest digits that read back as the same double; with an exponent where PostgreSQL has one.
 */
unsigned fth_f64_text(double x, char *out)
{
	int digits = 1, exponent;

	if (x != x)
		return (unsigned)snprintf(out, FTH_NUM_TEXT, "NaN");
	if (isinf(x))
		return (unsigned)snprintf(out, FTH_NUM_TEXT, x < 0 ? "-Infinity" : "Infinity");
	for (;; digits++) {
		snprintf(out, FTH_NUM_TEXT, "%.*e", digits - 1, x);
		if (digits == 17 || strtod(out, NULL) == x)
			break;
	}
	exponent = atoi(strchr(out, 'e') + 1);
	if (exponent < -4 || exponent >= 15)
		return (unsigned)strlen(out);
	return (unsigned)snprintf(out, FTH_NUM_TEXT, "%.*f",
				  digits - 1 > exponent ? digits - 1 - exponent : 0, x);
}

static struct fth_str trimmed(struct fth_str s)
{
	while (s.len > 0 && (s.data[0] == ' ' || (s.data[0] >= '\t' && s.data[0] <= '\r'))) {
		s.data++;
		s.len--;
	}
	while (s.len > 0 && (s.data[s.len - 1] == ' ' ||
			     (s.data[s.len - 1] >= '\t' && s.data[s.len - 1] <= '\r')))
		s.len--;
	return s;
}

static bool is_digit(char c)
{
	return c >= '0' && c <= '9';
}

/* A number in text: digits without the point, how many of them came after it, and the exponent. */
struct number_text {
	bool negative;
	const char *digits; /* with the point in it */
	unsigned len;
	int places, exponent;
};

static int split_number(struct fth_str s, struct number_text *out)
{
	unsigned i = 0, count = 0;
	bool point = false;

	*out = (struct number_text){0};
	s = trimmed(s);
	if (i < s.len && (s.data[i] == '-' || s.data[i] == '+'))
		out->negative = s.data[i++] == '-';
	out->digits = s.data + i;
	for (; i < s.len && (is_digit(s.data[i]) || (s.data[i] == '.' && !point)); i++) {
		point |= s.data[i] == '.';
		count += is_digit(s.data[i]);
		out->places += point && is_digit(s.data[i]);
	}
	out->len = (unsigned)(s.data + i - out->digits);
	if (count == 0)
		return -EINVAL;
	if (i < s.len && (s.data[i] == 'e' || s.data[i] == 'E')) {
		bool minus = false;
		int e = 0;

		i++;
		if (i < s.len && (s.data[i] == '-' || s.data[i] == '+'))
			minus = s.data[i++] == '-';
		if (i == s.len)
			return -EINVAL;
		for (; i < s.len && is_digit(s.data[i]); i++)
			e = e < 100000 ? e * 10 + (s.data[i] - '0') : e;
		out->exponent = minus ? -e : e;
	}
	return i == s.len ? 0 : -EINVAL;
}

int fth_dec_places(struct fth_str s, int *places)
{
	struct number_text t;
	int rc = split_number(s, &t);

	*places = t.places - t.exponent;
	return rc;
}

/* The digits of value * 10^scale are taken one by one; the first that is left out rounds. */
int fth_dec_parse(struct fth_str s, unsigned scale, fth_i128 *out)
{
	struct number_text t;
	fth_u128 value = 0, max = (fth_u128)fth_dec_max();
	int rc = split_number(s, &t), keep, at = 0, total;

	if (rc < 0)
		return rc;
	total = (int)t.len - (memchr(t.digits, '.', t.len) != NULL);
	keep = total - t.places + t.exponent + (int)scale; /* digits of the result */
	for (unsigned i = 0; i < t.len; i++) {
		unsigned digit = (unsigned)(t.digits[i] - '0');

		if (t.digits[i] == '.')
			continue;
		if (at < keep) {
			if (value > (max - digit) / 10)
				return -ERANGE;
			value = value * 10 + digit;
		} else if (at == keep) {
			value += digit >= 5;
		}
		at++;
	}
	for (; at < keep && value > 0; at++) {
		if (value > max / 10)
			return -ERANGE;
		value *= 10;
	}
	return signed_of(value, t.negative, out);
}

int fth_int_parse(struct fth_str s, fth_i128 *out)
{
	struct fth_str t = trimmed(s);

	for (unsigned i = 0; i < t.len; i++)
		if (!is_digit(t.data[i]) && !(i == 0 && (t.data[i] == '-' || t.data[i] == '+')))
			return -EINVAL;
	return fth_dec_parse(t, 0, out);
}

int fth_f64_parse(struct fth_str s, double *out)
{
	char text[512], *end;

	s = trimmed(s);
	if (s.len == 0 || s.len >= sizeof(text))
		return -EINVAL;
	memcpy(text, s.data, s.len);
	text[s.len] = '\0';
	if (memchr(text, 'x', s.len) || memchr(text, 'X', s.len) || memchr(text, '(', s.len))
		return -EINVAL;
	errno = 0;
	*out = strtod(text, &end);
	if (*end || end == text)
		return -EINVAL;
	return errno == ERANGE ? -ERANGE : 0;
}

int fth_bool_parse(struct fth_str s, bool *out)
{
	static const char *const names[] = {"true", "yes", "on", "1", "false", "no", "off", "0"};

	s = trimmed(s);
	for (unsigned i = 0; i < 8; i++) {
		unsigned least = i % 4 == 2 ? 2 : 1; /* "o" could be both */

		if (s.len < least || s.len > strlen(names[i]) ||
		    strncasecmp(s.data, names[i], s.len) != 0)
			continue;
		*out = i < 4;
		return 0;
	}
	return -EINVAL;
}
