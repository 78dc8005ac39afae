/* The journal's flash on ESP-IDF. */
#ifndef DAMPER_ESP_H
#define DAMPER_ESP_H

#include "damper.h"
#include "esp_partition.h"

/* Describes a data partition for the journal, which has it for itself. Flash encryption must be off for the partition: it writes
 * 16 bytes at a time in place of erased ones, and what is erased then does not read as ones. Returns 0, or -1 where it is on. */
int damper_esp_flash(const esp_partition_t *partition, damper_flash *flash);

#endif
