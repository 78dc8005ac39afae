/* The part of Zephyr's header of this name that damper_zephyr.c uses. */
#ifndef STUB_ZEPHYR_FLASH_MAP_H
#define STUB_ZEPHYR_FLASH_MAP_H

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

struct device;

struct flash_area {
  uint8_t fa_id;
  uint16_t pad16;
  off_t fa_off;
  size_t fa_size;
  const struct device *fa_dev;
};

const struct device *flash_area_get_device(const struct flash_area *fa);
int flash_area_read(const struct flash_area *fa, off_t off, void *dst, size_t len);
int flash_area_write(const struct flash_area *fa, off_t off, const void *src, size_t len);
int flash_area_erase(const struct flash_area *fa, off_t off, size_t len);
uint32_t flash_area_align(const struct flash_area *fa);
uint8_t flash_area_erased_val(const struct flash_area *fa);

#endif
