/* SPDX-License-Identifier: MIT */
/* Words for the contract's numbers. */
#ifndef LIBARAX_CLI_NAMES_H
#define LIBARAX_CLI_NAMES_H

#include <jansson.h>
#include <stdint.h>

const char *kind_name(uint32_t kind);		/* enum arax_device_kind */
json_t *kind_list(uint32_t kinds);		/* bit per kind */
const char *link_name(uint32_t link);		/* ARAX_LINK_* */

#endif /* LIBARAX_CLI_NAMES_H */
