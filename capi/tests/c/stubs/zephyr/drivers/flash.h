/* The part of Zephyr's header of this name that damper_zephyr.c uses. */
#ifndef STUB_ZEPHYR_FLASH_H
#define STUB_ZEPHYR_FLASH_H

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

struct device;

struct flash_pages_info {
  off_t start_offset;
  size_t size;
  uint32_t index;
};

int flash_get_page_info_by_offs(const struct device *dev, off_t offset, struct flash_pages_info *info);

#endif
