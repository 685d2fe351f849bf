/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Values in both formats, hashes and passwords against published examples, rows of COPY in pieces.
 */
#include "fth_test.h"
#include "pg/copy_rows.h"
#include "pg/scram.h"
#include "pg/types.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static void expect_hex(const uint8_t *bytes, size_t n, const char *want)
{
	char text[2 * 64 + 1];

	for (size_t i = 0; i < n; i++)
		snprintf(text + 2 * i, 3, "%02x", bytes[i]);
	assert_string_equal(text, want);
}

/* FIPS 180-4's examples, RFC 4231's first and sixth case, and PBKDF2 of RFC 7914. */
static void hashes(void **state)
{
	uint8_t out[64], key[131];
	char million[1000];
	struct sha256 s;

	(void)state;
	sha256_of("abc", 3, out);
	expect_hex(out, 32, "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
	sha256_of("", 0, out);
	expect_hex(out, 32, "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
	memset(million, 'a', sizeof(million));
	sha256_init(&s);
	for (int i = 0; i < 1000; i++)
		sha256_add(&s, million, sizeof(million));
	sha256_end(&s, out);
	expect_hex(out, 32, "cdc76e5c9914fb9281a1c7e284d73e67f1809a48a497200e046d39ccc7112cd0");
	memset(key, 0x0b, 20);
	hmac_sha256(key, 20, "Hi There", 8, out);
	expect_hex(out, 32, "b0344c61d8db38535ca8afceaf0bf12b881dc200c9833da726e9376c2e32cff7");
	memset(key, 0xaa, sizeof(key));
	hmac_sha256(key, sizeof(key), "Test Using Larger Than Block-Size Key - Hash Key First", 54,
		    out);
	expect_hex(out, 32, "60e431591ee0b67f0d8a26aacbf5b77f8e0bc6213728c5140546040f0ee37f54");
	pbkdf2_sha256("passwd", "salt", 4, 1, out);
	expect_hex(out, 32, "55ac046e56e3089fec1691c22544b605f94185216dde0465e68b9d57c20dacbc");
}

static void base64(void **state)
{
	static const char *const pairs[][2] = {{"", ""},
					       {"f", "Zg=="},
					       {"fo", "Zm8="},
					       {"foo", "Zm9v"},
					       {"foob", "Zm9vYg=="},
					       {"fooba", "Zm9vYmE="},
					       {"foobar", "Zm9vYmFy"}};
	char text[16], back[16];

	(void)state;
	for (size_t i = 0; i < sizeof(pairs) / sizeof(pairs[0]); i++) {
		base64_encode(pairs[i][0], strlen(pairs[i][0]), text);
		assert_string_equal(text, pairs[i][1]);
		assert_int_equal(base64_decode(text, strlen(text), back, sizeof(back)),
				 strlen(pairs[i][0]));
		assert_memory_equal(back, pairs[i][0], strlen(pairs[i][0]));
	}
	assert_int_equal(base64_decode("Zg=", 3, back, sizeof(back)), -1);
	assert_int_equal(base64_decode("Z===", 4, back, sizeof(back)), -1);
	assert_int_equal(base64_decode("Zm9vYmFy", 8, back, 5), -1);
	assert_int_equal(base64_decode("Zm 9", 4, back, 5), -1);
}

/* The exchange of RFC 7677, with its nonces. */
static void an_exchange(void **state)
{
	char path[] = "/tmp/fathom-pg-XXXXXX", answer[64];
	struct pg_passwords passwords;
	struct scram scram = {0};
	bool known;
	int fd = mkstemp(path);

	(void)state;
	dprintf(fd, "user:SCRAM-SHA-256$4096:W22ZaJ0SNY7soEsUEjb6gQ==$"
		    "WG5d8oPm3OtcPnkdi4Uo7BkeZkBFzpcXkuLmtbsT4qY=:"
		    "wfPLwcE6nTWhTAmQ7tl2KeoiWGPlZqQxSrmfPwDl2dU=\nother:password\n");
	close(fd);
	assert_int_equal(pg_passwords_load(&passwords, path), 0);
	unlink(path);
	scram_first(&scram, pg_password_of(&passwords, "user", &known),
		    "n,,n=user,r=rOprNGfwEbeRWgbNEkqO");
	assert_true(known);
	/* The server's nonce is that of the example. */
	strcpy(scram.nonce, "rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0");
	snprintf(scram.server_first, sizeof(scram.server_first), "r=%s,s=%s,i=4096", scram.nonce,
		 "W22ZaJ0SNY7soEsUEjb6gQ==");
	assert_int_equal(scram_final(&scram,
				     "c=biws,r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,"
				     "p=dHzbZapWIk4jUhN+Ute9ytag9zjfMHgsqmmiz7AndVQ=",
				     answer),
			 0);
	assert_string_equal(answer, "v=6rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G4=");
	assert_int_equal(scram_final(&scram,
				     "c=biws,r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,"
				     "p=eHzbZapWIk4jUhN+Ute9ytag9zjfMHgsqmmiz7AndVQ=",
				     answer),
			 -EACCES);
	assert_int_equal(scram_final(&scram, "c=biws,r=x,p=eA==", answer), -EINVAL);
	assert_int_equal(scram_first(&scram, scram.secret, "p=tls-unique,,n=,r=x"), -EINVAL);
	pg_password_of(&passwords, "nobody", &known);
	assert_false(known);
	pg_passwords_release(&passwords);
	assert_int_equal(pg_passwords_load(&passwords, "/nonexistent"), -ENOENT);
}

/* Text to binary and back. */
static void expect_round_trip(uint32_t oid, const char *text, const char *want)
{
	struct pg_wire w;
	char *back;

	pg_wire_init(&w, -1, 0);
	pg_value_out(&w, oid, true, text, strlen(text));
	assert_int_equal(pg_be32(w.out), w.out_length - 4);
	assert_int_equal(pg_value_in(oid, true, w.out + 4, w.out_length - 4, &back), 0);
	assert_string_equal(back, want);
	free(back);
	pg_wire_release(&w);
}

static void values(void **state)
{
	static const char *const numbers[] = {"0",
					      "1",
					      "-1",
					      "10000",
					      "9999",
					      "12345678.90",
					      "-0.07",
					      "0.00",
					      "0.0001",
					      "0.00012345",
					      "100000000000000000000000000000000000.01",
					      "5000",
					      "-1234.5678",
					      "0.5",
					      "99999999.99999999"};
	char *text;

	(void)state;
	for (size_t i = 0; i < sizeof(numbers) / sizeof(numbers[0]); i++)
		expect_round_trip(PG_NUMERIC, numbers[i], numbers[i]);
	expect_round_trip(PG_INT4, "-2147483648", "-2147483648");
	expect_round_trip(PG_INT8, "-9223372036854775808", "-9223372036854775808");
	expect_round_trip(PG_INT2, "-7", "-7");
	expect_round_trip(PG_OID, "4294967295", "4294967295");
	expect_round_trip(PG_BOOL, "t", "t");
	expect_round_trip(PG_FLOAT8, "-0.25", "-0.25");
	expect_round_trip(PG_DATE, "1999-12-31", "1999-12-31");
	expect_round_trip(PG_DATE, "0001-01-01", "0001-01-01");
	expect_round_trip(PG_TEXT, "x y", "x y");
	expect_round_trip(PG_OID_ARRAY, "{1,NULL,3}", "{\"1\",NULL,\"3\"}");
	expect_round_trip(PG_TEXT_ARRAY, "{\"a\\\"b\",c}", "{\"a\\\"b\",\"c\"}");
	expect_round_trip(PG_TEXT_ARRAY, "{}", "{}");
	assert_int_equal(pg_value_in(PG_INT4, true, "123", 3, &text), -EINVAL);
	assert_int_equal(pg_value_in(PG_TEXT, false, "a\0b", 3, &text), -EINVAL);
	assert_int_equal(pg_value_in(PG_NUMERIC, true, "\0\1\0\0\0\0\0\0", 8, &text), -EINVAL);
	assert_int_equal(pg_value_in(PG_NUMERIC, true, "\xff\xff\0\0\0\0\0\0", 8, &text), -EINVAL);
	assert_int_equal(pg_value_in(PG_OID_ARRAY, true,
				     "\0\0\0\1\0\0\0\0\0\0\0\x1a\x7f\xff\xff\xff\0\0\0\1", 20,
				     &text),
			 -EINVAL);
}

static int collect(void *user, const char *bytes, size_t n)
{
	return fwrite(bytes, 1, n, user) == n ? 0 : -EIO;
}

/* The CSV of rows that come in pieces of `step` bytes; NULL after an error. */
static char *rows_of(struct pg_copy_out how, const char *bytes, size_t n, size_t step)
{
	static const struct pg_column columns[] = {{.name = (char *)"a", .oid = PG_INT4},
						   {.name = (char *)"b\"c", .oid = PG_TEXT}};
	struct pg_copy_rows rows;
	char *text = NULL;
	size_t length;
	FILE *out = open_memstream(&text, &length);
	int rc;

	pg_copy_rows_init(&rows, &how, columns, 2, collect, out);
	rc = pg_copy_rows_begin(&rows);
	for (size_t i = 0; i < n && rc == 0; i += step)
		rc = pg_copy_rows_add(&rows, bytes + i, n - i < step ? n - i : step);
	if (rc == 0)
		rc = pg_copy_rows_end(&rows);
	pg_copy_rows_release(&rows);
	fclose(out);
	if (rc == 0)
		return text;
	free(text);
	return NULL;
}

static void expect_rows(struct pg_copy_out how, const char *bytes, size_t n, const char *want)
{
	for (size_t step = 1; step <= n + 1; step++) {
		char *got = rows_of(how, bytes, n, step);

		if (!want) {
			assert_null(got);
		} else {
			assert_non_null(got);
			assert_string_equal(got, want);
		}
		free(got);
	}
}

#define TEXT(text) text, sizeof(text) - 1

static void rows_of_copy(void **state)
{
	struct pg_copy_out text = {PG_COPY_TEXT, '\t', '"', false, "\\N"};
	struct pg_copy_out csv = {PG_COPY_CSV, ';', '\'', true, ""};
	struct pg_copy_out binary = {PG_COPY_BINARY, '\t', '"', false, "\\N"};

	(void)state;
	expect_rows(text, TEXT("1\tx\\ty\\\\\n2\t\\N\n"),
		    "\"a\",\"b\"\"c\"\n\"1\",\"x\ty\\\"\n\"2\",\n");
	expect_rows(text, TEXT("1\t\\x41\\101\\q\\\n\r\n2\tend"),
		    "\"a\",\"b\"\"c\"\n\"1\",\"AAq\n\"\n\"2\",\"end\"\n");
	expect_rows(text, TEXT("1\tx\n\\.\nnot read"), "\"a\",\"b\"\"c\"\n\"1\",\"x\"\n");
	expect_rows(text, TEXT("1\n"), NULL);
	expect_rows(text, TEXT("1\t2\t3\n"), NULL);
	expect_rows(csv, TEXT("x;'y\nz'\n1;2\n"), "'a';'b\"c'\n1;2\n");
	expect_rows(binary,
		    TEXT("PGCOPY\n\377\r\n\0\0\0\0\0\0\0\0\1x\0\2\0\0\0\4\0\0\0\7\377\377\377\377"
			 "\377\377"),
		    "\"a\",\"b\"\"c\"\n\"7\",\n");
	expect_rows(binary, TEXT("PGCOPY\n\377\r\n\0\0\0\0\0\0\0\0\0\0\3"), NULL);
	expect_rows(binary, TEXT("PGCOPX\n\377\r\n\0\0\0\0\0\0\0\0\0"), NULL);
	expect_rows(binary, TEXT("PGCOPY\n\377\r\n\0\0\0\0\0\0\0\0\0\0\2\0\0\0\3abc\0\0\0\0"),
		    NULL);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(hashes),	cmocka_unit_test(base64),
		cmocka_unit_test(an_exchange),	cmocka_unit_test(values),
		cmocka_unit_test(rows_of_copy),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
