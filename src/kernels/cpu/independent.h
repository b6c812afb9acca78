// TESSERA_INDEPENDENT before a loop: its rounds do not touch each other's elements, so that g++ may
// vectorise it although its arrays may be one. Clang has no such hint that it may pass over in
// silence, and decides when the loop runs.
#pragma once

#if defined(__clang__)
#define TESSERA_INDEPENDENT
#else
#define TESSERA_INDEPENDENT _Pragma("GCC ivdep")
#endif
