// The C++ library of the target is built without exceptions: what it should throw ends in
// __libcpp_verbose_abort, and a failed allocation in abort. Both are replaceable, and throw here,
// so that such a request is answered with an error as any other. Frames of the library have nothing
// to destroy on the way that a request needs again: at worst they leak.
#include <cstdarg>
#include <cstdio>
#include <cstdlib>
#include <new>
#include <stdexcept>

_LIBCPP_BEGIN_NAMESPACE_STD

[[noreturn]] void __libcpp_verbose_abort(const char* format, ...) {
  char text[256];
  va_list arguments;
  va_start(arguments, format);
  std::vsnprintf(text, sizeof text, format, arguments);
  va_end(arguments);
  throw std::runtime_error(text);
}

_LIBCPP_END_NAMESPACE_STD

void* operator new(size_t size) {
  void* memory = std::malloc(size == 0 ? 1 : size);
  if (memory == nullptr) throw std::bad_alloc();
  return memory;
}
void operator delete(void* memory) noexcept { std::free(memory); }
void operator delete(void* memory, size_t) noexcept { std::free(memory); }
