/* A library as the driver's NVML is, of one GPU, for tests: says what they set in it. */
#include <string.h>

unsigned fake_clock = 1980;
unsigned long long fake_reasons = 1;
int fake_asked = 0, fake_open = 0, fake_init = 0;

int nvmlInit_v2(void) {
  if (fake_init != 0) return fake_init;
  ++fake_open;
  return 0;
}
int nvmlShutdown(void) {
  --fake_open;
  return 0;
}
const char* nvmlErrorString(int code) {
  return code == 6 ? "Not Found" : code == 9 ? "Driver Not Loaded" : "Unknown Error";
}
int nvmlDeviceGetHandleByUUID(const char* uuid, void** device) {
  *device = &fake_clock;
  return strcmp(uuid, "GPU-00010203-0405-0607-0809-0a0b0c0d0e0f") == 0 ? 0 : 6;
}
int nvmlDeviceGetClockInfo(void* device, int type, unsigned* mhz) {
  ++fake_asked;
  *mhz = fake_clock;
  return device == &fake_clock && type == 1 ? 0 : 2;
}
int nvmlDeviceGetMaxClockInfo(void* device, int type, unsigned* mhz) {
  *mhz = 1985;
  return device == &fake_clock && type == 1 ? 0 : 2;
}
/* Older drivers lack this or that: all of them nvmlDeviceGetEnforcedPowerLimit, and more these. */
#ifndef FAKE_OLDER
int nvmlSystemGetDriverVersion(char* version, unsigned length) {
  strncpy(version, "580.95.05", length);
  return 0;
}
int nvmlDeviceGetCurrentClocksThrottleReasons(void* device, unsigned long long* reasons) {
  *reasons = fake_reasons;
  return device == &fake_clock ? 0 : 2;
}
#endif
