// SPDX-License-Identifier: MIT
#include "daemon/backends/xrt/xml.h"

#include <errno.h>
#include <string.h>

static bool is_space(char c)
{
	return c == ' ' || c == '\t' || c == '\n' || c == '\r';
}

void xml_open(struct xml *x, const char *text, size_t bytes)
{
	memset(x, 0, sizeof(*x));
	x->at = text;
	x->end = text + bytes;
}

/* Behind the next @what, or NULL. */
static const char *behind(const struct xml *x, const char *what)
{
	const char *p = memmem(x->at, (size_t)(x->end - x->at), what, strlen(what));

	return p ? p + strlen(what) : NULL;
}

static bool begins(const struct xml *x, const char *what)
{
	size_t n = strlen(what);

	return (size_t)(x->end - x->at) >= n && !memcmp(x->at, what, n);
}

/* The '>' that ends the tag: one in quotes does not. */
static const char *tag_end(const char *p, const char *end)
{
	char quote = 0;

	for (; p < end; p++) {
		if (quote)
			quote = *p == quote ? 0 : quote;
		else if (*p == '"' || *p == '\'')
			quote = *p;
		else if (*p == '>')
			return p;
	}
	return NULL;
}

bool xml_next(struct xml *x)
{
	const char *p, *close;

	for (;;) {
		p = memchr(x->at, '<', (size_t)(x->end - x->at));
		if (!p)
			return false;
		x->at = p;
		if (begins(x, "<!--"))
			p = behind(x, "-->");
		else if (begins(x, "<![CDATA["))
			p = behind(x, "]]>");
		else if (begins(x, "<?") || begins(x, "<!"))
			p = behind(x, ">");
		else
			break;
		if (!p)
			return false;
		x->at = p;
	}
	close = tag_end(p, x->end);
	if (!close)
		return false;
	x->at = close + 1;
	x->empty = close[-1] == '/';
	if (x->empty)
		close--;
	x->name = ++p;
	while (p < close && !is_space(*p))
		p++;
	x->name_len = (size_t)(p - x->name);
	x->attributes = p;
	x->attributes_len = close > p ? (size_t)(close - p) : 0;
	return true;
}

bool xml_is(const struct xml *x, const char *name)
{
	return x->name_len == strlen(name) && !memcmp(x->name, name, x->name_len);
}

int xml_attribute(const struct xml *x, const char *name, char *value, size_t len)
{
	const char *p = x->attributes, *end = p + x->attributes_len, *word, *text;
	size_t n, bytes;

	for (;;) {
		while (p < end && is_space(*p))
			p++;
		word = p;
		while (p < end && *p != '=' && !is_space(*p))
			p++;
		n = (size_t)(p - word);
		while (p < end && is_space(*p))
			p++;
		if (end - p < 2 || p[0] != '=')
			return -ENOENT;
		p++;
		while (p < end && is_space(*p))
			p++;
		if (p == end || (*p != '"' && *p != '\''))
			return -ENOENT;
		text = p + 1;
		p = memchr(text, *p, (size_t)(end - text));
		if (!p)
			return -ENOENT;
		bytes = (size_t)(p++ - text);
		if (n != strlen(name) || memcmp(word, name, n))
			continue;
		if (bytes >= len)
			return -E2BIG;
		memcpy(value, text, bytes);
		value[bytes] = '\0';
		return 0;
	}
}
