/* The journal through the flash functions of Zephyr and ESP-IDF. This test defines those functions, over memory. */
#include "check.h"
#include "damper_esp.h"
#include "damper_zephyr.h"
#include <errno.h>
#include <zephyr/drivers/flash.h>
#include <zephyr/storage/flash_map.h>

enum { BYTES = 2 * 4096, AT = 0x1000, PAGE = 2048 };

static uint8_t cells[BYTES];
static uint8_t erased_to = 0xff;

static int put(size_t offset, const uint8_t *bytes, size_t len) {
  CHECK(offset % 4 == 0 && len % 4 == 0 && offset + len <= BYTES);
  for (size_t i = 0; i < len; i++) cells[offset + i] &= bytes[i];
  return 0;
}

static int get(size_t offset, uint8_t *bytes, size_t len) {
  CHECK(offset + len <= BYTES);
  memcpy(bytes, cells + offset, len);
  return 0;
}

static int clear(size_t offset, size_t len, size_t page) {
  CHECK(offset % page == 0 && len % page == 0 && offset + len <= BYTES);
  memset(cells + offset, 0xff, len);
  return 0;
}

const struct device *flash_area_get_device(const struct flash_area *fa) { return fa->fa_dev; }
int flash_area_read(const struct flash_area *fa, off_t off, void *dst, size_t len) {
  CHECK(fa->fa_id == 3);
  return get((size_t)off, dst, len);
}
int flash_area_write(const struct flash_area *fa, off_t off, const void *src, size_t len) {
  CHECK(fa->fa_id == 3);
  return put((size_t)off, src, len);
}
int flash_area_erase(const struct flash_area *fa, off_t off, size_t len) {
  CHECK(fa->fa_id == 3);
  return clear((size_t)off, len, PAGE);
}
uint32_t flash_area_align(const struct flash_area *fa) { return fa->fa_id == 3 ? 4 : 64; }
uint8_t flash_area_erased_val(const struct flash_area *fa) {
  CHECK(fa->fa_id >= 3);
  return erased_to;
}

/* Pages from `AT + BYTES` are larger. */
int flash_get_page_info_by_offs(const struct device *dev, off_t offset, struct flash_pages_info *info) {
  CHECK(dev != NULL);
  info->size = offset < AT + BYTES ? PAGE : 2 * PAGE;
  return offset < 0 ? -EINVAL : 0;
}

esp_err_t esp_partition_read(const esp_partition_t *p, size_t offset, void *dst, size_t size) {
  CHECK(p->size == BYTES);
  return get(offset, dst, size);
}
esp_err_t esp_partition_write(const esp_partition_t *p, size_t offset, const void *src, size_t size) {
  CHECK(p->size == BYTES);
  return put(offset, src, size);
}
esp_err_t esp_partition_erase_range(const esp_partition_t *p, size_t offset, size_t size) {
  CHECK(p->size == BYTES);
  return clear(offset, size, p->erase_size);
}

/* Charges enough steps to erase sectors, with restarts. */
static void charges(const damper_flash *flash) {
  damper_journal_run run = DAMPER_JOURNAL_RUN_INIT;
  uint64_t room[(DAMPER_JOURNAL_BYTES + 7) / 8];
  damper_journal *journal;
  damper_record record;
  static uint64_t memory[(DAMPER_RUN_BYTES(3, 0, 0) + 7) / 8];
  const damper_config config = {.size = sizeof config, .grid_bits = 16, .expected_batch = 2, .noise_multiplier = 1.0,
                                .learning_rate = 0.1, .clip = 1.0f, .budget = 1000};
  damper_run *whose;
  OK(damper_run_init(memory, sizeof memory, 3, &whose));
  OK(damper_run_configure(whose, &config));
  run.run = whose;
  memset(cells, 0xff, BYTES);
  OK(damper_journal_provision(room, sizeof room, flash, &run, DAMPER_FIRST_BOOT, &journal));
  for (uint32_t paid = 1; paid <= 200; paid++) {
    OK(damper_journal_record(journal, &record));
    CHECK(record.paid == paid - 1);
    record.paid = paid;
    CHECK(damper_journal_persist(journal, &record) == 0);
    if (paid % 50 == 0) {
      OK(damper_journal_close(journal));
      OK(damper_journal_open(room, sizeof room, flash, &run, &journal));
    }
  }
  OK(damper_journal_close(journal));
}

int main(void) {
  int device;
  damper_flash flash;
  struct flash_area area = {.fa_id = 3, .fa_off = AT, .fa_size = BYTES, .fa_dev = (const struct device *)&device};
  CHECK(damper_zephyr_flash(&area, &flash) == 0);
  CHECK(flash.bytes == BYTES && flash.erase_bytes == PAGE && flash.write_bytes == 4);
  charges(&flash);
  struct flash_area uneven = area, wide = area, outside = area;
  uneven.fa_size += 4096, wide.fa_id = 4, outside.fa_off = -1;
  CHECK(damper_zephyr_flash(&uneven, &flash) == -ENOTSUP && damper_zephyr_flash(&wide, &flash) == -ENOTSUP);
  CHECK(damper_zephyr_flash(&outside, &flash) == -EINVAL);
  erased_to = 0;
  CHECK(damper_zephyr_flash(&area, &flash) == -ENOTSUP);

  esp_partition_t partition = {.size = BYTES, .erase_size = 4096};
  CHECK(damper_esp_flash(&partition, &flash) == 0 && flash.erase_bytes == 4096);
  charges(&flash);
  partition.encrypted = true;
  CHECK(damper_esp_flash(&partition, &flash) != 0);
  puts("charged");
  return 0;
}
