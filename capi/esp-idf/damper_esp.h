/* The journal's flash on ESP-IDF. */
#ifndef DAMPER_ESP_H
#define DAMPER_ESP_H

#include "damper.h"
#include "esp_partition.h"

/* Describes a data partition for the journal, which uses it exclusively. Flash encryption must be off for the partition: it writes
 * 16 bytes at a time, and erased bytes then do not read as ones. Returns 0, or -1 if it is on. */
int damper_esp_flash(const esp_partition_t *partition, damper_flash *flash);

#endif
