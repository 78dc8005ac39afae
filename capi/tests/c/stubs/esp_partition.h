/* The part of ESP-IDF's header of this name that damper_esp.c uses. */
#ifndef STUB_ESP_PARTITION_H
#define STUB_ESP_PARTITION_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef int esp_err_t;
#define ESP_OK 0

typedef struct {
  uint32_t address, size, erase_size;
  char label[17];
  bool encrypted, readonly;
} esp_partition_t;

esp_err_t esp_partition_read(const esp_partition_t *partition, size_t src_offset, void *dst, size_t size);
esp_err_t esp_partition_write(const esp_partition_t *partition, size_t dst_offset, const void *src, size_t size);
esp_err_t esp_partition_erase_range(const esp_partition_t *partition, size_t offset, size_t size);

#endif
