/* A library as CUPTI is, for tests: hands over the records that they set. */
#include <stddef.h>
#include <stdint.h>
#include <string.h>

struct activity {
  uint32_t kind, other[3];
  uint64_t begin, end;
};
struct activity fake_records[8];
int fake_count = 0, fake_open = 0, fake_refuses = 0;
static void (*give)(uint8_t**, size_t*, size_t*);
static void (*take)(void*, uint32_t, uint8_t*, size_t, size_t);

int cuptiActivityRegisterCallbacks(void (*giver)(uint8_t**, size_t*, size_t*),
                                   void (*taker)(void*, uint32_t, uint8_t*, size_t, size_t)) {
  give = giver;
  take = taker;
  ++fake_open;
  return 0;
}
int cuptiActivityEnable(unsigned kind) { return kind == 10 ? fake_refuses : 0; }
int cuptiActivityFlushAll(unsigned how) {
  uint8_t* buffer;
  size_t bytes, most;
  if (fake_count == 0) return 0;
  give(&buffer, &bytes, &most);
  memcpy(buffer, fake_records, sizeof fake_records);
  take(NULL, 0, buffer, bytes, (size_t)fake_count * sizeof *fake_records);
  fake_count = 0;
  return how == 1 ? 0 : 1;
}
int cuptiActivityGetNextRecord(uint8_t* buffer, size_t valid, struct activity** record) {
  struct activity* const next = *record == NULL ? (struct activity*)buffer : *record + 1;
  if ((uint8_t*)next == buffer + valid) return 12;
  *record = next;
  return 0;
}
int cuptiFinalize(void) {
  --fake_open;
  return 0;
}
int cuptiGetResultString(int code, const char** words) {
  *words = code == 35 ? "CUPTI_ERROR_INSUFFICIENT_PRIVILEGES" : "another";
  return 0;
}
