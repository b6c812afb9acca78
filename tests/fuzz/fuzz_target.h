// For programs of libFuzzer: what bytes from outside may do to a parser is to be read, or to be
// refused with an Error. Anything else (another exception, a sanitizer's finding, a hang) ends the
// program, and libFuzzer keeps the bytes.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <functional>
#include <string>

#include "base/error.h"

namespace tessera::fuzz {

inline std::string text_of(const uint8_t* data, size_t size) {
  return {reinterpret_cast<const char*>(data), size};
}

// Whether it was read.
inline bool read_or_refuse(const std::function<void()>& parse) {
  try {
    parse();
    return true;
  } catch (const Error&) {
    return false;
  }
}

inline void expect(bool holds) {
  if (!holds) std::abort();
}

}  // namespace tessera::fuzz

// The words of libFuzzer.
extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size);
