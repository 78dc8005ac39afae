/* The journal over a flash in memory: power is cut in every write and erase, and no step number is used twice. Misuse is an error. */
#include "check.h"

enum { DIM = 4, BUDGET = 12, SECTORS = 2, WORD = 8 };

static const uint8_t KEY[32] = {7, 8, 9};

/* The flash: bits go from 1 to 0. Power fails in the write or erase after `left` others. */
static struct {
  uint8_t *cells;
  uint32_t bytes, sector, calls;
  long left;
  uint32_t random;
} chip;

static uint32_t next_random(void) {
  chip.random = chip.random * 1664525u + 1013904223u;
  return chip.random >> 8;
}

static int power_fails(void) {
  if (chip.left < 0) return 1;
  return chip.left-- == 0;
}

static int chip_read(void *context, uint32_t offset, uint8_t *bytes, uint32_t len) {
  CHECK(context == &chip && len <= chip.bytes && offset <= chip.bytes - len && offset % 32 == 0 && len == 32);
  memcpy(bytes, chip.cells + offset, len);
  return 0;
}

static int chip_write(void *context, uint32_t offset, const uint8_t *bytes, uint32_t len) {
  CHECK(context == &chip && len <= chip.bytes && offset <= chip.bytes - len && offset % WORD == 0 && len % WORD == 0);
  if (chip.left < 0) return 5;
  int fails = power_fails();
  for (uint32_t i = 0; i < len; i++) {
    /* A power cut leaves a word unchanged, written, or with some of its bits written. */
    uint8_t mask = fails ? (uint8_t)next_random() : 0;
    chip.cells[offset + i] &= (uint8_t)(bytes[i] | mask);
  }
  chip.calls++;
  return fails;
}

static int chip_erase(void *context, uint32_t offset, uint32_t len) {
  CHECK(context == &chip && len == chip.sector && offset % chip.sector == 0 && offset < chip.bytes);
  if (chip.left < 0) return 5;
  int fails = power_fails();
  for (uint32_t i = 0; i < len; i++) {
    if (!fails || next_random() % 2) chip.cells[offset + i] = 0xff;
  }
  chip.calls++;
  return fails;
}

static damper_flash flash_of(uint32_t sector) {
  damper_flash flash = DAMPER_FLASH_INIT;
  flash.context = &chip;
  flash.bytes = chip.bytes;
  flash.erase_bytes = chip.sector = sector;
  flash.write_bytes = WORD;
  flash.read = chip_read;
  flash.write = chip_write;
  flash.erase = chip_erase;
  return flash;
}

static damper_flash erased(uint32_t sector, long left) {
  chip.bytes = SECTORS * (uint32_t)damper_journal_erase_size();
  if (chip.cells == NULL) chip.cells = malloc(chip.bytes);
  CHECK(chip.cells != NULL);
  memset(chip.cells, 0xff, chip.bytes);
  chip.left = left;
  return flash_of(sector);
}

/* The run of the journals here, started without a record. */
static damper_config config_of(double multiplier) {
  return (damper_config){.size = sizeof(damper_config), .grid_bits = 16, .expected_batch = 2, .noise_multiplier = multiplier,
                         .learning_rate = 0.1, .clip = 1.0f, .budget = BUDGET, .samples = 4, .sampling_rate = DAMPER_SAMPLING_RATE_ONE / 2};
}

static damper_run *configured(const damper_config *config, size_t dim) {
  size_t size = rounded(damper_run_size(dim, 0, 0) + DAMPER_RENYI_FILTER_BYTES);
  damper_run *run;
  OK(damper_run_init(walled(size), size, dim, &run));
  OK(damper_run_configure(run, config));
  return run;
}

static damper_journal_run owner(void) {
  static damper_run *whose;
  if (whose == NULL) {
    const damper_config config = config_of(1.0);
    whose = configured(&config, DIM);
  }
  static const uint8_t description[] = "run 1";
  damper_journal_run run = DAMPER_JOURNAL_RUN_INIT;
  run.run = whose;
  run.description = description;
  run.description_len = sizeof description - 1;
  return run;
}

/* Opens the journal and continues the run until power fails or the budget is used up. `taken` has the steps ever opened. */
static damper_status live(const damper_flash *flash, uint8_t *taken) {
  const damper_journal_run of = owner();
  const damper_config config = config_of(1.0);
  size_t journal_size = rounded(damper_journal_size()), size = rounded(damper_run_size(DIM, 0, 0));
  static void *journal_memory, *run_memory;
  if (journal_memory == NULL) journal_memory = walled(journal_size), run_memory = walled(size);
  damper_journal *journal;
  damper_run *run;
  damper_record record;
  float params[DIM] = {0}, grad[DIM] = {0.5f, 0, 0, -1};
  damper_status status = damper_journal_open(journal_memory, journal_size, flash, &of, &journal);
  if (status != DAMPER_STATUS_OK) return status;
  OK(damper_journal_record(journal, &record));
  CHECK(record.budget == BUDGET && record.order == 0);
  OK(damper_run_init(run_memory, size, DIM, &run));
  OK(damper_run_configure(run, &config));
  OK(damper_set_key(run, KEY));
  OK(damper_set_store(run, damper_journal_persist, journal));
  OK(damper_resume(run, &record));
  OK(damper_run_start(run));
  for (;;) {
    uint32_t number;
    status = damper_step_open(run, &number);
    if (status != DAMPER_STATUS_OK) break;
    CHECK(number < BUDGET && !taken[number]);
    taken[number] = 1;
    OK(damper_add(run, grad, DIM));
    OK(damper_step_finish(run, params, DIM));
  }
  OK(damper_run_close(run));
  OK(damper_journal_close(journal));
  return status;
}

/* Cuts power in call number `cut`, and in every `again`th call after each restart. */
static int survives(uint32_t sector, long cut, long again) {
  damper_flash flash = erased(sector, cut);
  const damper_journal_run of = owner();
  uint8_t taken[BUDGET] = {0};
  uint64_t room[(DAMPER_JOURNAL_BYTES + 7) / 8];
  damper_journal *journal;
  chip.calls = 0;
  damper_status status = damper_journal_provision(room, sizeof room, &flash, &of, DAMPER_FIRST_BOOT, &journal);
  if (status != DAMPER_STATUS_OK) {
    /* The factory erases and tries again. */
    CHECK(chip.left < 0);
    flash = erased(sector, again);
    OK(damper_journal_provision(room, sizeof room, &flash, &of, DAMPER_FIRST_BOOT, &journal));
  }
  OK(damper_journal_close(journal));
  int restarts = 0;
  while ((status = live(&flash, taken)) != DAMPER_STATUS_BUDGET_SPENT) {
    CHECK(status == DAMPER_STATUS_NOT_PERSISTED || status == DAMPER_STATUS_FLASH || status == DAMPER_STATUS_WORN);
    CHECK(chip.left < 0 && ++restarts < 1000);
    chip.left = again;
  }
  chip.left = 1000;
  return restarts;
}

static void no_cut_forgets_a_charge(void) {
  int restarts = survives(512, 100000, 100000);
  CHECK(restarts == 0);
  uint32_t calls = chip.calls;
  CHECK(calls > 3 * BUDGET);
  for (uint32_t cut = 0; cut < calls; cut++) {
    for (uint32_t seed = 0; seed < 8; seed++) {
      chip.random = 1000 * cut + seed;
      restarts += survives(512 << seed % 3, cut, seed % 2 ? 100000 : 7);
    }
  }
  CHECK(restarts > (int)calls);
}

static void misuse_is_answered(void) {
  const damper_journal_run of = owner();
  damper_flash flash = erased(512, 100000), other;
  uint64_t room[(DAMPER_JOURNAL_BYTES + 7) / 8];
  size_t size = sizeof room;
  damper_journal *journal = NULL;
  damper_record record;
  CHECK(damper_journal_size() <= size && damper_journal_erase_size() == 4096);

  IS(BLANK, damper_journal_open(room, size, &flash, &of, &journal));
  IS(RANGE, damper_journal_provision(room, size, &flash, &of, 1, &journal));
  IS(NULL, damper_journal_provision(NULL, size, &flash, &of, DAMPER_FIRST_BOOT, &journal));
  IS(NULL, damper_journal_provision(room, size, NULL, &of, DAMPER_FIRST_BOOT, &journal));
  IS(NULL, damper_journal_provision(room, size, &flash, NULL, DAMPER_FIRST_BOOT, &journal));
  IS(NULL, damper_journal_provision(room, size, &flash, &of, DAMPER_FIRST_BOOT, NULL));
  IS(MISALIGNED, damper_journal_provision((char *)room + 1, size - 8, &flash, &of, DAMPER_FIRST_BOOT, &journal));
  IS(TOO_SMALL, damper_journal_provision(room, damper_journal_size() - 1, &flash, &of, DAMPER_FIRST_BOOT, &journal));
  IS(OVERLAP, damper_journal_provision(room, size, &flash, &of, DAMPER_FIRST_BOOT, (damper_journal **)room));
  other = flash, other.size = 8;
  IS(SIZE, damper_journal_open(room, size, &other, &of, &journal));
  other = flash, other.write = NULL;
  IS(NULL, damper_journal_open(room, size, &other, &of, &journal));
  other = flash, other.write_bytes = 64;
  IS(GEOMETRY, damper_journal_open(room, size, &other, &of, &journal));
  other = flash, other.erase_bytes = 768;
  IS(GEOMETRY, damper_journal_open(room, size, &other, &of, &journal));
  other = flash, other.bytes = 4096;
  IS(GEOMETRY, damper_journal_open(room, size, &other, &of, &journal));
  damper_journal_run another = of;
  another.size = 4;
  IS(SIZE, damper_journal_open(room, size, &flash, &another, &journal));
  another = of, another.description = NULL;
  IS(NULL, damper_journal_open(room, size, &flash, &another, &journal));
  CHECK(journal == NULL);

  OK(damper_journal_provision(room, size, &flash, &of, DAMPER_FIRST_BOOT, &journal));
  OK(damper_journal_record(journal, &record));
  CHECK(record.paid == 0 && record.budget == BUDGET);
  IS(NULL, damper_journal_record(journal, NULL));
  record.paid = 3;
  CHECK(damper_journal_persist(journal, &record) == 0);
  CHECK(damper_journal_persist(journal, &record) == DAMPER_STATUS_RECORD);
  record.budget = 5;
  CHECK(damper_journal_persist(journal, &record) == DAMPER_STATUS_CONFIGURATION);
  CHECK(damper_journal_persist(journal, NULL) == DAMPER_STATUS_NULL && damper_journal_persist(NULL, &record) == DAMPER_STATUS_NULL);
  record.budget = BUDGET, record.paid = 4;
  chip.left = 0;
  CHECK(damper_journal_persist(journal, &record) == DAMPER_STATUS_FLASH);
  chip.left = 1000;
  OK(damper_journal_close(journal));
  IS(NOT_A_JOURNAL, damper_journal_close(journal));
  IS(NOT_A_JOURNAL, damper_journal_record(journal, &record));
  for (size_t i = 0; i < damper_journal_size() / 8; i++) CHECK(room[i] == 0);

  IS(OCCUPIED, damper_journal_provision(room, size, &flash, &of, DAMPER_FIRST_BOOT, &journal));
  /* Every number that affects the privacy cost makes another run, under the same description. */
  damper_config changed = config_of(0.2);
  for (int which = 0; which < 8; which++) {
    if (which > 0) changed = config_of(1.0);
    if (which == 1) changed.budget++;
    if (which == 2) changed.samples++;
    if (which == 3) changed.sampling_rate++;
    if (which == 4) changed.expected_batch++;
    if (which == 5) changed.grid_bits--;
    if (which == 6) changed.clip = 2.0f;
    another = of, another.run = configured(&changed, which == 7 ? DIM + 1 : DIM);
    IS(CONFIGURATION, damper_journal_open(room, size, &flash, &another, &journal));
  }
  another.run = configured(&changed, DIM);
  OK(damper_choose_quantile((damper_run *)another.run, 0.5, 0.2, 1.5, 1.0f, NULL));
  IS(CONFIGURATION, damper_journal_open(room, size, &flash, &another, &journal));
  another.run = NULL;
  IS(NULL, damper_journal_open(room, size, &flash, &another, &journal));
  another = of, another.description_len--;
  IS(CONFIGURATION, damper_journal_open(room, size, &flash, &another, &journal));
  OK(damper_journal_open(room, size, &flash, &of, &journal));
  OK(damper_journal_record(journal, &record));
  CHECK(record.paid >= 3);
  OK(damper_journal_close(journal));
  memset(chip.cells, 0x55, 4096);
  IS(DAMAGED, damper_journal_open(room, size, &flash, &of, &journal));
  /* No charge is left as a basis: the whole budget is charged. */
  OK(damper_journal_recover(room, size, &flash, &of, 1, 0.0, &journal));
  OK(damper_journal_record(journal, &record));
  CHECK(record.paid == BUDGET);
  OK(damper_journal_close(journal));
}

/* A run with another noise cannot charge the journal, and does not resume from its record. */
static void a_journal_pays_for_its_run_alone(void) {
  const damper_journal_run of = owner();
  const damper_config quiet = config_of(0.2);
  damper_flash flash = erased(512, 100000);
  uint64_t room[(DAMPER_JOURNAL_BYTES + 7) / 8];
  damper_journal *journal;
  damper_record record;
  uint32_t number = 7;
  OK(damper_journal_provision(room, sizeof room, &flash, &of, DAMPER_FIRST_BOOT, &journal));
  OK(damper_journal_record(journal, &record));
  CHECK(record.fingerprint != 0);
  damper_run *run = configured(&quiet, DIM);
  OK(damper_set_key(run, KEY));
  OK(damper_set_store(run, damper_journal_persist, journal));
  OK(damper_run_start(run));
  IS(NOT_PERSISTED, damper_step_open(run, &number));
  OK(damper_run_close(run));
  run = configured(&quiet, DIM);
  OK(damper_set_key(run, KEY));
  OK(damper_set_store(run, damper_journal_persist, journal));
  OK(damper_resume(run, &record));
  IS(CONFIGURATION, damper_run_start(run));
  OK(damper_run_close(run));
  OK(damper_journal_record(journal, &record));
  CHECK(record.paid == 0 && number == 7);
  OK(damper_journal_close(journal));
}

/* A Renyi filter's record survives as a ledger's does. */
static void a_filters_record_is_kept(void) {
  damper_journal_run of = owner();
  of.order = 8, of.epsilon = 3.0, of.delta = 1e-5;
  damper_flash flash = erased(4096, 100000);
  uint64_t room[(DAMPER_JOURNAL_BYTES + 7) / 8];
  damper_journal *journal;
  damper_record record;
  OK(damper_journal_provision(room, sizeof room, &flash, &of, DAMPER_FIRST_BOOT, &journal));
  OK(damper_journal_record(journal, &record));
  CHECK(record.order == 8 && record.divergence == 0.0);
  record.paid = 1, record.divergence = 0.25;
  CHECK(damper_journal_persist(journal, &record) == 0);
  OK(damper_journal_close(journal));
  OK(damper_journal_open(room, sizeof room, &flash, &of, &journal));
  OK(damper_journal_record(journal, &record));
  CHECK(record.paid == 1 && record.divergence == 0.25 && record.order == 8);
  OK(damper_journal_close(journal));
}

/* A journal that Rust code of an earlier version wrote: seven steps are charged, and the eighth is next. */
static void an_earlier_journal_is_gone_on_with(void) {
  const damper_journal_run of = owner();
  damper_flash flash = erased(4096, 100000);
  FILE *file = fopen("../journal/tests/earlier/ledger.bin", "rb");
  CHECK(file != NULL && fread(chip.cells, 1, chip.bytes, file) == chip.bytes && fgetc(file) == EOF && fclose(file) == 0);
  uint64_t room[(DAMPER_JOURNAL_BYTES + 7) / 8];
  damper_journal *journal;
  damper_record record;
  OK(damper_journal_open(room, sizeof room, &flash, &of, &journal));
  OK(damper_journal_record(journal, &record));
  CHECK(record.paid == 7 && record.budget == BUDGET && record.order == 0);
  OK(damper_journal_close(journal));
  uint8_t taken[BUDGET] = {0};
  IS(BUDGET_SPENT, live(&flash, taken));
  for (uint32_t number = 0; number < BUDGET; number++) CHECK(taken[number] == (number >= 7));
}

static damper_journal *calling;

static int calls_back(void *context, uint32_t offset, const uint8_t *bytes, uint32_t len) {
  damper_record record = {BUDGET, 9, 0.0, 0, 0};
  CHECK(damper_journal_persist(calling, &record) == DAMPER_STATUS_BUSY);
  IS(BUSY, damper_journal_record(calling, &record));
  IS(BUSY, damper_journal_close(calling));
  return chip_write(context, offset, bytes, len);
}

static void a_call_from_the_flash_is_refused(void) {
  const damper_journal_run of = owner();
  damper_flash flash = erased(512, 100000);
  uint64_t room[(DAMPER_JOURNAL_BYTES + 7) / 8];
  damper_record record;
  OK(damper_journal_provision(room, sizeof room, &flash, &of, DAMPER_FIRST_BOOT, &calling));
  OK(damper_journal_record(calling, &record));
  record.paid = 1;
  OK(damper_journal_close(calling));
  flash.write = calls_back;
  OK(damper_journal_open(room, sizeof room, &flash, &of, &calling));
  CHECK(damper_journal_persist(calling, &record) == 0);
  OK(damper_journal_close(calling));
}

int main(void) {
  misuse_is_answered();
  a_journal_pays_for_its_run_alone();
  a_filters_record_is_kept();
  an_earlier_journal_is_gone_on_with();
  a_call_from_the_flash_is_refused();
  no_cut_forgets_a_charge();
  free(chip.cells);
  puts("no charge forgotten");
  return 0;
}
