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

std::string four_digits(unsigned value, const char* digits) {
  std::string text;
  for (int shift = 12; shift >= 0; shift -= 4) text += digits[(value >> shift) & 0xFU];
  return text;
}

// What the libraries here print: "%s was thrown in %s" of failures, and "\\u%04x" and "<U+%.4X>" of
// odd characters in JSON. The printf of the target would be a hundredth of the module.
std::string printed(const char* format, va_list arguments) {
  std::string text;
  for (const char* at = format; *at != '\0'; ++at) {
    if (*at != '%') {
      text += *at;
      continue;
    }
    do ++at;
    while (*at == '.' || (*at >= '0' && *at <= '9'));  // every width is four digits
    switch (*at) {
      case 's':
        text += va_arg(arguments, const char*);
        break;
      case 'd':
        text += std::to_string(va_arg(arguments, int));
        break;
      case 'x':
        text += four_digits(va_arg(arguments, unsigned), "0123456789abcdef");
        break;
      case 'X':
        text += four_digits(va_arg(arguments, unsigned), "0123456789ABCDEF");
        break;
      default:
        std::abort();
    }
  }
  return text;
}

}  // namespace

_LIBCPP_BEGIN_NAMESPACE_STD

[[noreturn]] void __libcpp_verbose_abort(const char* format, ...) {
  va_list arguments;
  va_start(arguments, format);
  const std::string text = printed(format, arguments);
  va_end(arguments);
  throw std::runtime_error(text);
}

_LIBCPP_END_NAMESPACE_STD

extern "C" {
int snprintf(char* out, size_t size, const char* format, ...) {
  va_list arguments;
  va_start(arguments, format);
  const std::string text = printed(format, arguments);
  va_end(arguments);
  if (size > 0) out[text.copy(out, size - 1)] = '\0';
  return static_cast<int>(text.size());
}
// It tells a terminal why the program ends, and there is none.
[[noreturn]] void abort_message(const char*, ...) { std::abort(); }
}

void* operator new(size_t size) {
  void* memory = std::malloc(size == 0 ? 1 : size);
  if (memory == nullptr) throw std::bad_alloc();
  return memory;
}
void operator delete(void* memory) noexcept { std::free(memory); }
void operator delete(void* memory, size_t) noexcept { std::free(memory); }
