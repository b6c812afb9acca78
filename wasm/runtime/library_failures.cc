// The C++ library of the target is built without exceptions: what it should throw ends in
// __libcpp_verbose_abort, and a failed allocation in abort. Both are replaceable, and throw here,
// so that such a request is answered with an error as any other. Frames of the library have nothing
// to destroy on the way that a request needs again: at worst they leak.
#include <cstdarg>
#include <cstdlib>
#include <new>
#include <stdexcept>
#include <string>

namespace {

// "%s was thrown in %s" with its texts. The printf of the target, which nothing else here needs,
// would be a hundredth of the module.
std::string with_texts(const char* format, va_list arguments) {
  std::string text;
  for (const char* at = format; *at != '\0'; ++at) {
    const bool is_text = at[0] == '%' && at[1] == 's', is_number = at[0] == '%' && at[1] == 'd';
    if (is_text) text += va_arg(arguments, const char*);
    if (is_number) text += std::to_string(va_arg(arguments, int));
    if (is_text || is_number) {
      ++at;
    } else {
      text += *at;
    }
  }
  return text;
}

}  // namespace

_LIBCPP_BEGIN_NAMESPACE_STD

[[noreturn]] void __libcpp_verbose_abort(const char* format, ...) {
  va_list arguments;
  va_start(arguments, format);
  const std::string text = with_texts(format, arguments);
  va_end(arguments);
  throw std::runtime_error(text);
}

_LIBCPP_END_NAMESPACE_STD

// In place of those of the libraries, which print: fmt calls the first for hexadecimal floats
// alone, which nobody asks for, and the second tells a terminal why the program ends, and there is
// none.
extern "C" {
int snprintf(char*, size_t, const char*, ...) { std::abort(); }
[[noreturn]] void abort_message(const char*, ...) { std::abort(); }
}

void* operator new(size_t size) {
  void* memory = std::malloc(size == 0 ? 1 : size);
  if (memory == nullptr) throw std::bad_alloc();
  return memory;
}
void operator delete(void* memory) noexcept { std::free(memory); }
void operator delete(void* memory, size_t) noexcept { std::free(memory); }
