// Libraries that are opened when they are first needed, so that a program on a machine without them
// starts all the same. They stay open: their threads and handles outlive their users.
#pragma once

#include <functional>
#include <string>

namespace tessera {

// Looked for in this order: the folders that the user names (tensor/machine_folders.h), where the
// loader looks by itself, lib64 of the user's toolkit, and /usr/local/cuda/lib64. Null where there
// is none, with `why`: what the loader said of the first that exists.
void* try_open_library(const std::string& soname, std::string& why);
using TryOpen = std::function<void*(const std::string& soname, std::string& why)>;

// Throw Error: what is missing, or what was found and what is needed, and what to do.
void* open_library(const std::string& soname, const std::string& package,
                   const TryOpen& try_open = try_open_library);
void* find_function(void* library, const char* name);
void require_version(const std::string& package, int found, int needed);

// 91900 -> "9.19.0"
std::string version_text(int version);

template <typename Function>
void look_up(void* library, const char* name, Function& function) {
  function = reinterpret_cast<Function>(find_function(library, name));
}

}  // namespace tessera
