// SPDX-License-Identifier: MIT
#include "daemon/dispatch/unfit.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "daemon/reason.h"

void unfit_note(struct poller *p, const struct kernel *k, const struct device *dev, int err,
		const char *why)
{
	char *text;

	if (!p->unfit)
		p->unfit = calloc(registry_count(p->registry), sizeof(*p->unfit));
	/* Without memory for them: fewer words. */
	if (!p->unfit || p->unfit[k->index])
		return;
	/* What may be too long for a reason is at its end. */
	if (asprintf(&text, "%s (as it is in %s, on %s)", why[0] ? why : strerror(-err), k->library,
		     dev->info.name) > 0)
		p->unfit[k->index] = text;
}

static const char *kind_name(uint32_t kind)
{
	static const char *const names[] = {
		[ARAX_DEVICE_CPU] = "cpu", [ARAX_DEVICE_OPENCL] = "opencl",
		[ARAX_DEVICE_CUDA] = "cuda", [ARAX_DEVICE_HIP] = "hip", [ARAX_DEVICE_XRT] = "xrt",
		[ARAX_DEVICE_SIM] = "sim",
	};

	return kind < sizeof(names) / sizeof(names[0]) ? names[kind] : "unknown";
}

static void list_kinds(char *text, size_t len, uint32_t kinds)
{
	size_t n = 0;

	text[0] = '\0';
	for (uint32_t i = 0; i < 32 && n < len; i++)
		if (kinds >> i & 1)
			n += (size_t)snprintf(text + n, len - n, "%s%s", n ? ", " : "",
					      kind_name(i));
}

void unfit_tell(const struct poller *p, const struct kernel *k)
{
	char has[64], here[64];
	uint32_t kinds = 0;

	if (p->unfit && p->unfit[k->index]) {
		reason_set("no device can run kernel %s: %s", k->sig.name, p->unfit[k->index]);
		return;
	}
	for (uint32_t i = 0; i < p->nr_devs; i++)
		kinds |= 1u << p->devs[i].dev->info.kind;
	list_kinds(has, sizeof(has), k->kinds);
	list_kinds(here, sizeof(here), kinds);
	reason_set("no device that is used here can run kernel %s: it is there for %s, the devices are of kind %s",
		   k->sig.name, has, here);
}

void unfit_free(struct poller *p)
{
	for (uint32_t i = 0; p->unfit && i < registry_count(p->registry); i++)
		free(p->unfit[i]);
	free(p->unfit);
	p->unfit = NULL;
}
