/* SPDX-License-Identifier: MIT */
/* In the source tree only: `make install` puts uapi/arax.h itself here. */
#include "../../../uapi/arax.h"
