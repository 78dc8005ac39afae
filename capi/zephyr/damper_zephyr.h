/* The journal's flash on Zephyr. */
#ifndef DAMPER_ZEPHYR_H
#define DAMPER_ZEPHYR_H

#include "damper.h"

struct flash_area;

/* Describes an open area of the flash map for the journal, which uses it exclusively. Returns 0, or a negative errno if the area's
 * sectors differ in size, or its words are larger than the journal's blocks. The area must stay open. */
int damper_zephyr_flash(const struct flash_area *area, damper_flash *flash);

#endif
