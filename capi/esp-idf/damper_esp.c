#include "damper_esp.h"

static int partition_read(void *context, uint32_t offset, uint8_t *bytes, uint32_t len) {
  return esp_partition_read((const esp_partition_t *)context, offset, bytes, len) == ESP_OK ? 0 : 1;
}

static int partition_write(void *context, uint32_t offset, const uint8_t *bytes, uint32_t len) {
  return esp_partition_write((const esp_partition_t *)context, offset, bytes, len) == ESP_OK ? 0 : 1;
}

static int partition_erase(void *context, uint32_t offset, uint32_t len) {
  return esp_partition_erase_range((const esp_partition_t *)context, offset, len) == ESP_OK ? 0 : 1;
}

int damper_esp_flash(const esp_partition_t *partition, damper_flash *flash) {
  const damper_flash empty = DAMPER_FLASH_INIT;
  if (partition->encrypted) return -1;
  *flash = empty;
  /* The library returns the pointer unchanged. */
  flash->context = (void *)(uintptr_t)partition;
  flash->bytes = partition->size;
  flash->erase_bytes = partition->erase_size;
  flash->write_bytes = 4;
  flash->read = partition_read;
  flash->write = partition_write;
  flash->erase = partition_erase;
  return 0;
}
