/* An error of a Zephyr driver is an error here, also for an unreadable word. The journal does not work with a driver on which the
 * fault of a torn word resets the device. */
#include "damper_zephyr.h"

#include <errno.h>
#include <zephyr/drivers/flash.h>
#include <zephyr/storage/flash_map.h>

static int area_read(void *context, uint32_t offset, uint8_t *bytes, uint32_t len) {
  return flash_area_read((const struct flash_area *)context, (off_t)offset, bytes, len);
}

static int area_write(void *context, uint32_t offset, const uint8_t *bytes, uint32_t len) {
  return flash_area_write((const struct flash_area *)context, (off_t)offset, bytes, len);
}

static int area_erase(void *context, uint32_t offset, uint32_t len) {
  return flash_area_erase((const struct flash_area *)context, (off_t)offset, len);
}

int damper_zephyr_flash(const struct flash_area *area, damper_flash *flash) {
  const struct device *device = flash_area_get_device(area);
  const damper_flash empty = DAMPER_FLASH_INIT;
  struct flash_pages_info first, last;
  int error = flash_get_page_info_by_offs(device, area->fa_off, &first);
  if (error == 0) error = flash_get_page_info_by_offs(device, area->fa_off + (off_t)area->fa_size - 1, &last);
  if (error != 0) return error;
  if (first.size != last.size || flash_area_erased_val(area) != 0xff || flash_area_align(area) > 32) return -ENOTSUP;
  *flash = empty;
  /* The library returns the pointer unchanged. */
  flash->context = (void *)(uintptr_t)area;
  flash->bytes = (uint32_t)area->fa_size;
  flash->erase_bytes = (uint32_t)first.size;
  flash->write_bytes = flash_area_align(area);
  flash->read = area_read;
  flash->write = area_write;
  flash->erase = area_erase;
  return 0;
}
