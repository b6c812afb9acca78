#include "launch/agent/stacks/code_names.h"

#include <cxxabi.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <memory>
#include <sstream>
#include <string_view>

#include "base/text/printable.h"
#include "launch/unique_fd.h"

namespace tessera {
namespace {

constexpr size_t kMostCharacters = 120;

// Without the types of arguments: "tessera::Executor::run", "tessera::f::{lambda#1}::operator".
std::string without_arguments(std::string_view name) {
  constexpr std::string_view kNameless = "(anonymous namespace)::";
  std::string text;
  int open = 0;
  for (size_t i = 0; i < name.size(); ++i) {
    if (name.substr(i).starts_with(kNameless)) {
      i += kNameless.size() - 1;
      continue;
    }
    open += name[i] == '(' ? 1 : 0;
    if (open == 0) text += name[i];
    open -= name[i] == ')' && open > 0 ? 1 : 0;
  }
  constexpr std::string_view kConst = " const";
  if (text.ends_with(kConst)) text.resize(text.size() - kConst.size());
  return text;
}

std::string readable(const std::string& linked) {
  int status = 0;
  const std::unique_ptr<char, decltype(&std::free)> name(
      abi::__cxa_demangle(linked.c_str(), nullptr, nullptr, &status), std::free);
  const std::string text = status == 0 ? without_arguments(name.get()) : linked;
  return shortened(text, kMostCharacters);
}

}  // namespace

const ElfFunctions& MappedFiles::functions_of(pid_t pid, const std::string& path, uint64_t inode) {
  const auto [place, is_new] = files_.try_emplace(path);
  if (!is_new) return place->second;
  // A program that has been built anew since is still there as that of its processes.
  for (const std::string& name : {path, fmt::format("/proc/{}/exe", pid)}) {
    const UniqueFd file(::open(name.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
    struct stat status {};
    if (!file.valid() || ::fstat(file.get(), &status) != 0) continue;
    if (!S_ISREG(status.st_mode) || status.st_ino != inode) continue;
    place->second = ElfFunctions(file.get());
    break;
  }
  return place->second;
}

CodeNames::CodeNames(pid_t pid, MappedFiles& files) : pid_(pid), files_(files) {
  std::ifstream maps(fmt::format("/proc/{}/maps", pid));
  // 7f1c2000-7f1c8000 r-xp 00002000 08:01 393226   /usr/lib/libc.so.6
  for (std::string line; std::getline(maps, line);) {
    Mapping mapping{};
    char dash = 0;
    std::string permissions;
    std::string device;
    std::istringstream words(line);
    words >> std::hex >> mapping.begin >> dash >> mapping.end >> permissions >> mapping.offset >>
        device >> std::dec >> mapping.inode >> std::ws;
    std::getline(words, mapping.path);
    if (permissions.find('x') != std::string::npos) mappings_.push_back(std::move(mapping));
  }
}

std::string CodeNames::name(uint64_t address, bool caller) const {
  const uint64_t wanted = address - (caller ? 1 : 0);
  const auto mapping = std::find_if(mappings_.begin(), mappings_.end(), [&](const Mapping& one) {
    return wanted >= one.begin && wanted < one.end;
  });
  if (mapping == mappings_.end() || mapping->inode == 0) return fmt::format("0x{:x}", address);
  const uint64_t offset = wanted - mapping->begin + mapping->offset;
  const ElfFunctions& functions = files_.functions_of(pid_, mapping->path, mapping->inode);
  if (const auto place = functions.at(offset)) return readable(place->function);
  return fmt::format("{}+0x{:x}",
                     shortened(std::filesystem::path(mapping->path).filename().string()), offset);
}

}  // namespace tessera
