// For tests that count allocations: malloc and its relatives (operator new calls malloc) are
// replaced in the program by versions that tell on_allocation() who called. Included by one source
// of a program, which defines that function. Sanitizers bring a malloc of their own; with them, and
// without glibc, nothing is replaced: see TESSERA_COUNTS_MALLOC.
#pragma once

#include <cerrno>
#include <cstddef>
#include <cstdlib>

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__) || !defined(__GLIBC__)
#define TESSERA_COUNTS_MALLOC 0
#else
#define TESSERA_COUNTS_MALLOC 1
#endif

// May not allocate.
[[maybe_unused]] static void on_allocation(const void* caller);

#if TESSERA_COUNTS_MALLOC
extern "C" {
void* __libc_malloc(size_t);
void* __libc_calloc(size_t, size_t);
void* __libc_realloc(void*, size_t);
void* __libc_memalign(size_t, size_t);

void* malloc(size_t size) {
  on_allocation(__builtin_return_address(0));
  return __libc_malloc(size);
}
void* calloc(size_t count, size_t size) {
  on_allocation(__builtin_return_address(0));
  return __libc_calloc(count, size);
}
void* realloc(void* block, size_t size) {
  on_allocation(__builtin_return_address(0));
  return __libc_realloc(block, size);
}
void* memalign(size_t alignment, size_t size) {
  on_allocation(__builtin_return_address(0));
  return __libc_memalign(alignment, size);
}
void* aligned_alloc(size_t alignment, size_t size) {
  on_allocation(__builtin_return_address(0));
  return __libc_memalign(alignment, size);
}
int posix_memalign(void** block, size_t alignment, size_t size) {
  on_allocation(__builtin_return_address(0));
  *block = __libc_memalign(alignment, size);
  return *block == nullptr ? ENOMEM : 0;
}
}
#endif
