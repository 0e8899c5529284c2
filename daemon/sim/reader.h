/* SPDX-License-Identifier: MIT */
/*
 * reader.h - values out of a JSON object, each checked, each refusal with its place
 *
 * The first refusal is kept; everything after it is harmless, so callers check at the end.
 */
#ifndef SIM_READER_H
#define SIM_READER_H

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

/**
 * struct reader - of one text
 * @path:	of the object that is read
 * @line:	of the text in its file, if that has several texts; else 0
 */
struct reader {
	const char *file, *text;
	char path[256];
	int line;
	int err;
	char *error;
	size_t len;
};

/* Refuses the value of @key in the present object (or, if NULL, that object). */
void reader_fail(struct reader *r, int err, const char *key, const char *format, ...)
	__attribute__((format(printf, 4, 5)));

/* Goes to a member or element; returns the length to go back with. */
size_t reader_enter(struct reader *r, const char *key);
size_t reader_enter_index(struct reader *r, size_t i);
void reader_leave(struct reader *r, size_t back);

/* @known ends with NULL: another key is refused; so is what is no object. */
void reader_keys(struct reader *r, json_t *obj, const char *const *known);
/* Absent: @fallback, or refused if that is NAN. */
double reader_number(struct reader *r, json_t *obj, const char *key, double low, double high,
		     double fallback);
/* So many times @units, as a whole number: the bytes or ns of a number of MB or us. */
uint64_t reader_units(struct reader *r, json_t *obj, const char *key, double low, double high,
		      double fallback, double units);
/* A whole number; absent: @fallback, or refused if that is UINT64_MAX. */
uint64_t reader_count(struct reader *r, json_t *obj, const char *key, uint64_t low,
		      uint64_t high, uint64_t fallback);
/* The same, which may be below 0. */
int32_t reader_whole(struct reader *r, json_t *obj, const char *key, int32_t low, int32_t high,
		     int32_t fallback);
bool reader_bool(struct reader *r, json_t *obj, const char *key, bool fallback);
/* 1 to @size - 1 printable bytes; absent: @fallback, or refused if that is NULL. */
void reader_string(struct reader *r, json_t *obj, const char *key, char *out, size_t size,
		   const char *fallback);
/* An array of @low to @high elements, or NULL (absent or refused). */
json_t *reader_array(struct reader *r, json_t *obj, const char *key, size_t low, size_t high,
		     bool required);

#endif /* SIM_READER_H */
