// Which function of a program or library a place in its file belongs to, by its table of symbols.
// Nothing of the file is trusted: one that is no ELF file, is cut off or damaged has no functions.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace tessera {

class ElfFunctions {
 public:
  ElfFunctions() = default;
  // Reads from a descriptor of the file, which stays the caller's.
  explicit ElfFunctions(int fd);

  struct Place {
    std::string function;  // as the linker has it
    uint64_t offset = 0;   // from its beginning
  };
  [[nodiscard]] std::optional<Place> at(uint64_t file_offset) const;
  [[nodiscard]] bool empty() const { return functions_.empty(); }

 private:
  struct Segment {
    uint64_t offset, size_bytes, address;
  };
  struct Function {
    uint64_t address, size_bytes;
    uint32_t name;  // where in names_
  };
  std::vector<Segment> segments_;
  std::vector<Function> functions_;  // by address
  std::string names_;
};

}  // namespace tessera
