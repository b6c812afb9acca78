// What lies at addresses of another process: its map of memory says which file, and the file's
// symbols which function.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "launch/agent/stacks/elf_functions.h"

namespace tessera {

// The symbols of files that several processes have mapped; each is read once.
class MappedFiles {
 public:
  // `path` as the map of process `pid` has it. No functions where the file is another one by now.
  const ElfFunctions& functions_of(pid_t pid, const std::string& path, uint64_t inode);

 private:
  std::map<std::string, ElfFunctions> files_;
};

class CodeNames {
 public:
  CodeNames(pid_t pid, MappedFiles& files);

  // "tessera::Executor::finish", "libcuda.so.1+0x1a2b" where the file has no symbol for it, or the
  // bare address where no file is mapped. `caller`: it is where a call returns to, so the call is
  // before it.
  [[nodiscard]] std::string name(uint64_t address, bool caller) const;

 private:
  struct Mapping {
    uint64_t begin, end, offset, inode;
    std::string path;
  };
  pid_t pid_;
  MappedFiles& files_;
  std::vector<Mapping> mappings_;
};

}  // namespace tessera
