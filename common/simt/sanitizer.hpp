#pragma once
// Whether this is compiled with AddressSanitizer, and its interface if so.

#if defined(__SANITIZE_ADDRESS__)
#define STAGES_SIMT_ASAN 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define STAGES_SIMT_ASAN 1
#endif
#endif

#ifdef STAGES_SIMT_ASAN
#include <sanitizer/asan_interface.h>
#include <sanitizer/common_interface_defs.h>
#else
#define STAGES_SIMT_ASAN 0
#endif
